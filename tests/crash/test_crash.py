"""Crash proof: workers die by SIGKILL while they import, settle and react, and no promise breaks.

In a process of its own, which forks its workers before it has any thread. ``AFTERTURN_TEST_KILLS`` asks for more
kills, ``AFTERTURN_TEST_SEED`` for the seed of a failure; ``python -m tests.crash --help`` tells the rest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("AFTERTURN_TEST_KILLS", "40"))
SEED = os.environ.get("AFTERTURN_TEST_SEED", "20260301")


def crash(*arguments: str, code: int = 0) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash", "--json", *arguments],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("AFTERTURN_")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    report: dict[str, Any] = json.loads(done.stdout or "{}")
    return report


@pytest.mark.timeout(60 + 2 * KILLS)
def test_no_promise_breaks_however_often_workers_are_killed() -> None:
    report = crash("--kills", str(KILLS), "--seed", SEED)
    assert report["broken"] == []
    assert report["kills"] >= KILLS
    assert report["acknowledgedCalls"] > KILLS, "too little was done between the kills"
    assert report["webhooksAndAlerts"] > KILLS / 2, "too little was done between the kills"


@pytest.mark.parametrize("point", ["commit:before", "commit:after"])
@pytest.mark.thorough
def test_no_promise_breaks_whichever_commit_was_the_last(point: str) -> None:
    """The same small scenario, killed at its first commit, at its second, and so on until it comes through."""
    report = crash("--every", point)
    assert report["broken"] == []
    assert report["kills"] >= 12, "the scenario has more commits than that"
    assert report["finishedBeforeTheirKill"] > 0, "the scenario never came to its end"


def test_the_driver_s_usage_is_checked() -> None:
    crash("--kills", "none", code=2)
    crash("--every", "nowhere", code=2)
