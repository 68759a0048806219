"""The bridge alone: for processes that only read the stream, with reactions and their workers elsewhere.

An adapter is imported when its profile is opened. Loads a Temporal client but no worker, and opens no table.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from afterturn.app import App
from afterturn.bootstrap import access_of, names_of
from afterturn.bridge.bridge import IN_PROCESS, Bridge, ReceiveOptions
from afterturn.clock import Clock, system_clock
from afterturn.config import Profile, Settings
from afterturn.consumers.shipped import ShippedOptions, register_shipped
from afterturn.reactions.registry import Registry

if TYPE_CHECKING:
    from afterturn.aws.names import Names
    from afterturn.aws.session import Access
    from afterturn.reactions.temporal.engine import Address, TemporalSignaler
    from afterturn.stream.sqs import QueueUrls, SqsStream

_SQS_BATCH = 10


@dataclass(frozen=True, slots=True)
class SoleBridge:
    """A bridge without an engine in its process."""

    bridge: Bridge
    registry: Registry
    options: ReceiveOptions
    poll: timedelta

    async def run(self, stop: asyncio.Event) -> None:
        """Read until stopped, then finish the batches that have begun."""
        await self.bridge.run(stop, asyncio.Event(), self.options, poll=self.poll.total_seconds())


@dataclass(frozen=True, slots=True)
class LaneBridge:
    """The bridge of a lane in AWS, with its parts."""

    bridge: Bridge
    stream: SqsStream
    signaler: TemporalSignaler
    queues: QueueUrls
    names: Names


@asynccontextmanager
async def open_bridge(app: App, settings: Settings, *, clock: Clock = system_clock) -> AsyncIterator[SoleBridge]:
    """The bridge of a deployment, closed when the block ends; it waits for neither Temporal nor the table.

    Raises:
        MissingExtra: the profile's extra is not installed.
        StoreError: the SQLite file cannot be used.
        StreamUnavailable: the lane has no queues, or they cannot be reached.
    """
    registry = signalled_registry(app)
    if settings.profile is Profile.EMBEDDED:
        from afterturn.bootstrap.embedded import open_file_bridge  # noqa: PLC0415 - no profile pays for another one

        with open_file_bridge(settings, registry, clock) as bridge:
            yield SoleBridge(bridge, registry, IN_PROCESS, settings.poll)
        return
    if settings.profile is Profile.AWS:
        async with open_lane_bridge(settings, registry, clock, access_of(settings), address_of(settings)) as lane:
            yield SoleBridge(lane.bridge, registry, sqs_options(settings), settings.poll)
        return
    from afterturn.bootstrap.local import address_in, open_local_servers  # noqa: PLC0415 - see above

    async with (
        open_local_servers(settings) as servers,
        open_lane_bridge(settings, registry, clock, servers.access, address_in(servers)) as lane,
    ):
        yield SoleBridge(lane.bridge, registry, sqs_options(settings), settings.poll)


def signalled_registry(app: App) -> Registry:
    """The consumers to signal, with their policies. What the shipped ones need to run concerns only their worker."""
    registry = Registry()
    if app.shipped:
        register_shipped(registry, ShippedOptions())
    registry.extend(app.registry)
    return registry


@asynccontextmanager
async def open_lane_bridge(
    settings: Settings, registry: Registry, clock: Clock, access: Access, address: Address
) -> AsyncIterator[LaneBridge]:
    """SQS and a Temporal client, closed when the block ends.

    Raises:
        MissingExtra: the Temporal or AWS extra is not installed.
        StreamUnavailable: the lane's queues are missing or cannot be reached.
    """
    from afterturn.aws.session import open_session  # noqa: PLC0415 - see above
    from afterturn.reactions.temporal.engine import Connection, TemporalSignaler  # noqa: PLC0415 - see above
    from afterturn.stream.sqs import find_queues, open_stream  # noqa: PLC0415 - see above

    names = names_of(settings)
    session = open_session(access)
    queues = await find_queues(access, names, session=session)
    async with open_stream(access, queues, clock, wait=settings.long_poll, session=session) as stream:
        signaler = TemporalSignaler(Connection(address), registry, lane=names.lane, lease=settings.lease)
        bridge = Bridge(stream, signaler, registry.signalled, visibility=sqs_visibility(settings))
        yield LaneBridge(bridge, stream, signaler, queues, names)


def address_of(settings: Settings) -> Address:
    """The address of the deployment's Temporal. Raises MissingExtra."""
    from afterturn.reactions.temporal.engine import Address  # noqa: PLC0415 - see above

    key = settings.temporal_api_key
    return Address(
        target=settings.temporal_address,
        namespace=settings.temporal_namespace,
        api_key=None if key is None else key.get_secret_value(),
    )


def sqs_options(settings: Settings) -> ReceiveOptions:
    """How a bridge receives from SQS."""
    return ReceiveOptions(batch=_SQS_BATCH, long_polls=settings.bridge_polls)


def sqs_visibility(settings: Settings) -> timedelta:
    """The time after which SQS hands out the batch of a crashed bridge again."""
    return max(settings.lease, timedelta(seconds=30))
