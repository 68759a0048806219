"""What an adapter supplies to the store suite."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from tests.contract.samples import meta, turn

from afterturn.model import ConversationMeta, Message, Turn
from afterturn.store.port import Settled, Store


class StoreFactory(Protocol):
    """A place that keeps one store. Opening it again, also while it is open, gives the same records."""

    def open(self) -> AbstractAsyncContextManager[Store]: ...


async def settle(store: Store, given: Turn, now: datetime) -> Settled:
    return await store.settle(given, now=now, emitter="worker")


async def settle_new(store: Store, conversation_id: str, *messages: Message, now: datetime, **about: object) -> Settled:
    """Settle a turn that has to be new."""
    settled = await settle(store, turn(conversation_id, *messages, **about), now)
    assert settled.new
    return settled


def meta_of(store_meta: ConversationMeta | None) -> ConversationMeta:
    assert store_meta is not None
    return store_meta


__all__ = ["StoreFactory", "meta", "meta_of", "settle", "settle_new", "turn"]
