"""The embedded profile: store, stream and engine in one SQLite file."""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from afterturn.backbone import Backbone
from afterturn.bridge.bridge import Bridge
from afterturn.clock import Clock
from afterturn.config import Settings
from afterturn.errors import ConfigError
from afterturn.reactions.embedded import EmbeddedEngine, EmbeddedWorker
from afterturn.reactions.registry import Registry
from afterturn.reactions.run import EffectsPolicy
from afterturn.sqlite.database import Database
from afterturn.store.sqlite import SqliteSearch, SqliteStore
from afterturn.stream import sqlite as sqlite_stream
from afterturn.stream.sqlite import SqliteStream


@asynccontextmanager
async def open_embedded(
    settings: Settings, registry: Registry, clock: Clock, chance: random.Random
) -> AsyncIterator[Backbone]:
    """Raises StoreError if the file cannot be used, and ConfigError for a foreign workflow, which needs Temporal."""
    _refuse_foreign(registry)
    wake = asyncio.Event()
    with Database.open(settings.db, busy_timeout=settings.busy_timeout.total_seconds()) as database:
        store = SqliteStore(database, outbox=sqlite_stream.outbox, clock=clock)
        stream = SqliteStream(database, clock, on_publish=wake.set, consumers=registry.names)
        worker = EmbeddedWorker(
            database,
            store,
            registry,
            clock,
            chance,
            name=f"{os.getpid()}-{uuid.uuid4().hex[:12]}",
            policy=EffectsPolicy(settings.effects_limit),
            slots=settings.slots,
            lease=settings.lease,
        )
        engine = EmbeddedEngine(database, registry, clock, acknowledge=sqlite_stream.ack, on_signal=worker.wake)
        yield Backbone(
            settings=settings,
            registry=registry,
            clock=clock,
            store=store,
            stream=stream,
            engine=engine,
            runner=worker,
            bridge=Bridge(stream, engine, registry.names, visibility=settings.lease),
            wake=wake,
            searcher=SqliteSearch(database),
        )


@contextmanager
def open_file_writer(settings: Settings, clock: Clock) -> Iterator[tuple[SqliteStore, SqliteStream]]:
    """Store and stream of a process that only settles. Raises StoreError if the file cannot be used."""
    with Database.open(settings.db, busy_timeout=settings.busy_timeout.total_seconds()) as database:
        yield SqliteStore(database, outbox=sqlite_stream.outbox), SqliteStream(database, clock)


@contextmanager
def open_file_bridge(settings: Settings, registry: Registry, clock: Clock) -> Iterator[Bridge]:
    """The bridge of a file whose reactions run in other processes, which check for work every ``poll``."""
    _refuse_foreign(registry)
    with Database.open(settings.db, busy_timeout=settings.busy_timeout.total_seconds()) as database:
        stream = SqliteStream(database, clock, consumers=registry.names)
        engine = EmbeddedEngine(database, registry, clock, acknowledge=sqlite_stream.ack)
        yield Bridge(stream, engine, registry.names, visibility=settings.lease)


def _refuse_foreign(registry: Registry) -> None:
    if registry.foreign:
        names = ", ".join(registry.foreign)
        raise ConfigError(f"foreign workflows ({names}) need Temporal: use the profile local or aws")
