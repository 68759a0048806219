"""Work orders as far as one caller sees them: where an order's conversation is now, there it belongs."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from afterturn.errors import InvalidCursor
from afterturn.inbox.cursor import PROBLEM
from afterturn.model import Time, WorkOrder
from afterturn.store.port import StateRecord, StateStore, StoreReader, WorkOrderKey
from afterturn.web.api.cursors import decode_position, encode_position
from afterturn.web.roles import Scope

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
