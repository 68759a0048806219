"""A cycle follows from its seed, and every point of a plan exists in the code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.crash import points
from tests.crash.plan import Part, Verb, make_plan

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_the_same_seed_and_cycle_give_the_same_plan() -> None:
    assert make_plan(4, 2, NOW) == make_plan(4, 2, NOW)
    assert make_plan(4, 2, NOW) != make_plan(4, 3, NOW) != make_plan(5, 3, NOW)


def test_the_time_of_day_moves_messages_and_nothing_else() -> None:
    plan, later = make_plan(4, 2, NOW), make_plan(4, 2, NOW + timedelta(hours=1))
    assert plan.rounds == later.rounds
    assert [step.message_ids for thread in plan.threads for step in thread] == [
        step.message_ids for thread in later.threads for step in thread
    ]


def test_turns_have_more_than_one_message_so_that_a_half_one_would_show() -> None:
    for cycle in range(20):
        for thread in make_plan(1, cycle, NOW).threads:
            assert all(len(step.messages) in (2, 3) for step in thread if step.verb is Verb.SETTLE)


def test_all_parts_are_killed_alone_and_beside_others() -> None:
    rounds = [one for cycle in range(60) for one in make_plan(1, cycle, NOW).rounds]
    victims = {(worker.part, len(one.workers) > 1) for one in rounds for worker in one.workers if worker.kill}
    assert victims >= {(part, alone) for part in (Part.SETTLE, Part.IMPORT, Part.DRAIN) for alone in (True, False)}
    assert any(
        [worker.kill is not None for worker in one.workers if worker.part is Part.REACT] == [True, False]
        for one in rounds
    ), "two reaction workers on one file, one killed"


@pytest.mark.parametrize("name", points.CALLS)
def test_a_point_names_a_function_that_exists(name: str) -> None:
    owner, attribute = points.locate(name)
    assert callable(getattr(owner, attribute))


def test_every_point_of_a_part_is_known() -> None:
    named = {point.partition(":")[0] for part in points.POINTS_OF.values() for point in part if point not in points.SQL}
    assert named <= points.CALLS.keys()


@pytest.mark.parametrize(("ending", "status"), [("SIGKILL", -signal.SIGKILL), ("SIGSTOP", 0)])
def test_the_third_pass_is_the_last_one_when_the_third_was_chosen(ending: str, status: int) -> None:
    """A stopped process goes on when it is told to."""
    passes = (
        "import os, signal\n"
        "from tests.crash import points\n"
        f"points.arm('begin:after', 3, signal.{ending})\n"
        "for _ in range(5):\n"
        "    os.write(1, b'.')\n"
        "    points.passed('begin:before')\n"
        "    points.passed('begin:after')\n"
    )
    with subprocess.Popen([sys.executable, "-c", passes], cwd=ROOT, stdout=subprocess.PIPE) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        assert process.stdout is not None
        assert os.read(process.stdout.fileno(), 10) == b"..."
        process.send_signal(signal.SIGCONT)
        assert process.wait() == status
