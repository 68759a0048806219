"""The production path: DynamoDB, SQS FIFO and Temporal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from afterturn.aws.session import Access, open_session
from afterturn.backbone import Backbone
from afterturn.bootstrap.access import access_of
from afterturn.bootstrap.naming import names_of
from afterturn.bootstrap.policy import policy_of
from afterturn.bootstrap.signalling import SQS_BATCH, address_of, visibility_of
from afterturn.bridge.bridge import Bridge, ReceiveOptions
from afterturn.clock import Clock
from afterturn.config import Settings
from afterturn.errors import MissingExtra
from afterturn.reactions.registry import Registry
from afterturn.store.dynamodb import open_store
from afterturn.stream.sqs import find_queues, open_stream

try:
    from afterturn.reactions.temporal.client import Address, Connection
    from afterturn.reactions.temporal.engine import TemporalEngine
    from afterturn.reactions.temporal.runner import TemporalRunner
except ImportError as error:
    raise MissingExtra("Temporal needs the temporal extra: pip install 'afterturn[temporal]'") from error


@asynccontextmanager
async def open_aws(settings: Settings, registry: Registry, clock: Clock) -> AsyncIterator[Backbone]:
    """The profile in an AWS account: table and queues of the lane, credentials as with every AWS tool."""
    async with open_production(settings, registry, clock, access_of(settings), address_of(settings)) as backbone:
        yield backbone


@asynccontextmanager
async def open_production(
    settings: Settings, registry: Registry, clock: Clock, access: Access, address: Address
) -> AsyncIterator[Backbone]:
    """Table, queues and engine of a lane, wherever they are.

    Temporal is connected to when it is first needed: settling and looking do not wait for it. Raises StoreError and
    StreamUnavailable for what is missing or cannot be reached.
    """
    names = names_of(settings)
    queues = await find_queues(access, names)
    async with (
        open_store(names.table, access) as store,
        open_stream(access, queues, clock, wait=settings.long_poll, session=open_session(access)) as stream,
    ):
        connection = Connection(address)
        engine = TemporalEngine(connection, registry, store, clock, lane=settings.lane.value, lease=settings.lease)
        runner = TemporalRunner(
            connection,
            registry,
            store,
            clock,
            lane=settings.lane.value,
            policy=policy_of(settings),
            engine=engine,
            slots=settings.slots,
            lease=settings.lease,
        )
        yield Backbone(
            settings=settings,
            registry=registry,
            clock=clock,
            store=store,
            stream=stream,
            engine=engine,
            runner=runner,
            bridge=Bridge(stream, engine, registry.signalled, visibility=visibility_of(settings)),
            wake=asyncio.Event(),
            reading=ReceiveOptions(batch=SQS_BATCH, long_polls=settings.bridge_polls),
        )
