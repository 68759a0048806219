"""Reads of many pages: the newest N conversations, those of a property, all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from afterturn.model import Conversation
from afterturn.store.port import Range, RecencyKey, StoreReader

_MAX_READ = 500


async def iterate(store: StoreReader, part: Range, *, limit: int | None = None) -> AsyncIterator[Conversation]:
    """The newest ``limit`` rows of a range, or all of them."""
    before: RecencyKey | None = None
    left = limit
    while left is None or left > 0:
        count = _MAX_READ if left is None else min(left, _MAX_READ)
        page = await store.recency(part, before=before, limit=count)
        for conversation in page.rows:
            yield conversation
        if page.exhausted:
            return
        if page.rows:
            before = key_of(page.rows[-1])
        left = None if left is None else left - len(page.rows)


async def newest(store: StoreReader, limit: int) -> tuple[Conversation, ...]:
    """The newest ``limit`` conversations of all properties."""
    return tuple([conversation async for conversation in iterate(store, Range(), limit=limit)])


def of_property(store: StoreReader, property_id: str | None) -> AsyncIterator[Conversation]:
    """Every conversation of a property (None: the unassigned ones), newest first."""
    return iterate(store, Range(of_property=True, property_id=property_id))


async def all_conversations(store: StoreReader) -> AsyncIterator[Conversation]:
    """Every conversation by id, including those that the recency index does not hold."""
    after: str | None = None
    while batch := await store.scan(after=after, limit=_MAX_READ):
        for conversation in batch:
            yield conversation
        after = batch[-1].id


def key_of(conversation: Conversation) -> RecencyKey:
    """The position of a conversation in the recency index."""
    return RecencyKey(conversation.recency, conversation.id)
