"""The embedded engine, as the conformance suite sees it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from tests.contract.reactions.rig import EngineRig
from tests.contract.samples import T0

from afterturn.clock import from_text
from afterturn.reactions.embedded import EmbeddedEngine, EmbeddedWorker
from afterturn.reactions.port import Signal
from afterturn.reactions.registry import Registry
from afterturn.reactions.run import EffectsPolicy
from afterturn.sqlite.database import Database
from afterturn.store.sqlite import SqliteStore
from afterturn.testing import Crash, ManualClock

LEASE = timedelta(seconds=30)


class EmbeddedRig(EngineRig):
    """One worker, driven by hand; more can be made on the same file."""

    lease = LEASE

    def __init__(self, database: Database, registry: Registry, clock: ManualClock, policy: EffectsPolicy) -> None:
        self.database = database
        self.registry = registry
        self.clock = clock
        self.policy = policy
        self.store = SqliteStore(database)
        self.worker = self.another_worker("first")
        self.engine = EmbeddedEngine(database, registry, clock, on_signal=self.worker.wake)

    def another_worker(self, name: str, *, slots: int = 32, lease: timedelta = LEASE) -> EmbeddedWorker:
        return EmbeddedWorker(
            self.database,
            self.store,
            self.registry,
            self.clock,
            random.Random(0),
            name=name,
            policy=self.policy,
            slots=slots,
            lease=lease,
        )

    async def signal(self, signal: Signal) -> None:
        await self.engine.signal([signal], [])

    async def advance(self, by: timedelta) -> None:
        end = self.clock() + by
        while True:
            try:
                while await self.worker.run_due():
                    pass
            except Crash:
                continue
            due = await self.database.read(
                lambda c: c.execute("SELECT min(due_at) FROM reactions WHERE failed = 0").fetchone()[0]
            )
            if due is None or from_text(due) > end:
                break
            self.clock.set(max(self.clock(), from_text(due)))
        self.clock.set(end)

    async def retry(self, consumer: str, conversation_id: str) -> None:
        await self.engine.retry(consumer, conversation_id)

    async def waiting(self) -> int:
        return await self.engine.waiting()

    async def size(self) -> int:
        return await self.database.read(lambda c: int(c.execute("SELECT count(*) FROM reactions").fetchone()[0]))


@asynccontextmanager
async def open_rig(
    path: Path, registry: Registry, *, policy: EffectsPolicy | None = None
) -> AsyncIterator[EmbeddedRig]:
    with Database.open(path, readers=1) as database:
        yield EmbeddedRig(database, registry, ManualClock(T0), policy or EffectsPolicy())
