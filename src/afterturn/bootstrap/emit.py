"""The emit path of a lane in AWS: table and queues. Loads no reaction engine's library."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from afterturn.aws.session import Access, open_session
from afterturn.bootstrap.naming import names_of
from afterturn.clock import Clock
from afterturn.config import Settings
from afterturn.store.dynamodb import DynamoStore, open_store
from afterturn.stream.sqs import SqsPublisher, find_queues, open_publisher


@asynccontextmanager
async def open_writer(
    settings: Settings, clock: Clock, access: Access
) -> AsyncIterator[tuple[DynamoStore, SqsPublisher]]:
    """Store and publisher of a lane. Raises StoreError and StreamUnavailable for what is missing or out of reach."""
    names = names_of(settings)
    session = open_session(access)
    queues = await find_queues(access, names, session=session)
    async with (
        open_store(names.table, access) as store,
        open_publisher(access, queues, clock, session=session) as publisher,
    ):
        yield store, publisher
