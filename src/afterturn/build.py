"""The composition root: the only place that names concrete adapters."""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from afterturn.app import App
from afterturn.backbone import Backbone
from afterturn.bridge.bridge import Bridge
from afterturn.clock import Clock, system_clock
from afterturn.config import Settings
from afterturn.consumers.shipped import register_shipped
from afterturn.reactions.embedded import EmbeddedEngine, Worker
from afterturn.reactions.registry import Registry
from afterturn.reactions.run import Policy
from afterturn.sqlite.database import Database
from afterturn.store.sqlite import SqliteStore
from afterturn.stream import sqlite as sqlite_stream
from afterturn.stream.sqlite import SqliteStream


@asynccontextmanager
async def open_backbone(
    app: App,
    settings: Settings,
    *,
    clock: Clock = system_clock,
    chance: random.Random | None = None,
) -> AsyncIterator[Backbone]:
    """The embedded profile: store, stream and engine in one SQLite file, closed when the block ends.

    Raises ConfigError for settings or consumers that make no sense, and StoreError for a
    file that cannot be used.
    """
    registry = Registry()
    if app.shipped:
        register_shipped(registry, settings)
    registry.extend(app.registry)
    wake = asyncio.Event()
    with Database.open(settings.db, busy_timeout=settings.busy_timeout.total_seconds()) as database:
        store = SqliteStore(database, outbox=sqlite_stream.outbox)
        stream = SqliteStream(database, clock, on_publish=wake.set)
        worker = Worker(
            database,
            store,
            registry,
            clock,
            chance or random.Random(),
            name=f"{os.getpid()}-{uuid.uuid4().hex[:12]}",
            policy=Policy(effects_max_age=None if settings.effects_for_history else settings.effects_max_age),
            slots=settings.slots,
            lease=settings.lease,
        )
        engine = EmbeddedEngine(database, registry, clock, acknowledge=sqlite_stream.ack, on_signal=worker.wake)
        backbone = Backbone(
            settings=settings,
            registry=registry,
            clock=clock,
            store=store,
            stream=stream,
            engine=engine,
            runner=worker,
            bridge=Bridge(stream, engine, registry.names, visibility=settings.lease),
            wake=wake,
        )
        await backbone.register()
        yield backbone
