"""Answers: a responder is asked about each message that waits, its answer is settled, and then it is sent.

Answer and the chore to send it are one transaction. An answer has the id of what it answers, so one that was asked for
twice, because somebody died in between, is kept once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol

from afterturn import telemetry
from afterturn.addresses import digest, legal_id
from afterturn.clock import Clock
from afterturn.errors import AfterturnError
from afterturn.funnel.intake import ANSWER, CALL, FINISH_CALL, OPTED_OUT, ROUTE, Writes
from afterturn.funnel.responder import Asked, Responder
from afterturn.model import Conversation, ConversationMeta, Direction, FlushMode, Message, Role, Turn
from afterturn.store.port import Chore, Keeper, TakenChore

DISPATCH = "dispatch"
"""Chores: an outbound message has to be sent."""

LEASE = timedelta(minutes=2)
"""How long an answer may take. Whoever takes longer is asked a second time."""

_LAST_WORDS = 50
_PAUSES = (5, 30, 120, 600, 3600)
"""Seconds before the next try of what failed; the last one again and again."""


class Threads(Protocol):
    async def conversation(self, conversation_id: str) -> Conversation | None: ...
    async def messages(self, conversation_id: str, *, limit: int | None = None) -> Sequence[Message]: ...


class Answering:
    """Does the chores of answering and of calls that have ended. Without a responder messages are settled only."""

    def __init__(
        self,
        writes: Writes,
        keeper: Keeper,
        threads: Threads,
        clock: Clock,
        *,
        responder: Responder | None = None,
        lease: timedelta = LEASE,
    ) -> None:
        self._writes = writes
        self._keeper = keeper
        self._threads = threads
        self._clock = clock
        self._responder = responder
        self._lease = lease

    async def once(self, *, limit: int = 16) -> int:
        """Take what is due and do it, conversations side by side; returns how many chores were taken."""
        now = self._clock()
        answers = await self._keeper.take_chores(ANSWER, now=now, lease=self._lease, limit=limit)
        calls = await self._keeper.take_chores(FINISH_CALL, now=now, lease=self._lease, limit=limit)
        by_conversation: dict[str, list[TakenChore]] = {}
        for one in answers:
            by_conversation.setdefault(one.conversation_id, []).append(one)
        async with asyncio.TaskGroup() as group:
            for each in by_conversation.values():
                group.create_task(self._all(each))
            for call in calls:
                group.create_task(self._do(call))
        return len(answers) + len(calls)

    async def _all(self, chores: Sequence[TakenChore]) -> None:
        """Of one conversation: what came in meanwhile is answered in one, so only the newest is asked about."""
        *earlier, newest = chores
        if await self._do(newest):
            for one in earlier:
                await self._keeper.finish_chore(one)

    async def _do(self, chore: TakenChore) -> bool:
        try:
            await (self._finish_call(chore) if chore.kind == FINISH_CALL else self._answer(chore))
        except Exception as error:
            pause = _PAUSES[min(chore.attempts, len(_PAUSES)) - 1]
            telemetry.log(
                "chore_failed",
                level=logging.ERROR,
                stage=chore.kind,
                conversation_id=chore.conversation_id,
                error=type(error).__name__,
                delay_s=pause,
            )
            try:
                await self._keeper.put_off_chore(chore, until=self._clock() + timedelta(seconds=pause))
            except AfterturnError:
                telemetry.log("put_off_failed", level=logging.WARNING, stage=chore.kind)
            return False
        await self._keeper.finish_chore(chore)
        return True

    async def _answer(self, chore: TakenChore) -> None:
        conversation = await self._threads.conversation(chore.conversation_id)
        if conversation is None:
            return
        route = (await self._keeper.noted(ROUTE, [conversation.id])).get(conversation.id)
        messages = await self._threads.messages(conversation.id, limit=_LAST_WORDS)
        text = None
        if self._responder is not None and isinstance(route, dict) and not await self._is_quiet(chore, route):
            text = await self._responder(Asked(conversation, messages, str(route["account"]), str(route["recipient"])))
        meta = _meta(conversation)
        if not text or not text.strip():
            await self._writes.settle(Turn(conversation=meta, key=legal_id("answered:", digest(chore.kind, chore.key))))
            return
        reply = Message(
            id=f"reply:{digest(chore.kind, chore.key)}",
            direction=Direction.OUTBOUND,
            role=Role.AGENT,
            text=text,
            at=max([self._clock(), *(one.at for one in messages)]),  # a provider's clock may run ahead of ours
        )
        await self._writes.settle(
            Turn(conversation=meta, messages=(reply,)), chores=[dispatch_of(conversation.id, reply, automatic=True)]
        )

    async def _is_quiet(self, chore: TakenChore, route: dict[str, Any]) -> bool:
        """Whether a machine has to keep quiet: nobody answers, or the customer has opted out."""
        if isinstance(chore.value, dict) and chore.value.get("nobody"):
            return True
        recipient = str(route["recipient"])
        found = (await self._keeper.noted(OPTED_OUT, [recipient])).get(recipient)
        return isinstance(found, dict) and bool(found.get("out"))

    async def _finish_call(self, chore: TakenChore) -> None:
        """Settle a call without a transcript, unless one came meanwhile."""
        if chore.key in await self._keeper.noted(CALL, [chore.key]):
            return
        conversation = await self._threads.conversation(chore.conversation_id)
        if conversation is not None:
            key = legal_id("call:", chore.key)
            turn = Turn(conversation=_meta(conversation), flush_mode=FlushMode.IMMEDIATE, key=key)
            await self._writes.settle(turn)


def dispatch_of(conversation_id: str, message: Message, *, automatic: bool) -> Chore:
    """The chore to send an outbound message."""
    return Chore(
        kind=DISPATCH,
        key=f"{digest(conversation_id, message.id)}",
        conversation_id=conversation_id,
        value={"message": message.id, "automatic": automatic},
        due_at=message.at,
    )


def _meta(conversation: Conversation) -> ConversationMeta:
    return ConversationMeta(**{name: getattr(conversation, name) for name in ConversationMeta.model_fields})
