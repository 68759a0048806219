"""The bridge of a lane as a Lambda function: ``handler`` is what Lambda calls. Loads a Temporal client, no worker.

Settings are the function's environment, as everywhere; ``AFTERTURN_APP`` names the app whose consumers are signalled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import afterturn.reactions.temporal.engine  # noqa: F401 - loads while the function starts, not with its first records
from afterturn.bootstrap import access_of
from afterturn.bootstrap.bridge import LaneBridge, address_of, open_lane_bridge, signalled_registry
from afterturn.bootstrap.functions import app_named, function_settings, release, set_up_logging
from afterturn.bridge.aws_lambda import Answer, Handler, Invocations
from afterturn.bridge.bridge import Bridge
from afterturn.clock import system_clock
from afterturn.errors import EngineUnavailable
from afterturn.reactions.registry import Registry


class BridgeFunction:
    """Handles what SQS brings, and answers the probe of ``afterturn aws deploy``."""

    def __init__(self) -> None:
        self._handler = Handler(_open_ends)

    def __call__(self, event: Any, context: object = None) -> Answer | dict[str, Any]:
        """Raises ConfigError for settings or an app that make no sense, and ValueError for a queue of another lane."""
        if isinstance(event, dict) and event.get("afterturn") == "probe":
            return asyncio.run(probe())
        return self._handler(event, context)

    def close(self) -> None:
        """Let go of what is open; Lambda never says when it ends."""
        self._handler.close()


async def probe() -> dict[str, Any]:
    """This function's identity, returned after everything was opened. ``engine``: ``ok`` or the error of Temporal."""
    async with _open() as (registry, opened):
        try:
            await opened.signaler.ready()
            engine = "ok"
        except EngineUnavailable:
            engine = "unavailable"
        names, queues = opened.names, opened.queues
        return {
            "version": release(),
            "lane": names.lane,
            "table": names.table,
            "queues": [url.rpartition("/")[2] for url in (queues.main, queues.retry)],
            "consumers": sorted(registry.signalled),
            "engine": engine,
        }


@asynccontextmanager
async def _open() -> AsyncIterator[tuple[Registry, LaneBridge]]:
    """The bridge of the settings' lane, and whom it signals."""
    settings = function_settings()
    registry = signalled_registry(app_named())
    access, address = access_of(settings), address_of(settings)
    async with open_lane_bridge(settings, registry, system_clock, access, address) as opened:
        yield registry, opened


@asynccontextmanager
async def _open_ends() -> AsyncIterator[tuple[Bridge, Invocations]]:
    async with _open() as (_, opened):
        yield opened.bridge, opened.stream


set_up_logging()
handler = BridgeFunction()
