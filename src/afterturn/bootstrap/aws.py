"""The production path: DynamoDB, SQS FIFO and Temporal. The emit path alone loads no reaction engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from afterturn.aws.session import Access, open_session
from afterturn.bootstrap import access_of, names_of
from afterturn.clock import Clock
from afterturn.config import Settings
from afterturn.reactions.registry import Registry
from afterturn.store.dynamodb import DynamoStore, open_store
from afterturn.stream.sqs import SqsPublisher, find_queues, open_publisher, open_stream

if TYPE_CHECKING:
    from afterturn.backbone import Backbone
    from afterturn.reactions.temporal.engine import Address


@asynccontextmanager
async def open_writer(
    settings: Settings, clock: Clock, access: Access
) -> AsyncIterator[tuple[DynamoStore, SqsPublisher]]:
    """Store and publisher of a lane, for a process that only settles.

    Raises StoreError and StreamUnavailable if the table or a queue is missing or cannot be reached.
    """
    names = names_of(settings)
    session = open_session(access)
    queues = await find_queues(access, names, session=session)
    async with (
        open_store(names.table, access) as store,
        open_publisher(access, queues, clock, session=session) as publisher,
    ):
        yield store, publisher


@asynccontextmanager
async def open_aws(settings: Settings, registry: Registry, clock: Clock) -> AsyncIterator[Backbone]:
    """The profile in an AWS account: the lane's table and queues, credentials as for every AWS tool."""
    from afterturn.bootstrap.bridge import address_of  # noqa: PLC0415 - loads the consumers

    async with open_production(settings, registry, clock, access_of(settings), address_of(settings)) as backbone:
        yield backbone


@asynccontextmanager
async def open_production(
    settings: Settings, registry: Registry, clock: Clock, access: Access, address: Address
) -> AsyncIterator[Backbone]:
    """A lane's table, queues and engine, in AWS or on an emulator.

    Connects to Temporal on first use: settling and reading do not wait for it. Raises MissingExtra, and StoreError and
    StreamUnavailable if the table or a queue is missing or cannot be reached.
    """
    from afterturn.backbone import Backbone  # noqa: PLC0415 - a process that only settles has no engine
    from afterturn.bootstrap.bridge import sqs_options, sqs_visibility  # noqa: PLC0415 - see above
    from afterturn.bridge.bridge import Bridge  # noqa: PLC0415 - see above
    from afterturn.reactions.run import EffectsPolicy  # noqa: PLC0415 - see above
    from afterturn.reactions.temporal.engine import Connection, TemporalEngine  # noqa: PLC0415 - see above
    from afterturn.reactions.temporal.runner import TemporalRunner  # noqa: PLC0415 - see above

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
            policy=EffectsPolicy(settings.effects_limit),
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
            bridge=Bridge(stream, engine, registry.signalled, visibility=sqs_visibility(settings)),
            wake=asyncio.Event(),
            receive=sqs_options(settings),
        )
