"""A chat that gets another id, while its messages come in under both: one conversation, whatever comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from afterturn.channels.threads import MOVED, moved_to
from afterturn.channels.types import ThreadMigrated
from afterturn.ids import digest
from afterturn.model import MAX_TURN_MESSAGES, ConversationMeta, Message, Status, Turn
from afterturn.store.port import Keeper

MOVE = "move"
"""Notes: which of the two ids a conversation has here. Decided once, whoever comes first."""


class Settles(Protocol):
    async def settle(self, turn: Turn) -> object: ...
    async def save_conversation(self, meta: ConversationMeta) -> object: ...


class Reads(Keeper, Protocol):
    async def meta(self, conversation_id: str) -> ConversationMeta | None: ...
    async def messages(self, conversation_id: str, *, limit: int | None = None) -> Sequence[Message]: ...


async def decide(store: Reads, one: ThreadMigrated) -> tuple[str, str]:
    """The id that is given up here, and the conversation's own: the older one, but where only the newer is known."""
    home = await moved_to(store, one.source)
    if home == one.target:
        return one.source, home
    if await store.meta(one.target) is not None and await store.meta(home) is None:
        home = one.target
    both = digest(one.source, one.target)
    await store.note(MOVE, both, home)
    home = str((await store.noted(MOVE, [both]))[both])
    gone = one.source if home == one.target else one.target
    await store.note(MOVED, gone, home)
    return gone, home


async def carry(writes: Settles, store: Reads, gone: str, home: str) -> bool:
    """What came in under an id that is given up, into the conversation; what is left of it is shown to nobody. Returns
    whether there was anything.
    """
    stray = await store.meta(gone)
    if stray is None:
        return False
    known = await store.meta(home) or stray.model_copy(update={"id": home})
    messages = await store.messages(gone)
    for begin in range(0, len(messages), MAX_TURN_MESSAGES):
        part = tuple(messages[begin : begin + MAX_TURN_MESSAGES])
        await writes.settle(Turn(conversation=known, messages=part))
    if not stray.synthetic:
        await writes.save_conversation(stray.model_copy(update={"synthetic": True, "status": Status.CLOSED}))
    return True
