"""The bridge of a lane: SQS, and a Temporal client. Loads no worker of Temporal, and opens no table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from afterturn.aws.names import Names
from afterturn.aws.session import Access, open_session
from afterturn.bootstrap.naming import names_of
from afterturn.bridge.bridge import Bridge
from afterturn.clock import Clock
from afterturn.config import Settings
from afterturn.errors import MissingExtra
from afterturn.reactions.registry import Registry
from afterturn.stream.sqs import QueueUrls, SqsStream, find_queues, open_stream

try:
    from afterturn.reactions.temporal.client import Address, Connection
    from afterturn.reactions.temporal.signaler import TemporalSignaler
except ImportError as error:
    raise MissingExtra("Temporal needs the temporal extra: pip install 'afterturn[temporal]'") from error

SQS_BATCH = 10


@dataclass(frozen=True, slots=True)
class LaneBridge:
    """A bridge with what it is made of."""

    bridge: Bridge
    stream: SqsStream
    signaler: TemporalSignaler
    queues: QueueUrls
    names: Names


@asynccontextmanager
async def open_lane_bridge(
    settings: Settings, registry: Registry, clock: Clock, access: Access, address: Address
) -> AsyncIterator[LaneBridge]:
    """Closed when the block ends. Raises StreamUnavailable for a lane whose queues are missing or out of reach."""
    names = names_of(settings)
    session = open_session(access)
    queues = await find_queues(access, names, session=session)
    async with open_stream(access, queues, clock, wait=settings.long_poll, session=session) as stream:
        signaler = TemporalSignaler(Connection(address), registry, lane=names.lane, lease=settings.lease)
        bridge = Bridge(stream, signaler, registry.signalled, visibility=visibility_of(settings))
        yield LaneBridge(bridge, stream, signaler, queues, names)


def address_of(settings: Settings) -> Address:
    """Where the Temporal of a deployment is."""
    key = settings.temporal_api_key
    return Address(
        target=settings.temporal_address,
        namespace=settings.temporal_namespace,
        api_key=None if key is None else key.get_secret_value(),
    )


def visibility_of(settings: Settings) -> timedelta:
    """How soon SQS hands out the batch of a bridge that died."""
    return max(settings.lease, timedelta(seconds=30))
