"""The store within a caller's scope of properties.

Conversations outside the scope are reported as missing. All routes about conversations use it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

from afterturn.backbone import Backbone
from afterturn.channels.routing import remember_move
from afterturn.errors import InvalidCursor, InvalidRecord, NotFound
from afterturn.inbox import InboxPage, InboxQuery, InboxRow
from afterturn.inbox.cursor import PROBLEM, Cursor, decode, decode_position, encode, encode_position
from afterturn.model import ConversationPatch, Message, SettledTurn, Time, WorkOrder, check_id
from afterturn.store.port import RecencyKey, StateRecord, StateStore, StoreReader, WorkOrderKey
from afterturn.web.roles import Scope

T = TypeVar("T")

_NO_CONVERSATION = "there is no such conversation; GET /api/v1/conversations?window=all lists them"
_NO_CURSOR = "the cursor was altered, cut, or belongs to another query; start again from the first page"


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
                raise InvalidCursor(_NO_CURSOR)
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
        # Where any revision will do, it is the one whose property was looked at.
        based_on = known.revision if revision is None else revision
        now = self.backbone.clock()
        await self.backbone.store.patch_conversation(conversation_id, patch, revision=based_on, now=now)
        if "property_id" in patch.changes:
            await remember_move(
                self.backbone.store,
                conversation_id,
                patch.property_id,
                moved_from=known.property_id,
                scope=self.scope.places,
            )
        row = await self.backbone.inbox.row(conversation_id)
        assert row is not None
        return row

    async def messages(self, conversation_id: str, *, limit: int, cursor: str | None) -> ListPage[Message]:
        """The newest messages in thread order; the cursor leads to those before them. Raises NotFound, InvalidCursor.

        Beyond the first page the whole thread is read: a store knows its end only.
        """
        await self.row(conversation_id)
        bound = f"messages:{conversation_id}"
        store = self.backbone.store
        if cursor is None:
            found: Sequence[Message] = await store.messages(conversation_id, limit=limit + 1)
        else:
            anchor = decode(cursor, bound).after.conversation_id
            thread = await store.messages(conversation_id)
            place = next((place for place, one in enumerate(thread) if one.id == anchor), 0)
            found = thread[max(place - limit - 1, 0) : place]
        shown = tuple(found[-limit:])
        more = len(found) > len(shown)
        return ListPage(shown, encode(Cursor(RecencyKey(shown[0].at, shown[0].id), None), bound) if more else None)

    async def turns(self, conversation_id: str, *, limit: int, cursor: str | None) -> ListPage[SettledTurn]:
        """Settled turns, oldest first. Raises NotFound, InvalidCursor."""
        await self.row(conversation_id)
        bound = f"turns:{conversation_id}"
        after = None if cursor is None else decode(cursor, bound).after.at
        found = await self.backbone.store.turns(conversation_id, after=after, limit=limit + 1)
        shown = found[:limit]
        more = len(found) > limit
        return ListPage(
            shown, encode(Cursor(RecencyKey(shown[-1].occurred_at, conversation_id), None), bound) if more else None
        )

    async def orders(
        self, *, conversation_id: str | None, open_only: bool, limit: int, cursor: str | None
    ) -> ListPage[WorkOrder]:
        """Work orders, the most urgent first. Raises NotFound, InvalidCursor."""
        if conversation_id is not None:
            await self.row(conversation_id)
        orders = ScopedOrders(self.backbone.store, self.scope, open_only, conversation_id)
        shown, further = await orders.page(cursor, limit)
        return ListPage(tuple(shown), further)

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


MOST_LOOKED_AT = 1_000
"""Orders that one request of a caller with a scope looks through."""

_READ = 200
_AT_ONCE = 20
"""Conversations that are asked for at a time."""


class ListPosition(StateRecord):
    """Where a list of work orders goes on. ``key``: what the cursor names it."""

    kind = "list-position"
    ttl = timedelta(hours=1)

    rank: int
    opened_at: Time
    order_id: str


class OrderStore(StateStore, StoreReader, Protocol):
    """What is asked of a store."""


@dataclass(slots=True)
class ScopedOrders:
    """A list of them: of every conversation in the scope, or of one that was looked at before."""

    store: OrderStore
    scope: Scope
    open_only: bool
    conversation_id: str | None = None
    _seen: dict[str, bool] = field(default_factory=dict)

    @property
    def asked(self) -> tuple[object, ...]:
        """What a cursor is bound to."""
        properties = self.scope.properties
        return "orders", self.open_only, self.conversation_id, None if properties is None else sorted(properties)

    async def page(self, cursor: str | None, limit: int) -> tuple[Sequence[WorkOrder], str | None]:
        """At most ``limit``, the most urgent first, and where it goes on. Raises InvalidCursor.

        Where the caller's own are rare among all, a page may come with fewer, even none: it goes on all the same.
        """
        after = None if cursor is None else await self._place(cursor)
        shown: list[WorkOrder] = []
        looked_at = 0
        read = limit + 1 if self._sees_all else _READ
        while looked_at < MOST_LOOKED_AT:
            found = await self.store.work_orders(
                conversation_id=self.conversation_id, open_only=self.open_only, after=after, limit=read
            )
            for order in await self._visible(found):
                if len(shown) == limit:
                    return shown, self.cursor(shown[-1])
                shown.append(order)
            if len(found) < read:
                return shown, None
            after = WorkOrderKey.of(found[-1])
            looked_at += len(found)
        assert after is not None
        return shown, await self._hidden_cursor(after)

    def cursor(self, order: WorkOrder) -> str:
        return encode_position(self.asked, order.urgency.rank, order.opened_at, order.id)

    @property
    def _sees_all(self) -> bool:
        return self.scope.whole or self.conversation_id is not None

    async def _visible(self, found: Sequence[WorkOrder]) -> Sequence[WorkOrder]:
        """Those whose conversations are the caller's now: an order may have been opened elsewhere."""
        if self._sees_all:
            return found
        unknown = list(dict.fromkeys(one.conversation_id for one in found if one.conversation_id not in self._seen))
        for begin in range(0, len(unknown), _AT_ONCE):
            part = unknown[begin : begin + _AT_ONCE]
            for name, one in zip(part, await asyncio.gather(*map(self.store.conversation, part)), strict=True):
                self._seen[name] = one is not None and self.scope.sees(one)
        return [one for one in found if self._seen[one.conversation_id]]

    async def _hidden_cursor(self, after: WorkOrderKey) -> str:
        """A cursor tells whoever decodes it where it leads. This place may be of an order that is hidden: the store
        keeps it, and the cursor holds a name of it.
        """
        name = secrets.token_urlsafe(18)
        await self.store.put(
            ListPosition(key=name, rank=after.rank, opened_at=after.opened_at, order_id=after.order_id)
        )
        return encode_position((*self.asked, "kept"), name)

    async def _place(self, cursor: str) -> WorkOrderKey:
        try:
            rank, opened_at, order_id = decode_position(cursor, self.asked, int, datetime, str)
        except InvalidCursor:
            return await self._kept_place(cursor)
        assert isinstance(rank, int)
        assert isinstance(opened_at, datetime)
        return WorkOrderKey(rank, opened_at, str(order_id))

    async def _kept_place(self, cursor: str) -> WorkOrderKey:
        (name,) = decode_position(cursor, (*self.asked, "kept"), str)
        position = await self.store.get(ListPosition, str(name))
        if position is None:
            raise InvalidCursor(PROBLEM)
        return WorkOrderKey(position.rank, position.opened_at, position.order_id)
