"""Answers: a responder is asked about each message that waits, its answer is settled, and then it is sent.

Answer and the job to send it are one transaction. An answer has the id of what it answers, so one that was asked for
twice, because somebody died in between, is kept once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from afterturn import telemetry
from afterturn.channels.ingest import IngestWriter
from afterturn.channels.rate_limit import RateLimit, retry_at
from afterturn.channels.responder import ReplyRequest, Responder
from afterturn.channels.sanitize import clean_message_text
from afterturn.channels.state import (
    ANSWER,
    DISPATCH,
    FINISH_CALL,
    MAX_REPLY_TIMES,
    Album,
    AnswerJob,
    MessageDetails,
    ReplyHistory,
    Route,
    SendJob,
    SettledCall,
    message_key,
)
from afterturn.channels.threads import merged_into
from afterturn.channels.types import SuppressReason
from afterturn.clock import Clock
from afterturn.ids import digest, legal_id
from afterturn.jobs.retry import RetryLater, RetryPolicy
from afterturn.jobs.runner import JobHandler
from afterturn.model import Channel, Conversation, ConversationMeta, Direction, FlushMode, Message, Role, Turn
from afterturn.store.invariants import FUTURE_TOLERANCE_HOURS
from afterturn.store.port import Job, LeasedJob, StateStore

CAP = RateLimit(40, timedelta(hours=1))
"""More automatic answers than a person asks for in a conversation, and fewer than two machines give each other."""

SENDING_CHANNELS = frozenset({Channel.SMS, Channel.EMAIL, Channel.TELEGRAM})
"""Where a text can be sent. A call is over, and a page fetches what it shows."""

LEASE = timedelta(minutes=2)
"""After that time somebody else is asked."""

GIVE_UP_AFTER = timedelta(days=3)
"""Later an answer helps nobody; it is left to people."""

CONCURRENCY = 16
"""Conversations that are answered at the same time."""

_PATIENCE = 0.75
"""The part of the lease that an answer may take; who has not answered then has failed."""

_AHEAD = timedelta(hours=FUTURE_TOLERANCE_HOURS)
_LAST_WORDS = 50
_DELAYS = (5, 30, 120, 600, 3600)
"""Seconds before the next attempt."""


class Threads(Protocol):
    async def conversation(self, conversation_id: str) -> Conversation | None: ...
    async def messages(self, conversation_id: str, *, limit: int | None = None) -> Sequence[Message]: ...


class AutoReply:
    """Does the jobs of answering and of calls that have ended. Without a responder messages are settled only, and
    their answers left to a process that has one.

    ``cap``: how many automatic answers a conversation gets; what goes beyond is left to people.
    """

    def __init__(
        self,
        writes: IngestWriter,
        state: StateStore,
        threads: Threads,
        clock: Clock,
        *,
        responder: Responder | None = None,
        lease: timedelta = LEASE,
        cap: RateLimit = CAP,
    ) -> None:
        self._writes = writes
        self._state = state
        self._threads = threads
        self._clock = clock
        self._responder = responder
        self._lease = lease
        self._cap = RateLimit(min(cap.answers, MAX_REPLY_TIMES), cap.span)

    @property
    def handlers(self) -> tuple[JobHandler, ...]:
        """How answer jobs and ended calls are done. What came in meanwhile is answered in one reply."""
        return (
            JobHandler(
                kind=ANSWER,
                run=self._answer,
                lease=self._lease,
                retry=RetryPolicy(_DELAYS, GIVE_UP_AFTER),
                failed=self._settle_anyway,
                concurrency=CONCURRENCY,
                leads_to=(DISPATCH,),
                is_shared=lambda job: self._responder is not None and not _is_nobody(job),
            ),
            JobHandler(
                kind=FINISH_CALL,
                run=self._finish_call,
                lease=self._lease,
                retry=RetryPolicy(_DELAYS),
                concurrency=CONCURRENCY,
            ),
        )

    async def _settle_anyway(self, job: LeasedJob, reason: str, delay: timedelta | None) -> None:
        """A customer's message does not wait for its reply: reactions see it, and report an emergency."""
        conversation = await self._conversation(job)
        if conversation is not None:
            await self._writes.settle(_without_answer(conversation, job))

    async def _answer(self, job: LeasedJob) -> bool:
        """False if it had been done before."""
        if self._responder is None and not _is_nobody(job):
            raise RetryLater("nobody-here")  # another process on the same store has a responder
        conversation = await self._conversation(job)
        if conversation is None:
            return True
        route = await self._state.get(Route, conversation.id)
        value = _value_of(job)
        if value.album:  # from here on a part that comes waits alone
            await self._state.put(Album(key=job.key))
        messages = await self._threads.messages(conversation.id, limit=_LAST_WORDS)
        seen = tuple(digest(message.id) for message in messages)
        if conversation.id != job.conversation_id and digest(value.message) not in seen:
            raise RetryLater("not-merged-yet")  # its thread was merged, and the messages are being moved
        if value.album:
            await self._state.put(Album(key=job.key, version=1, parts=seen))
        name = f"reply:{digest(job.kind, job.key)}"
        text = None
        if self._responder is not None and route is not None and not await self._is_quiet(job, conversation, route):
            history = await self._state.get(ReplyHistory, conversation.id) or ReplyHistory(key=conversation.id)
            if history.covers(job, value.message) or any(message.id == name for message in messages):
                return False
            if retry_at(history.earlier(job, self._clock()), self._clock(), [self._cap]) is None:
                asked = ReplyRequest(conversation, messages, route.account, route.recipient)
                async with asyncio.timeout(self._lease.total_seconds() * _PATIENCE):
                    text = _fit(await self._responder(asked), conversation.id)
                after = history.with_reply(job, seen, self._clock()) if text else history.without_reply(job, seen)
                await self._state.put(after)
            else:
                await self._leave_to_people(value, conversation)
        if not text:
            await self._writes.settle(_without_answer(conversation, job))
            return True
        reply = Message(
            id=name,
            direction=Direction.OUTBOUND,
            role=Role.AGENT,
            text=text,
            at=_behind(messages, self._clock()),
        )
        answers = _answered_by_it(route, messages) or _value_of(job).message
        sending = send_job(conversation.id, reply, automatic=True, due_at=self._clock(), answers=answers)
        await self._writes.settle(
            Turn(conversation=_meta(conversation), messages=(reply,)),
            jobs=[sending] if conversation.channel in SENDING_CHANNELS else (),
        )
        return True

    async def _conversation(self, job: LeasedJob) -> Conversation | None:
        """Where it goes on by now: a group may have moved while the job waited."""
        return await self._threads.conversation(await merged_into(self._state, job.conversation_id))

    async def _leave_to_people(self, value: AnswerJob, conversation: Conversation) -> None:
        """Two machines that answer each other are stopped here; the reason is shown with the message."""
        channel = conversation.channel.value
        telemetry.answers_capped.labels(channel).inc()
        telemetry.log("answers_capped", level=logging.WARNING, conversation_id=conversation.id, channel=channel)
        key = message_key(conversation.id, value.message)
        details = await self._state.get(MessageDetails, key) or MessageDetails(key=key)
        await self._state.put(details.model_copy(update={"version": 1, "suppress": SuppressReason.LOOP.value}))

    async def _is_quiet(self, job: LeasedJob, conversation: Conversation, route: Route) -> bool:
        """Whether no automatic reply is wanted: nobody answers, or the customer has opted out."""
        if _is_nobody(job):
            return True
        opt_out = await self._state.opt_out(conversation.channel, route.recipient)
        return opt_out is not None and opt_out.opted_out

    async def _finish_call(self, job: LeasedJob) -> bool:
        """Settle a call without a transcript, unless one came meanwhile."""
        if await self._state.get(SettledCall, job.key) is not None:
            return False
        conversation = await self._threads.conversation(job.conversation_id)
        if conversation is not None:
            key = legal_id("call:", job.key)
            turn = Turn(conversation=_meta(conversation), flush_mode=FlushMode.IMMEDIATE, key=key)
            await self._writes.settle(turn)
        return True


def send_job(
    conversation_id: str,
    message: Message,
    *,
    automatic: bool,
    due_at: datetime | None = None,
    answers: str | None = None,
) -> Job:
    """The job to send an outbound message. ``due_at``: where that is not the message's time, which may be ahead;
    ``answers``: the message that it answers, where that is known.
    """
    value = SendJob(message=message.id, automatic=automatic, answers=answers)
    return Job(
        kind=DISPATCH,
        key=digest(conversation_id, message.id),
        conversation_id=conversation_id,
        value=value.model_dump(mode="json", exclude_defaults=True),
        due_at=due_at or message.at,
    )


def _answered_by_it(route: Route | None, messages: Sequence[Message]) -> str | None:
    """The newest message that wants an answer, if the reply is based on it."""
    newest = None if route is None else route.message_id
    return next((message.id for message in reversed(messages) if message.id == newest), None)


def _behind(messages: Sequence[Message], now: datetime) -> datetime:
    """When an answer was given, so that it stands behind these: a provider's clock may run ahead of ours. Beyond what a
    store takes ours was wrong, once.
    """
    return max([now, *(one.at for one in messages if one.at - now <= _AHEAD)])


def _without_answer(conversation: Conversation, job: LeasedJob) -> Turn:
    return Turn(conversation=_meta(conversation), key=legal_id("answered:", digest(job.kind, job.key)))


def _value_of(job: LeasedJob) -> AnswerJob:
    return AnswerJob.model_validate(job.value)


def _is_nobody(job: LeasedJob) -> bool:
    return _value_of(job).nobody


def _fit(text: object, conversation_id: str) -> str:
    """An answer as a record can hold it, ``""`` for none: one that can never be stored would be asked for again."""
    if text is not None and not isinstance(text, str):
        raise TypeError("a responder returns a text, or None")
    facts: dict[str, str] = {}
    fitting = clean_message_text(text, facts)
    if facts:
        telemetry.log("answer_cut", level=logging.WARNING, conversation_id=conversation_id)
    return fitting if fitting.strip() else ""


def _meta(conversation: Conversation) -> ConversationMeta:
    return ConversationMeta(**{name: getattr(conversation, name) for name in ConversationMeta.model_fields})
