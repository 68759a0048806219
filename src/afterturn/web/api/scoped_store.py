"""The store within a caller's scope of properties.

Conversations outside the scope are reported as missing. All routes about conversations use it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

from afterturn.backbone import Backbone
from afterturn.channels.routing import remember_move
from afterturn.errors import InvalidCursor, InvalidRecord, NotFound
from afterturn.inbox import InboxPage, InboxQuery, InboxRow
from afterturn.inbox.cursor import PROBLEM, decode_position, encode_position
from afterturn.model import ConversationPatch, Message, SettledTurn, Time, WorkOrder, check_id
from afterturn.store.port import StoreReader, WorkOrderKey
from afterturn.store.state import StateRecord, StateStore
from afterturn.web.roles import Scope

T = TypeVar("T")

_NO_CONVERSATION = "there is no such conversation; GET /api/v1/conversations?window=all lists them"


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """Some of a list in order; ``next_cursor`` is None at the end."""

    items: tuple[T, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ScopedStore:
    """The store, as far as one caller sees it."""

    backbone: Backbone
    scope: Scope

    async def page(self, query: InboxQuery, cursor: str | None) -> InboxPage:
        """A page of the inbox. A cursor is bound to the properties that were asked for, so to its scope as well."""
        properties = self.scope.narrow(query.properties)
        if properties is None:
            if cursor is not None:
                raise InvalidCursor(PROBLEM)
            return InboxPage((), None, complete=True, scanned=0)
        return await self.backbone.inbox.page(query.model_copy(update={"properties": properties}), cursor)

    async def row(self, conversation_id: str) -> InboxRow:
        """One conversation. Raises NotFound."""
        try:
            row = await self.backbone.inbox.row(check_id(conversation_id))
        except ValueError:
            row = None
        if row is None or not self.scope.sees(row.conversation):
            raise NotFound(_NO_CONVERSATION)
        return row

    async def patch_conversation(
        self, conversation_id: str, patch: ConversationPatch, revision: int | None
    ) -> InboxRow:
        """Change what people decide. Raises NotFound, Conflict, and InvalidRecord for a property outside the scope."""
        known = (await self.row(conversation_id)).conversation
        if "property_id" in patch.changes and not self.scope.holds(patch.property_id):
            raise InvalidRecord("propertyId", "is none of the caller's properties; give one of them")
        # If any revision will do: the one whose property was checked.
        based_on = known.revision if revision is None else revision
        now = self.backbone.clock()
        await self.backbone.store.patch_conversation(conversation_id, patch, revision=based_on, now=now)
        if "property_id" in patch.changes:
            await remember_move(
                self.backbone.store,
                conversation_id,
                patch.property_id,
                moved_from=known.property_id,
                scope=self.scope.property_ids,
            )
        row = await self.backbone.inbox.row(conversation_id)
        assert row is not None
        return row

    async def messages(self, conversation_id: str, *, limit: int, cursor: str | None) -> ListPage[Message]:
        """The newest messages in thread order; the cursor leads to those before them. Raises NotFound, InvalidCursor.

        Beyond the first page the whole thread is read: a store knows its end only.
        """
        await self.row(conversation_id)
        query = ("messages", conversation_id)
        store = self.backbone.store
        if cursor is None:
            messages: Sequence[Message] = await store.messages(conversation_id, limit=limit + 1)
        else:
            (oldest_shown,) = decode_position(cursor, query, str)
            thread = await store.messages(conversation_id)
            end = next((index for index, message in enumerate(thread) if message.id == oldest_shown), 0)
            messages = thread[max(end - limit - 1, 0) : end]
        shown = tuple(messages[-limit:])
        return ListPage(shown, encode_position(query, shown[0].id) if len(messages) > limit else None)

    async def turns(self, conversation_id: str, *, limit: int, cursor: str | None) -> ListPage[SettledTurn]:
        """Settled turns, oldest first. Raises NotFound, InvalidCursor."""
        await self.row(conversation_id)
        query = ("turns", conversation_id)
        after = None
        if cursor is not None:
            (after,) = decode_position(cursor, query, datetime)
        turns = await self.backbone.store.turns(conversation_id, after=after, limit=limit + 1)
        shown = turns[:limit]
        return ListPage(shown, encode_position(query, shown[-1].occurred_at) if len(turns) > limit else None)

    async def orders(
        self, *, conversation_id: str | None, open_only: bool, limit: int, cursor: str | None
    ) -> ListPage[WorkOrder]:
        """Work orders, the most urgent first. Raises NotFound, InvalidCursor."""
        if conversation_id is not None:
            await self.row(conversation_id)
        query = _OrderQuery(self.scope, conversation_id, open_only)
        return await _work_orders(self.backbone.store, query, limit=limit, cursor=cursor)

    async def close(self, conversation_id: str, order_id: str) -> WorkOrder:
        """Close a work order. Raises NotFound."""
        await self.row(conversation_id)
        try:
            store = self.backbone.store
            closed = await store.close_work_order(conversation_id, check_id(order_id), now=self.backbone.clock())
        except ValueError:
            closed = None
        if closed is None:
            raise NotFound("the conversation has no such work order; GET /api/v1/work-orders lists them")
        return closed


MAX_ORDERS_READ = 1_000
"""Orders that one request of a caller with a scope reads."""

_READ = 200
_CONVERSATIONS_AT_ONCE = 20


class OrderStore(StateStore, StoreReader, Protocol):
    """What a list of work orders needs of a store."""


class ListPosition(StateRecord):
    """Where a list of work orders continues. ``key``: the name in its cursor."""

    kind = "list-position"
    ttl = timedelta(hours=1)

    rank: int
    opened_at: Time
    order_id: str


@dataclass(frozen=True, slots=True)
class _OrderQuery:
    """Work orders of every conversation in the scope, or of one conversation that the caller sees."""

    scope: Scope
    conversation_id: str | None
    open_only: bool

    @property
    def sees_all(self) -> bool:
        """Whether no work order has to be hidden."""
        return self.scope.whole or self.conversation_id is not None

    @property
    def bound(self) -> tuple[object, ...]:
        """What a cursor is bound to."""
        properties = self.scope.properties
        return "orders", self.open_only, self.conversation_id, None if properties is None else sorted(properties)


async def _work_orders(store: OrderStore, query: _OrderQuery, *, limit: int, cursor: str | None) -> ListPage[WorkOrder]:
    """Work orders, the most urgent first. A page may hold fewer than ``limit``, even none, although it has a cursor.

    An order belongs to the property of its conversation now, wherever it was opened.
    """
    after = None if cursor is None else await _read_position(store, query, cursor)
    visible: dict[str, bool] = {}
    shown: list[WorkOrder] = []
    orders_read = 0
    batch_size = limit + 1 if query.sees_all else _READ
    while orders_read < MAX_ORDERS_READ:
        batch = await store.work_orders(
            conversation_id=query.conversation_id, open_only=query.open_only, after=after, limit=batch_size
        )
        if not query.sees_all:
            await _look_up(store, query.scope, batch, visible)
        for order in batch:
            if not visible.get(order.conversation_id, query.sees_all):
                continue
            if len(shown) == limit:
                last = shown[-1]
                return ListPage(tuple(shown), encode_position(query.bound, last.urgency.rank, last.opened_at, last.id))
            shown.append(order)
        if len(batch) < batch_size:
            return ListPage(tuple(shown), None)
        after = WorkOrderKey.of(batch[-1])
        orders_read += len(batch)
    # A cursor can be decoded, and this position may be of a hidden order. So the store keeps it under a random name.
    assert after is not None
    name = secrets.token_urlsafe(18)
    await store.put(ListPosition(key=name, rank=after.rank, opened_at=after.opened_at, order_id=after.order_id))
    return ListPage(tuple(shown), encode_position((*query.bound, "kept"), name))


async def _look_up(store: OrderStore, scope: Scope, orders: Sequence[WorkOrder], visible: dict[str, bool]) -> None:
    """Add to ``visible`` whether each order's conversation is in the scope."""
    unknown = list(dict.fromkeys(order.conversation_id for order in orders if order.conversation_id not in visible))
    for begin in range(0, len(unknown), _CONVERSATIONS_AT_ONCE):
        ids = unknown[begin : begin + _CONVERSATIONS_AT_ONCE]
        conversations = await asyncio.gather(*map(store.conversation, ids))
        for conversation_id, conversation in zip(ids, conversations, strict=True):
            visible[conversation_id] = conversation is not None and scope.sees(conversation)


async def _read_position(store: OrderStore, query: _OrderQuery, cursor: str) -> WorkOrderKey:
    try:
        return WorkOrderKey(*decode_position(cursor, query.bound, int, datetime, str))
    except InvalidCursor:
        (name,) = decode_position(cursor, (*query.bound, "kept"), str)
    position = await store.get(ListPosition, name)
    if position is None:
        raise InvalidCursor(PROBLEM)
    return WorkOrderKey(position.rank, position.opened_at, position.order_id)
