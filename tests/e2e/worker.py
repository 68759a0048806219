"""A worker that hangs in its first reaction, after the effect: to be killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.e2e.rig import Journal, Reader, open_lane

from afterturn.aws.session import Access
from afterturn.model import Stamp
from afterturn.reactions.registry import ReactionContext, Registry, TurnWindow


async def work(endpoint: str, account: str, target: str, consumer: str, journal: str) -> None:
    reader = Reader(Journal(Path(journal)))

    async def hang(turns: TurnWindow, ctx: ReactionContext) -> Stamp:
        stamp = await reader(turns, ctx)
        print("in the reaction", flush=True)
        await asyncio.sleep(600)
        return stamp

    registry = Registry()
    registry.add(consumer, hang, quiet="0s", max_wait="0s", timeout="15m")
    access = Access(region="us-east-1", endpoint=endpoint, access_key=account, secret_key="test")
    async with open_lane(access, target, registry) as lane:
        await lane.run(asyncio.Event(), sweeping=False)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
