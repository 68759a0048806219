"""A chat that gets another id, while messages come in under both: they become one conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from afterturn.channels.state import MergedThread, ThreadMigration
from afterturn.channels.threads import merged_into
from afterturn.channels.types import ThreadMigrated
from afterturn.ids import digest
from afterturn.model import MAX_TURN_MESSAGES, ConversationMeta, Message, Status, Turn
from afterturn.store.state import StateStore


class MergeWriter(Protocol):
    async def settle(self, turn: Turn) -> object: ...
    async def save_conversation(self, meta: ConversationMeta) -> object: ...


class MergeStore(StateStore, Protocol):
    async def meta(self, conversation_id: str) -> ConversationMeta | None: ...
    async def messages(self, conversation_id: str, *, limit: int | None = None) -> Sequence[Message]: ...


async def surviving_thread(store: MergeStore, event: ThreadMigrated) -> tuple[str, str]:
    """The conversation to merge and the one that survives: the older id, unless only the newer one is known.

    Decided once, whichever of the two ids is delivered first.
    """
    target = await merged_into(store, event.source)
    if target == event.target:
        return event.source, target
    if await store.meta(event.target) is not None and await store.meta(target) is None:
        target = event.target
    both = digest(event.source, event.target)
    await store.put(ThreadMigration(key=both, conversation_id=target))
    if (decided := await store.get(ThreadMigration, both)) is not None:
        target = decided.conversation_id
    source = event.source if target == event.target else event.target
    await store.put(MergedThread(key=source, conversation_id=target))
    return source, target


async def merge_thread(writer: MergeWriter, store: MergeStore, source: str, target: str) -> bool:
    """Copy the messages of ``source`` to ``target`` and hide ``source``. Return whether there were any."""
    stray = await store.meta(source)
    if stray is None:
        return False
    meta = await store.meta(target) or stray.model_copy(update={"id": target})
    messages = await store.messages(source)
    for begin in range(0, len(messages), MAX_TURN_MESSAGES):
        part = tuple(messages[begin : begin + MAX_TURN_MESSAGES])
        await writer.settle(Turn(conversation=meta, messages=part))
    if not stray.synthetic:
        await writer.save_conversation(stray.model_copy(update={"synthetic": True, "status": Status.CLOSED}))
    return True
