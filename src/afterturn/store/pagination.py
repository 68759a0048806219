"""The three reads of whole parts of the store, over the port: newest N, one property, everything."""

from __future__ import annotations

from collections.abc import AsyncIterator

from afterturn.model import Conversation
from afterturn.store.port import Range, RecencyKey, StoreReader

_MAX_READ = 500


async def iterate(store: StoreReader, part: Range, *, limit: int | None = None) -> AsyncIterator[Conversation]:
    """A part of the recency index, newest first: the newest ``limit`` rows of it, or all."""
    before: RecencyKey | None = None
    left = limit
    while left is None or left > 0:
        wanted = _MAX_READ if left is None else min(left, _MAX_READ)
        found = await store.recency(part, before=before, limit=wanted)
        for conversation in found.rows:
            yield conversation
        if found.exhausted:
            return
        if found.rows:
            before = key_of(found.rows[-1])
        left = None if left is None else left - len(found.rows)


async def newest(store: StoreReader, limit: int) -> tuple[Conversation, ...]:
    """The newest ``limit`` conversations over all properties."""
    return tuple([one async for one in iterate(store, Range(), limit=limit)])


def of_property(store: StoreReader, property_id: str | None) -> AsyncIterator[Conversation]:
    """Every conversation of a property (None: the unassigned ones), newest first."""
    return iterate(store, Range(of_property=True, property_id=property_id))


async def all_conversations(store: StoreReader) -> AsyncIterator[Conversation]:
    """Every conversation, in the order of ids, also those without a place in the recency index."""
    after: str | None = None
    while batch := await store.scan(after=after, limit=_MAX_READ):
        for conversation in batch:
            yield conversation
        after = batch[-1].id


def key_of(conversation: Conversation) -> RecencyKey:
    """The place of a conversation in the recency index."""
    return RecencyKey(conversation.recency, conversation.id)
