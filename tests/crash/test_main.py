"""What the command tells and how it ends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.crash import __main__ as command
from tests.crash.cycle import Result
from tests.crash.driver import Job, Report


def ending_with(*results: Result, error: type[BaseException] | None = None) -> Callable[..., None]:
    """In place of a run: these results, or fewer where that is enough, and then the error."""

    def run(jobs: Iterator[Job], report: Report, enough: Callable[[Report, Result], bool], **given: Any) -> None:
        for result in results:
            report.add(result)
            given["progress"](report)
            if enough(report, result):
                break
        if error is not None:
            raise error
        if report.broken:
            report.kept = Path("/somewhere")

    return run


def kills(count: int) -> Counter[str]:
    return Counter({"commit:after": count})


def test_it_ends_with_0_once_enough_were_killed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "run", ending_with(*(Result(number, kills(60)) for number in range(9))))
    assert command.main(["--kills", "100", "--seed", "5", "--json"]) == 0
    told = capsys.readouterr()
    report = json.loads(told.out)
    assert (report["seed"], report["kills"], report["cycles"], report["broken"]) == (5, 120, 2, [])
    assert "seed 5" in told.err
    assert "120 kills (of 100)" in told.err


def test_a_broken_promise_ends_with_1_and_tells_how_to_replay_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = Result(3, kills(4), problems=["webhooks: ('c1', 'm1') was never delivered"])
    monkeypatch.setattr(command, "run", ending_with(bad))
    assert command.main(["--seed", "5"]) == 1
    told = capsys.readouterr()
    assert "broken: 1" in told.out
    assert "--seed 5 --cycle 3" in told.err
    assert "was never delivered" in told.err
    assert "/somewhere" in told.err


def test_it_stops_when_more_of_the_same_would_tell_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = [Result(number, kills(1), problems=["file: damaged"]) for number in range(50)]
    monkeypatch.setattr(command, "run", ending_with(*bad))
    assert command.main(["--json"]) == 1


def test_interrupted_it_reports_what_it_has_and_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "run", ending_with(Result(0, kills(7)), error=KeyboardInterrupt))
    assert command.main(["--json"]) == 130
    assert json.loads(capsys.readouterr().out)["kills"] == 7


def test_without_a_seed_it_takes_a_new_one_and_tells_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "run", ending_with())
    command.main(["--json"])
    told = capsys.readouterr()
    assert f"seed {json.loads(told.out)['seed']}" in told.err
