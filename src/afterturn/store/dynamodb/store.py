"""The store port on one DynamoDB table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from afterturn.aws.errors import Backoff
from afterturn.aws.session import Access, open_client
from afterturn.aws.table import INDEXES
from afterturn.clock import Clock, system_clock
from afterturn.store.dynamodb.layout import FixedLayouts, LayoutSource, RecencyLayouts, TableLayouts
from afterturn.store.dynamodb.reader import ConversationReader
from afterturn.store.dynamodb.stamps import StampStore
from afterturn.store.dynamodb.state import JobTable, StateTable
from afterturn.store.dynamodb.table import Table
from afterturn.store.dynamodb.writer import ConversationWriter

CLAIMS_KEPT = timedelta(days=400)
"""Only turns of the last day have effects (see ``effects_max_age``), so a claim has done its work long before."""


@asynccontextmanager
async def open_store(
    name: str, access: Access | None = None, *, layouts: RecencyLayouts | None = None
) -> AsyncIterator[DynamoStore]:
    """The store in the table ``name``, closed when the block ends.

    ``layouts``: the layouts of the recency index; None: read them from the table and follow their changes. Raises
    MissingExtra, and StoreError with advice if the table is missing, foreign or lacks an index, or if credentials or
    endpoint do not work.
    """
    async with open_client("dynamodb", access or Access()) as client:
        table = Table(client, name)
        layout_source = TableLayouts(table) if layouts is None else FixedLayouts(layouts)
        indexes = (*INDEXES, *(await layout_source.current()).indexes)
        await table.check({index.name: index for index in indexes}.values())
        yield DynamoStore(table, layout_source=layout_source)


class DynamoStore(ConversationWriter, StampStore, StateTable, JobTable, ConversationReader):
    """The store on a DynamoDB table: its parts by subject. The port documents the methods, :mod:`keys` the items.

    The stream is not in the same database, so ``settle`` never publishes.
    """

    def __init__(
        self,
        table: Table,
        *,
        layouts: RecencyLayouts | None = None,
        layout_source: LayoutSource | None = None,
        clock: Clock = system_clock,
        claims_kept: timedelta = CLAIMS_KEPT,
    ) -> None:
        super().__init__(table, layout_source or FixedLayouts(layouts or RecencyLayouts()))
        self._clock = clock
        self._claims_kept = claims_kept

    @classmethod
    def on(cls, client: Any, name: str, *, backoff: Backoff | None = None, **options: Any) -> DynamoStore:
        """The store on a table, with a client that the caller opens and closes."""
        return cls(Table(client, name, backoff), **options)
