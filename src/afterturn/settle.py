"""Settling a turn: one store transaction, then publish. The reply waits for nothing else."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from afterturn import telemetry
from afterturn.clock import Clock
from afterturn.errors import NotFound, StreamUnavailable
from afterturn.event import TurnSettled
from afterturn.model import Conversation, ConversationMeta, FlushMode, Message, Turn
from afterturn.store.invariants import check_edit_time, check_times
from afterturn.store.jobs import Job
from afterturn.store.port import Writer
from afterturn.stream.port import Publisher


@dataclass(frozen=True, slots=True)
class SettleResult:
    """What ``settle`` answers: the event of the turn, and whether it is new (false: it was settled before)."""

    event: TurnSettled
    new: bool

    @property
    def occurred_at(self) -> datetime:
        return self.event.occurred_at


class Settler:
    """The writer's verbs. ``emitter`` is the configured name of this runtime."""

    def __init__(self, store: Writer, stream: Publisher, clock: Clock, emitter: str) -> None:
        self._store = store
        self._stream = stream
        self._clock = clock
        self._emitter = emitter

    async def save_conversation(self, meta: ConversationMeta) -> Conversation:
        """Create a conversation, or replace what the writer owns of it. Nothing is published.

        Raises InvalidRecord for a time in the future.
        """
        now = self._clock()
        check_times((), now, created_at=meta.created_at)
        return await self._store.save_conversation(meta, now=now)

    async def save_messages(
        self, meta: ConversationMeta, messages: Sequence[Message], *, jobs: Sequence[Job] = ()
    ) -> int:
        """Save messages in the middle of a turn, so that a crash cannot lose them; the inbox does not move.

        ``jobs`` are kept with them: what somebody has to do, however this process ends. Returns how many messages
        were new. Raises InvalidRecord for a time in the future.
        """
        now = self._clock()
        check_times(messages, now, created_at=meta.created_at)
        return await self._store.save_messages(meta, messages, now=now, jobs=jobs)

    async def settle(self, turn: Turn, *, jobs: Sequence[Job] = ()) -> SettleResult:
        """Save a turn and mark it settled; every registered consumer comes to see it. ``jobs`` are kept with it.

        Calling it again with the same turn changes nothing (a turn without messages needs a ``key`` for that), so a
        caller that does not know how its call ended may repeat it. Raises InvalidRecord or StoreError, and then nothing
        was written. A stream that does not answer raises nothing: the turn is saved, and the ledger's sweep publishes
        it.
        """
        now = self._clock()
        check_times(turn.messages, now, turn.at, turn.conversation.created_at)
        settled = await self._store.settle(turn, now=now, emitter=self._emitter, jobs=jobs)
        event = settled.event
        if not settled.published:
            await self._publish(event)
        if settled.new:
            telemetry.turns_settled.labels(channel=event.channel.value).inc()
        telemetry.log("settle", level=logging.DEBUG, event_id=event.event_id, status="new" if settled.new else "known")
        return SettleResult(event=event, new=settled.new)

    async def edit_message(self, conversation_id: str, provider_id: str, text: str, *, at: datetime) -> bool:
        """Replace the text of a message that its sender has edited; returns whether it is another one now.

        Nothing is settled: reactions see the new text with the next turn. An older edit than the last one, the same
        text again, and a message that is not there change nothing. Raises InvalidRecord for a time in the future and
        for a text that no message can have.
        """
        check_edit_time(at, self._clock())
        return await self._store.edit_message(conversation_id, provider_id, text, at=at)

    async def on_conversation_turn_complete(
        self, conversation_id: str, *, flush_mode: FlushMode = FlushMode.DEBOUNCED, key: str | None = None
    ) -> SettleResult:
        """Settle a conversation whose messages were all saved before, such as a voice call that ended.

        Raises NotFound for an unknown conversation.
        """
        meta = await self._store.meta(conversation_id)
        if meta is None:
            raise NotFound(f"no conversation {conversation_id!r}")
        return await self.settle(Turn(conversation=meta, flush_mode=flush_mode, key=key))

    async def _publish(self, event: TurnSettled) -> None:
        for last in (False, True):
            try:
                await self._stream.publish(event)
                return
            except StreamUnavailable as error:
                if last:
                    telemetry.publish_failures.inc()
                    telemetry.log(
                        "publish_failed", level=logging.ERROR, event_id=event.event_id, error=type(error).__name__
                    )
