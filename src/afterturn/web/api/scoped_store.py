"""The store within a caller's scope of properties.

Conversations outside the scope are reported as missing. All routes about conversations use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from afterturn.backbone import Backbone
from afterturn.channels.routing import remember_move
from afterturn.errors import InvalidCursor, InvalidRecord, NotFound
from afterturn.inbox import InboxPage, InboxQuery, InboxRow
from afterturn.inbox.cursor import Cursor, decode, encode
from afterturn.model import ConversationPatch, Message, SettledTurn, WorkOrder, check_id
from afterturn.store.port import RecencyKey
from afterturn.web.api.orders import ScopedOrders
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
