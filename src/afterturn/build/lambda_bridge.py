"""The bridge of a lane as a Lambda function: ``handler`` is what Lambda calls. Loads a Temporal client, no worker.

Settings are the function's environment, as everywhere; ``AFTERTURN_APP`` names the app whose consumers are signalled.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

from afterturn.app import App, load_app
from afterturn.aws.names import Names
from afterturn.aws.session import open_session
from afterturn.bridge.aws_lambda import Answer, Handler, Invocations
from afterturn.bridge.bridge import Bridge
from afterturn.build.emit import access_of
from afterturn.build.signalling import address_of
from afterturn.clock import system_clock
from afterturn.config import Profile, Settings, read_settings
from afterturn.consumers.shipped import ShippedOptions, register_shipped
from afterturn.errors import ConfigError, EngineUnavailable
from afterturn.reactions.registry import Registry
from afterturn.reactions.temporal.client import Connection
from afterturn.reactions.temporal.engine import TemporalEngine
from afterturn.stream.sqs import QueueUrls, SqsStream, find_queues, open_stream


@dataclass(frozen=True, slots=True)
class Opened:
    """A bridge with what it is made of."""

    bridge: Bridge
    stream: SqsStream
    engine: TemporalEngine
    queues: QueueUrls
    names: Names
    registry: Registry


class Function:
    """Handles what SQS brings, and answers the probe of ``afterturn aws deploy``."""

    def __init__(self) -> None:
        self._handler = Handler(_open_ends)

    def __call__(self, event: Any, context: object = None) -> Answer | dict[str, Any]:
        """Raises ConfigError for settings or an app that make no sense, and ValueError for a queue of another lane."""
        if isinstance(event, dict) and event.get("afterturn") == "probe":
            return asyncio.run(probe())
        return self._handler(event, context)


async def probe() -> dict[str, Any]:
    """Who this is, told after everything was opened. ``engine``: ``ok``, or that Temporal does not answer."""
    async with open_bridge() as opened:
        try:
            await opened.engine.ready()
            engine = "ok"
        except EngineUnavailable:
            engine = "unavailable"
        names, queues = opened.names, opened.queues
        return {
            "version": _release(),
            "lane": names.lane,
            "table": names.table,
            "queues": [url.rpartition("/")[2] for url in (queues.main, queues.direct)],
            "consumers": sorted(opened.registry.signalled),
            "engine": engine,
        }


@asynccontextmanager
async def open_bridge() -> AsyncIterator[Opened]:
    """The bridge of the settings' lane, closed when the block ends; it waits neither for Temporal nor for the table."""
    settings = read_settings()
    if settings.profile is not Profile.AWS:
        raise ConfigError(f"setting profile (AFTERTURN_PROFILE): a function's is aws, not {settings.profile.value}")
    registry = _registry(settings)
    names = Names.of(settings.lane.value, settings.table)
    access = access_of(settings)
    session = open_session(access)
    queues = await find_queues(access, names, session=session)
    async with open_stream(access, queues, system_clock, session=session) as stream:
        # Only a retry by hand asks the engine for the store, and nobody asks this engine for one.
        no_store = cast(Any, None)
        engine = TemporalEngine(
            Connection(address_of(settings)),
            registry,
            no_store,
            system_clock,
            lane=names.lane,
            lease=settings.lease,
        )
        visibility = max(settings.lease, timedelta(seconds=30))
        bridge = Bridge(stream, engine, registry.signalled, visibility=visibility)
        yield Opened(bridge, stream, engine, queues, names, registry)


@asynccontextmanager
async def _open_ends() -> AsyncIterator[tuple[Bridge, Invocations]]:
    async with open_bridge() as opened:
        yield opened.bridge, opened.stream


def _registry(settings: Settings) -> Registry:
    """Whom to signal, and when they are due. What the shipped consumers need to run is the worker's business."""
    name = os.environ.get("AFTERTURN_APP")
    app = load_app(name) if name else App()
    registry = Registry()
    if app.shipped:
        register_shipped(registry, ShippedOptions())
    registry.extend(app.registry)
    return registry


def _release() -> str | None:
    try:
        return version("afterturn")
    except PackageNotFoundError:
        return None


def _set_up_logging() -> None:
    """Lambda's own handler writes the lines; without this it would take warnings and worse only."""
    level = os.environ.get("AFTERTURN_LOG_LEVEL", "info").upper()
    levels = {**logging.getLevelNamesMapping(), "OFF": logging.CRITICAL + 1}
    logging.getLogger("afterturn").setLevel(levels.get(level, logging.INFO))


_set_up_logging()
handler = Function()
