"""A worker in a process of its own that will be killed: its consumer says so when it runs, and never ends."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from afterturn.clock import system_clock
from afterturn.model import Stamp
from afterturn.reactions.registry import ReactionContext, Registry, TurnWindow
from afterturn.reactions.run import EffectsPolicy
from afterturn.reactions.temporal.engine import Address, Connection
from afterturn.reactions.temporal.runner import TemporalRunner
from afterturn.sqlite.database import Database
from afterturn.store.sqlite import SqliteStore


async def hang(turns: TurnWindow, _: ReactionContext) -> Stamp:
    print("running", turns.conversation.id, flush=True)
    await asyncio.Event().wait()
    return Stamp()


async def main(target: str, lane: str, path: str) -> None:
    registry = Registry()
    registry.add("probe", hang)
    with Database.open(Path(path), readers=1) as database:
        connection = Connection(Address(target=target))
        runner = TemporalRunner(
            connection, registry, SqliteStore(database), system_clock, lane=lane, policy=EffectsPolicy()
        )
        await runner.run(asyncio.Event(), poll=0.1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
