"""What a consumer is given: the turns it has not seen yet, and a context for its effects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pydantic import JsonValue

from afterturn.model import Conversation, Message, StoredStamp


@dataclass(frozen=True, slots=True)
class TurnWindow:
    """A conversation and its messages after the consumer's last ``through``, up to the newest settled turn.

    ``messages`` stand in thread order (time, then arrival). ``previous`` is the consumer's own last stamp, if any:
    carry forward in its data what has to be known of earlier turns. ``through`` is the turn that this run reaches.
    """

    conversation: Conversation
    messages: tuple[Message, ...]
    through: datetime
    previous: StoredStamp | None = None


class Claims(Protocol):
    """The part of the store that a context needs to do a thing once."""

    async def claim(self, name: str, key: str, value: JsonValue = None) -> JsonValue: ...

    async def claim_done(self, name: str, key: str) -> bool: ...

    async def finish_claim(self, name: str, key: str) -> None: ...


@dataclass(frozen=True, slots=True)
class ReactionContext:
    """The surroundings of one run. ``quiet``: this is history or a shadow run, so nothing may leave the house."""

    consumer: str
    conversation_id: str
    now: datetime
    attempt: int
    quiet: bool
    claims: Claims

    async def pin(self, key: str, value: JsonValue) -> JsonValue:
        """Remember ``value`` under ``key`` for ever; the first one wins, and every later call is given that one.

        What a side effect consists of is pinned before it is tried, so that a run after a crash repeats the very
        same effect and not another one.
        """
        return await self.claims.claim(self.consumer, self._scoped(key), value)

    async def once(self, key: str, effect: Callable[[str], Awaitable[None]]) -> bool:
        """Do ``effect`` behind a claim: not again once it has succeeded, and not at all in a quiet run.

        ``effect`` is given an idempotency key, the same in each try: a crash between the effect and the record of
        it repeats the call, and the receiver tells the repeat by the key. Returns whether the effect was done now.
        """
        scoped = self._scoped(key)
        if self.quiet or await self.claims.claim_done(self.consumer, scoped):
            return False
        await self.claims.claim(self.consumer, scoped)
        await effect(f"{self.consumer}:{scoped}")
        await self.claims.finish_claim(self.consumer, scoped)
        return True

    def _scoped(self, key: str) -> str:
        """Conversation and key, so that no two pairs read the same: ids may hold colons."""
        conversation_id = self.conversation_id.replace("%", "%25").replace(":", "%3A")
        return f"{conversation_id}:{key}"
