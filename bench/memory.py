"""Whether memory grows with what was processed: the same process at 20,000, 40,000 and 60,000 turns.

The turns are made as they are settled and belong to ever new conversations, so nothing but afterturn could hold on to
them. They come in portions that are drained, so that the figures are of the same moment each time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from pathlib import Path
from typing import Any

from afterturn.app import App
from afterturn.bootstrap import open_backbone
from afterturn.config import Settings
from bench import files, workload
from bench.measure import Report, apart, figure, ratio
from bench.pipeline import emptied, hush, peak, resident, settle_in_flight

PORTION = 2_000
TURNS_EACH = 5
POINTS = (20_000, 40_000, 60_000)


def run(*, rounds: int = 1, folder: Path | None = None) -> Report:
    with files.scratch(folder) as place:
        found = [apart("bench.memory", files.fresh(place, "memory")) for _ in range(rounds)]
    at = {point: [one["residentMiB"][str(point)] for one in found] for point in POINTS}
    return Report(
        "memory",
        (
            figure("before the first turn", "MiB", [one["startMiB"] for one in found]),
            *(figure(f"after {point:,} turns", "MiB", at[point]) for point in POINTS),
            figure("at the peak", "MiB", [one["peakMiB"] for one in found]),
        ),
        (
            ratio("60,000 turns / 20,000 turns", at[60_000], at[20_000], aim=1.1, at_most=True),
            ratio("60,000 turns / 40,000 turns", at[60_000], at[40_000], aim=1.02, at_most=True),
        ),
        {"turnsPerConversation": TURNS_EACH, "drainedEvery": PORTION},
    )


async def processed(path: Path) -> dict[str, Any]:
    hush()
    start = resident()
    found: dict[int, float] = {}
    async with open_backbone(App(), Settings(db=path, webhook_url=None, alert_url=None)) as backbone:
        stop = asyncio.Event()
        running = asyncio.create_task(backbone.run(stop, eager=True, sweeping=False))
        for done in range(PORTION, POINTS[-1] + 1, PORTION):
            await settle_in_flight(backbone, workload.live_turns(PORTION // TURNS_EACH, TURNS_EACH, seed=done))
            await emptied(backbone)
            if done in POINTS:
                gc.collect()
                found[done] = resident()
        stop.set()
        await running
    return {"startMiB": start, "residentMiB": found, "peakMiB": peak()}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(processed(Path(sys.argv[1])))))
