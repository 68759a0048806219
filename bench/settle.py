"""Settling turns: 32 callers and one caller, against a bare transaction a turn.

In each round they run one after the other on fresh files, with the same turns; the ratio is taken within the round.
The bare statements with 32 turns in a transaction tell what grouping alone can bring: a program that also makes its
records, checks them and answers 32 callers stays below. Before all that, the files that both sides leave behind are
compared row by row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from afterturn.app import App
from afterturn.bootstrap import open_backbone
from afterturn.clock import Clock, system_clock
from afterturn.config import Settings
from afterturn.model import Turn
from bench import bare, files, workload
from bench.measure import Report, Stopwatch, Took, figure, ratio

CALLERS = 32
EMITTER = "worker"


def run(*, rounds: int = 7, turns: int = 9_600, folder: Path | None = None) -> Report:
    conversations = workload.live_turns(turns // 10, 10)
    ordered = workload.interleaved(conversations)
    shares = [workload.interleaved(conversations[n::CALLERS]) for n in range(CALLERS)]
    prepared = bare.statements(ordered, datetime.now(UTC), EMITTER)
    baseline: list[Took] = []
    ceiling: list[Took] = []
    many: list[Took] = []
    alone: list[Took] = []
    with files.scratch(folder) as place:
        check_same_rows(place)
        for _ in range(rounds):
            baseline.append(bare.run(files.fresh(place, "bare"), prepared))
            ceiling.append(bare.run(files.fresh(place, "grouped"), prepared, group=CALLERS))
            many.append(asyncio.run(settle_all(files.fresh(place, "many"), shares)))
            alone.append(asyncio.run(settle_all(files.fresh(place, "alone"), [ordered])))
    return Report(
        "settle",
        (
            figure("bare transaction a turn", "turns/s", rates(baseline)),
            figure("bare, 32 turns a transaction", "turns/s", rates(ceiling)),
            figure("settle, 32 callers", "turns/s", rates(many)),
            figure("settle, one caller", "turns/s", rates(alone)),
            figure("processor: bare", "µs/turn", [one.processor_micros for one in baseline]),
            figure("processor: bare, 32 turns", "µs/turn", [one.processor_micros for one in ceiling]),
            figure("processor: 32 callers", "µs/turn", [one.processor_micros for one in many]),
            figure("processor: one caller", "µs/turn", [one.processor_micros for one in alone]),
        ),
        (
            ratio("32 callers / bare", rates(many), rates(baseline), aim=3.0),
            ratio("bare, 32 turns a transaction / bare", rates(ceiling), rates(baseline)),
            ratio("one caller / bare", rates(alone), rates(baseline), aim=0.7),
        ),
        {"turns": len(ordered), "messagesPerTurn": 2, "synchronous": "FULL"},
    )


def check_same_rows(folder: Path) -> None:
    """Both sides, at one instant, leave the same rows; raises AssertionError where they don't."""
    now = datetime.now(UTC)
    turns = workload.interleaved(workload.live_turns(20, 4))
    ours, theirs = files.fresh(folder, "ours"), files.fresh(folder, "theirs")
    asyncio.run(settle_all(ours, [turns], clock=lambda: now))
    bare.run(theirs, bare.statements(turns, now, EMITTER))
    left, right = files.content(ours), files.content(theirs)
    for table in files.TABLES:
        assert left[table] == right[table], f"the baseline writes other rows into {table}"


async def settle_all(path: Path, callers: Sequence[Sequence[Turn]], *, clock: Clock = system_clock) -> Took:
    """Each caller settles its turns one after the other, all callers at a time."""
    settings = Settings(db=path)
    async with open_backbone(App(shipped=False), settings, clock=clock) as backbone:

        async def call(turns: Sequence[Turn]) -> None:
            for turn in turns:
                await backbone.settle(turn)

        watch = Stopwatch()
        await asyncio.gather(*map(call, callers))
        return watch.took(sum(map(len, callers)))


def rates(rounds: Sequence[Took]) -> list[float]:
    return [one.rate for one in rounds]
