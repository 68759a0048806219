"""The whole way: real dialogues settled, and all four shipped reactions stamped, in one process.

In each round a bare transaction a turn writes the turns first (see ``bare``); then the same turns are settled, 32
conversations in flight, while bridge and reactions run alongside; then what is left is drained. The clock stops once
nothing is owed. Each of these runs is a process of its own, so that its memory is its own too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from afterturn import telemetry
from afterturn.app import App
from afterturn.backbone import Backbone
from afterturn.bootstrap import open_backbone
from afterturn.config import Settings
from afterturn.model import Turn
from bench import bare, files, workload
from bench.measure import Report, Stopwatch, apart, figure, ratio

IN_FLIGHT = 32
MIB = 1 << 20


def run(*, rounds: int = 5, folder: Path | None = None, data: Path = workload.DIALOGUES) -> Report:
    turns = workload.interleaved(workload.dialogues(data))
    prepared = bare.statements(turns, datetime.now(UTC), "worker")
    bare_rates: list[float] = []
    outcomes: list[dict[str, Any]] = []
    with files.scratch(folder) as place:
        for _ in range(rounds):
            bare_rates.append(bare.run(files.fresh(place, "bare"), prepared).rate)
            outcomes.append(apart("bench.pipeline", files.fresh(place, "pipeline"), data))
    rates = [one["turns"] / one["seconds"] for one in outcomes]
    return Report(
        "pipeline",
        (
            figure("bare transaction a turn", "turns/s", bare_rates),
            figure("settled and stamped", "turns/s", rates),
            figure("settling alone, meanwhile", "turns/s", [one["turns"] / one["settleSeconds"] for one in outcomes]),
            figure("reaction runs", "runs", [one["runs"] for one in outcomes]),
            figure("reaction runs", "runs/s", [one["runs"] / one["seconds"] for one in outcomes]),
            figure("processor", "µs/turn", [one["cpuSeconds"] / one["turns"] * 1e6 for one in outcomes]),
            figure("processor", "cores", [one["cpuSeconds"] / one["seconds"] for one in outcomes]),
            figure("memory before", "MiB", [one["startMiB"] for one in outcomes]),
            figure("memory at its peak", "MiB", [one["peakMiB"] for one in outcomes]),
        ),
        (
            ratio("settled and stamped / bare settle", rates, bare_rates),
            ratio("settled and stamped / 1,000 turns a second", rates, [1_000.0] * len(rates), aim=1.0),
        ),
        {
            "turns": outcomes[0]["turns"],
            "conversations": outcomes[0]["conversations"],
            "inFlight": IN_FLIGHT,
            "consumers": outcomes[0]["consumers"],
            "owed": max(one["owed"] for one in outcomes),
        },
    )


async def through(path: Path, conversations: Sequence[Sequence[Turn]]) -> dict[str, Any]:
    """Settle everything with the reactions alongside, drain, and check that nothing is owed."""
    quiet = Settings(db=path, webhook_url=None, alert_url=None)
    count = sum(map(len, conversations))
    async with open_backbone(App(), quiet) as backbone:
        runs_before = reaction_runs()
        watch = Stopwatch()
        stop = asyncio.Event()
        running = asyncio.create_task(backbone.run(stop, eager=True, sweeping=False))
        await settle_in_flight(backbone, conversations)
        settled = watch.took(count)
        await emptied(backbone)
        done = watch.took(count)
        stop.set()
        await running
        audit = await backbone.ledger.audit(grace=timedelta(0))
        return {
            "turns": count,
            "conversations": len(conversations),
            "seconds": done.seconds,
            "settleSeconds": settled.seconds,
            "cpuSeconds": done.processor,
            "runs": reaction_runs() - runs_before,
            "owed": audit.owed,
            "consumers": list(backbone.registry.names),
        }


async def settle_in_flight(backbone: Backbone, conversations: Iterable[Sequence[Turn]]) -> None:
    """So many conversations at a time, each turn after the one before it."""
    waiting = iter(conversations)

    async def lane() -> None:
        for turns in waiting:
            for turn in turns:
                await backbone.settle(turn)

    await asyncio.gather(*(lane() for _ in range(IN_FLIGHT)))


async def emptied(backbone: Backbone) -> None:
    """Until nothing waits in the stream or for a reaction."""
    while True:
        backlog = await backbone.backlog()
        if not (backlog.streamed or backlog.waiting):
            return
        await asyncio.sleep(0.02)


def reaction_runs() -> int:
    """Runs of this process so far, whatever their outcome."""
    return int(
        sum(
            sample.value
            for metric in telemetry.reactions_run.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        )
    )


def resident() -> float:
    """What this process holds in memory now, in MiB."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() / MIB


def peak() -> float:
    """The most that this process ever held, in MiB. Not ``ru_maxrss``: that begins with what its parent held."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def hush() -> None:
    """The alerts of made-up emergencies are of no use here."""
    logging.getLogger("afterturn").setLevel(logging.CRITICAL + 1)


def _main() -> None:
    hush()
    conversations = workload.dialogues(Path(sys.argv[2]))
    start = resident()
    outcome = asyncio.run(through(Path(sys.argv[1]), conversations))
    print(json.dumps({**outcome, "startMiB": start, "peakMiB": peak()}))


if __name__ == "__main__":
    _main()
