"""Reads of conversations, lists and counts.

Reads of one conversation are strongly consistent. Indexes lag behind the table, usually by milliseconds, so a list may
miss the latest write. No decision depends on them: the ledger's grace period is far longer than the lag.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from afterturn.aws.table import ENTITY, PROPERTY_RECENCY, WORK_ORDER, Index
from afterturn.clock import to_text
from afterturn.model import Conversation, ConversationMeta, Message, SettledTurn, Status, WorkOrder
from afterturn.store import invariants
from afterturn.store.dynamodb import keys, rows
from afterturn.store.dynamodb.layout import LayoutKind, LayoutSource
from afterturn.store.dynamodb.requests import Attributes, Query, all_starting
from afterturn.store.dynamodb.table import Table
from afterturn.store.port import Range, RecencyKey, Slice, WorkOrderKey

_LARGEST_READ = 500
_SPARE_ROWS = 4
"""Shards rarely hold the same share of a page; a few more rows save most second reads."""

Fetch = Callable[[int, Any], Awaitable[tuple[list[Attributes], Any]]]
"""Takes a number of rows and a start key (None: the start); returns rows and the next start key (None: the end)."""


class ConversationReader:
    """The reading part of the store."""

    _table: Table
    _layout_source: LayoutSource

    async def conversation(self, conversation_id: str) -> Conversation | None:
        item = await self._table.get(keys.meta(conversation_id))
        return None if item is None else rows.conversation(item)

    async def meta(self, conversation_id: str) -> ConversationMeta | None:
        conversation = await self.conversation(conversation_id)
        return None if conversation is None else invariants.meta_of(conversation)

    async def messages(self, conversation_id: str, *, limit: int | None = None) -> tuple[Message, ...]:
        query = Query(keys.conversation(conversation_id), within=all_starting(keys.MESSAGES), newest_first=True)
        newest_first = [rows.message(item) async for item in self._table.items(query, limit)]
        return tuple(reversed(newest_first))

    async def turns(
        self, conversation_id: str, *, after: datetime | None = None, limit: int
    ) -> tuple[SettledTurn, ...]:
        low, high = all_starting(keys.TURNS)
        if after is not None:
            low = keys.turn(conversation_id, after)[1] + "$"
        query = Query(keys.conversation(conversation_id), within=(low, high))
        items = [item async for item in self._table.items(query, limit)]
        if not items:
            return ()
        meta = await self._table.get(keys.meta(conversation_id), ["propertyId"]) or {}
        return tuple(rows.turn(item, conversation_id, meta.get("propertyId")) for item in items)

    async def recency(self, part: Range, *, before: RecencyKey | None = None, limit: int) -> Slice:
        """One query for ``single`` and for a property; one for each shard of ``sharded``; for ``monthly`` one for each
        month that the page covers and one for the list of months."""
        window = _Window.of(part, before)
        if window.is_empty:
            return Slice(rows=(), exhausted=True)
        index, groups = await self._partitions(part, before)
        sources = [[self._source(index, partition, window) for partition in group] for group in groups]
        items, exhausted = await merge(sources, limit)
        return Slice(rows=tuple(rows.conversation(item) for item in items), exhausted=exhausted)

    async def scan(self, *, after: str | None = None, limit: int) -> tuple[Conversation, ...]:
        """Reads ids from GSI3, then the conversations, strongly consistent."""
        return tuple(rows.conversation(item) for item in await self._scan(after, limit))

    async def work_orders(
        self,
        *,
        conversation_id: str | None = None,
        open_only: bool = True,
        after: WorkOrderKey | None = None,
        limit: int,
    ) -> tuple[WorkOrder, ...]:
        if conversation_id is not None:
            query = Query(keys.conversation(conversation_id), within=all_starting(keys.WORK_ORDERS))
            orders = [
                order
                async for item in self._table.items(query)
                if (order := rows.work_order(item)).status is Status.OPEN or not open_only
                if after is None or WorkOrderKey.of(order) > after
            ]
        else:
            partitions = [keys.OPEN_WORK_ORDERS] if open_only else [keys.OPEN_WORK_ORDERS, keys.CLOSED_WORK_ORDERS]
            above = None if after is None else keys.urgency(after.rank, after.opened_at, after.order_id)
            queries = [Query(partition, index=WORK_ORDER, above=above) for partition in partitions]
            orders = [rows.work_order(item) for query in queries async for item in self._table.items(query, limit)]
        return tuple(sorted(orders, key=WorkOrderKey.of)[:limit])

    async def counts(self) -> Mapping[str, int]:
        """Reads every conversation item: one read unit for each 4 KB. Not for polling."""
        totals = dict.fromkeys(("conversations", "messages", "turns", "stamps"), 0)
        after: str | None = None
        while items := await self._scan(after, _LARGEST_READ):
            for item in items:
                totals["conversations"] += 1
                totals["messages"] += item.get("messageCount") or 0
                totals["turns"] += item.get("turnCount") or 0
                totals["stamps"] += sum(
                    1 for name, value in item.items() if name.startswith(rows.STAMP) and value.get("through")
                )
            after = items[-1]["id"]
        kinds = [item["name"] async for item in self._table.items(Query(keys.JOB_KINDS))]
        return totals | {
            "openWorkOrders": await self._table.count(Query(keys.OPEN_WORK_ORDERS, index=WORK_ORDER)),
            "jobs": sum([await self._table.count(Query(keys.waiting_jobs(kind))) for kind in kinds]),
        }

    async def _scan(self, after: str | None, limit: int) -> list[Attributes]:
        items: list[Attributes] = []
        while len(items) < limit:
            query = Query(keys.CONVERSATIONS, index=ENTITY, above=after or None)
            missing = limit - len(items)
            ids = [name[ENTITY.sk] async for name in self._table.items(query, missing)]
            items_by_key = await self._table.get_many(keys.meta(name) for name in ids)
            items += [item for name in ids if (item := items_by_key.get(keys.meta(name))) is not None]
            if len(ids) < missing:
                break
            after = ids[-1]
        return items

    async def _partitions(self, part: Range, before: RecencyKey | None) -> tuple[Index, list[list[str]]]:
        if part.of_property:
            return PROPERTY_RECENCY, [[keys.of_property(part.property_id)]]
        slot_layout = (await self._layout_source.current()).read
        layout = slot_layout.layout
        months: list[str] = []
        if layout.kind is LayoutKind.MONTHLY:
            months = [item["SK"] async for item in self._table.items(Query(keys.MONTHS))]
        ends = [at for at in (part.until, None if before is None else before.at) if at is not None]
        return slot_layout.slot.table_index, layout.groups(part.since, min(ends, default=None), months)

    def _source(self, index: Index, partition: str, window: _Window) -> PartitionRows:
        query = window.query(index, partition)

        async def fetch(count: int, start: object) -> tuple[list[Attributes], object]:
            spare = 1 if start is None and window.has_extra_row else 0
            items, next_start = await self._table.query(query, count + spare, start)
            return [item for item in items if window.high is None or item[index.sk] < window.high], next_start

        return PartitionRows(fetch, index.sk)


class _Window:
    """A range as bounds of a sort key: ``low`` inclusive, ``high`` exclusive."""

    def __init__(self, low: str | None, high: str | None, has_extra_row: bool) -> None:
        self.low = low
        self.high = high
        # BETWEEN includes both bounds, so the row of the cursor is returned and dropped here.
        self.has_extra_row = has_extra_row and low is not None

    @classmethod
    def of(cls, part: Range, before: RecencyKey | None) -> _Window:
        cursor = None if before is None else keys.recency(before.at, before.conversation_id)
        until = None if part.until is None else to_text(part.until)
        high = min((bound for bound in (cursor, until) if bound is not None), default=None)
        low = None if part.since is None else to_text(part.since)
        return cls(low, high, has_extra_row=high is not None and high == cursor)

    @property
    def is_empty(self) -> bool:
        return self.low is not None and self.high is not None and self.low >= self.high

    def query(self, index: Index, partition: str) -> Query:
        if self.low is not None and self.high is not None:
            return Query(partition, index=index, newest_first=True, within=(self.low, self.high))
        return Query(partition, index=index, newest_first=True, since=self.low, below=self.high)


@dataclass(slots=True)
class PartitionRows:
    """The rows of one partition, newest first. ``sort_key``: the attribute that orders them."""

    fetch: Fetch
    sort_key: str
    _rows: deque[Attributes] = field(default_factory=deque)
    _start: Any = None
    _ended: bool = False

    async def fill(self, count: int) -> None:
        """Read until there is a row or the partition ends. An empty page is not the end; a missing start key is."""
        while not self._rows and not self._ended:
            rows, self._start = await self.fetch(count, self._start)
            self._rows.extend(rows)
            self._ended = self._start is None

    @property
    def newest(self) -> str | None:
        return self._rows[0][self.sort_key] if self._rows else None

    @property
    def is_spent(self) -> bool:
        return self._ended and not self._rows

    def take(self) -> Attributes:
        return self._rows.popleft()


async def merge(groups: Sequence[Sequence[PartitionRows]], limit: int) -> tuple[list[Attributes], bool]:
    """The newest ``limit`` rows, and whether there are no others.

    Rows of a group are newer than those of the next group; partitions within a group are merged.
    """
    rows: list[Attributes] = []
    for number, group in enumerate(groups):
        while len(rows) < limit:
            left = limit - len(rows)
            count = left if len(group) == 1 else left // len(group) + _SPARE_ROWS
            await asyncio.gather(*(source.fill(count) for source in group if source.newest is None))
            filled = [source for source in group if source.newest is not None]
            if not filled:
                break
            rows.append(max(filled, key=lambda source: source.newest or "").take())
        if len(rows) >= limit:
            spent = all(source.is_spent for source in group)
            return rows, spent and number == len(groups) - 1
    return rows, True
