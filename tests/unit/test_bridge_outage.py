"""Whoever is on call reads of an outage twice: that it has begun, and that it is over."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from pathlib import Path

import pytest
from tests.faults.rig import open_rig, registry_of

from afterturn.bridge.bridge import Outage, ReceiveOptions

ENGINE, STORE = "EngineUnavailable", "StoreBusy"


class Told:
    """The log of a bridge, and a clock of its own."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, logger="afterturn")
        self.caplog = caplog
        self.now = 100.0
        self.outage = Outage(lambda: self.now)

    @property
    def lines(self) -> list[str]:
        return [record.getMessage() for record in self.caplog.records if "action=bridge_" in record.getMessage()]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return Told(caplog)


def test_one_line_when_it_begins_and_one_when_it_ends_however_many_meet_it(told: Told) -> None:
    for attempt in range(3):
        for run in range(5):
            told.now += 1
            told.outage.begin(run, ENGINE)
        assert told.lines == ["action=bridge_paused error=EngineUnavailable"], attempt
    for run in range(5):
        told.now += 100
        told.outage.end(run)
    assert told.lines[1:] == ["action=bridge_resumed age_s=514"]


def test_it_ends_when_the_engine_answers_though_runs_go_on_later(told: Told) -> None:
    told.outage.begin(0, ENGINE)
    told.outage.begin(1, ENGINE)
    told.now += 60
    told.outage.answered()
    for run in (0, 1):
        told.now += 20
        told.outage.end(run)
    assert told.lines[-1] == "action=bridge_resumed age_s=60"


def test_an_answer_that_was_none_ends_nothing(told: Told) -> None:
    told.outage.begin(0, ENGINE)
    told.outage.answered()
    told.now += 60
    told.outage.begin(0, ENGINE)
    told.outage.end(0)
    assert told.lines[-1] == "action=bridge_resumed age_s=60"
    told.outage.end(0)
    assert len(told.lines) == 2


def test_another_kind_of_error_is_told_too_and_the_next_outage_anew(told: Told) -> None:
    for error in (ENGINE, STORE, ENGINE, STORE):
        told.outage.begin(0, error)
    told.outage.end(0)
    told.outage.begin(0, STORE)
    assert [line.partition(" ")[2] for line in told.lines] == [
        "error=EngineUnavailable",
        "error=StoreBusy",
        "age_s=0",
        "error=StoreBusy",
    ]


async def test_all_loops_of_a_bridge_tell_of_one_outage(tmp_path: Path, told: Told) -> None:
    with open_rig(tmp_path / "a.db", registry_of("topics")) as rig:
        for number in range(4):
            await rig.settle(f"c{number}", "m1")
        rig.signaler.down = 10**6
        stop = asyncio.Event()
        running = asyncio.create_task(
            rig.bridge.run(stop, asyncio.Event(), ReceiveOptions(batch=10, long_polls=4), poll=0.001)
        )
        while not rig.signaler.refusals:  # noqa: ASYNC110 - asks a bridge
            await asyncio.sleep(0.001)
        rig.clock.advance(timedelta(hours=13))
        await asyncio.sleep(0.03)
        rig.signaler.down = 0
        while len({one.conversation_id for one in rig.signaler.taken}) < 4 or "bridge_resumed" not in told.lines[-1]:
            rig.clock.advance(timedelta(hours=13))
            await asyncio.sleep(0.005)
        stop.set()
        await running
    assert [line.partition(" ")[0] for line in told.lines] == ["action=bridge_paused", "action=bridge_resumed"]
    released = [one.getMessage() for one in told.caplog.records if "records_released" in one.getMessage()]
    assert released[0].endswith("count=4")
