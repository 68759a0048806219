"""For processes that only read the stream: a bridge, with reactions and their workers elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from afterturn.app import App
from afterturn.bridge.bridge import IN_PROCESS, Bridge, ReceiveOptions
from afterturn.clock import Clock, system_clock
from afterturn.config import Profile, Settings
from afterturn.consumers.shipped import ShippedOptions, register_shipped
from afterturn.reactions.registry import Registry


@dataclass(frozen=True, slots=True)
class LoneBridge:
    """A bridge and the loops that feed it."""

    bridge: Bridge
    registry: Registry
    reading: ReceiveOptions
    poll: timedelta

    async def run(self, stop: asyncio.Event) -> None:
        """Read until stopped; what has begun is finished."""
        await self.bridge.run(stop, asyncio.Event(), self.reading, poll=self.poll.total_seconds())


def signalled_by(app: App) -> Registry:
    """Whom to signal, and when they are due. What the shipped consumers need to run is their worker's business."""
    registry = Registry()
    if app.shipped:
        register_shipped(registry, ShippedOptions())
    registry.extend(app.registry)
    return registry


@asynccontextmanager
async def open_bridge(app: App, settings: Settings, *, clock: Clock = system_clock) -> AsyncIterator[LoneBridge]:
    """The bridge of a deployment, closed when the block ends; it waits neither for Temporal nor for the table.

    Raises MissingExtra, StoreError for a file that cannot be used, and StreamUnavailable for a lane without queues.
    """
    registry = signalled_by(app)
    if settings.profile is Profile.EMBEDDED:
        from afterturn.bootstrap.embedded import open_file_bridge  # noqa: PLC0415 - no profile pays for another one

        with open_file_bridge(settings, registry, clock) as bridge:
            yield LoneBridge(bridge, registry, IN_PROCESS, settings.poll)
        return
    from afterturn.bootstrap.signalling import SQS_BATCH, address_of, open_lane_bridge  # noqa: PLC0415 - see above

    reading = ReceiveOptions(batch=SQS_BATCH, long_polls=settings.bridge_polls)
    if settings.profile is Profile.AWS:
        from afterturn.bootstrap.access import access_of  # noqa: PLC0415 - see above

        async with open_lane_bridge(settings, registry, clock, access_of(settings), address_of(settings)) as lane:
            yield LoneBridge(lane.bridge, registry, reading, settings.poll)
        return
    from afterturn.bootstrap.local import address_in, open_local_servers  # noqa: PLC0415 - see above

    async with (
        open_local_servers(settings) as place,
        open_lane_bridge(settings, registry, clock, place.access, address_in(place)) as lane,
    ):
        yield LoneBridge(lane.bridge, registry, reading, settings.poll)
