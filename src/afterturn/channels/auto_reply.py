"""Automatic replies: the responder is called for each message that waits, then its reply is settled and sent.

A reply and the job to send it are stored in one transaction. The reply's id is derived from its job, so a reply that
is requested twice, because a process died in between, is stored once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from afterturn import telemetry
from afterturn.channels.ingest import IngestWriter
from afterturn.channels.responder import ReplyRequest, Responder
from afterturn.channels.sanitize import clean_message_text
from afterturn.channels.state import (
    FINISH_CALL,
    MAX_REPLY_TIMES,
    REPLY,
    SEND,
    Album,
    MessageDetails,
    ReplyHistory,
    ReplyJob,
    Route,
    SendJob,
    SettledCall,
    message_key,
)
from afterturn.channels.threads import merged_into
from afterturn.channels.types import SuppressReason
from afterturn.clock import Clock
from afterturn.ids import digest, legal_id
from afterturn.jobs.runner import JobHandler, RetryLater, RetryPolicy
from afterturn.model import Channel, Conversation, ConversationMeta, Direction, FlushMode, Message, Role, Turn
from afterturn.store.invariants import FUTURE_TOLERANCE_HOURS
from afterturn.store.jobs import Job, LeasedJob
from afterturn.store.state import StateStore


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most ``replies`` automatic replies within ``window``."""

    replies: int
    window: timedelta


MAIL_RATE_LIMITS = (
    RateLimit(4, timedelta(minutes=1)),
    RateLimit(10, timedelta(minutes=15)),
    RateLimit(20, timedelta(hours=2)),
    RateLimit(50, timedelta(days=1)),
)
"""A person who writes quickly stays below each limit; a machine reaches the first one within a minute."""

AUTO_REPLY_LIMIT = RateLimit(40, timedelta(hours=1))
"""More replies than a person needs, and fewer than two machines exchange."""

SENDING_CHANNELS = frozenset({Channel.SMS, Channel.EMAIL, Channel.TELEGRAM})
"""Channels that replies are sent on. A call is over, and a web page fetches its messages."""

LEASE = timedelta(minutes=2)
"""After that another process may run the job."""

GIVE_UP_AFTER = timedelta(days=3)
"""After that the message is left to people."""

CONCURRENCY = 16
"""Conversations that are answered at the same time."""

_TIMEOUT_SHARE = 0.75
"""The part of the lease after which a responder times out."""

_MAX_AHEAD = timedelta(hours=FUTURE_TOLERANCE_HOURS)
_HISTORY_MESSAGES = 50
_DELAYS = (5, 30, 120, 600, 3600)
"""Seconds before the next attempt."""


class ThreadSource(Protocol):
    async def conversation(self, conversation_id: str) -> Conversation | None: ...
    async def messages(self, conversation_id: str, *, limit: int | None = None) -> Sequence[Message]: ...


class AutoReply:
    """Handles reply jobs, and jobs that settle ended calls.

    Without a responder, reply jobs are left to a process that has one, and their messages are settled.

    ``limit``: maximum automatic replies per conversation; further messages are left to people.
    """

    def __init__(
        self,
        writer: IngestWriter,
        state: StateStore,
        conversations: ThreadSource,
        clock: Clock,
        *,
        responder: Responder | None = None,
        lease: timedelta = LEASE,
        limit: RateLimit = AUTO_REPLY_LIMIT,
    ) -> None:
        self._writer = writer
        self._state = state
        self._conversations = conversations
        self._clock = clock
        self._responder = responder
        self._lease = lease
        self._limit = RateLimit(min(limit.replies, MAX_REPLY_TIMES), limit.window)

    @property
    def handlers(self) -> tuple[JobHandler, ...]:
        """Handlers of both kinds of jobs. Messages that arrive meanwhile are answered in one reply."""
        return (
            JobHandler(
                kind=REPLY,
                run=self._reply,
                lease=self._lease,
                retry=RetryPolicy(_DELAYS, GIVE_UP_AFTER),
                failed=self._settle_without_reply,
                concurrency=CONCURRENCY,
                leads_to=(SEND,),
                is_shared=lambda job: self._responder is not None and not _is_without_reply(job),
            ),
            JobHandler(
                kind=FINISH_CALL,
                run=self._finish_call,
                lease=self._lease,
                retry=RetryPolicy(_DELAYS),
                concurrency=CONCURRENCY,
            ),
        )

    async def _settle_without_reply(self, job: LeasedJob, reason: str, delay: timedelta | None) -> None:
        """Settle a message whose reply failed: reactions run without it, and can report an emergency."""
        conversation = await self._conversation(job)
        if conversation is not None:
            await self._writer.settle(_turn_without_reply(conversation, job))

    async def _reply(self, job: LeasedJob) -> bool:
        """False if the message was answered before."""
        if self._responder is None and not _is_without_reply(job):
            raise RetryLater("no-responder")  # another process on the same store has a responder
        conversation = await self._conversation(job)
        if conversation is None:
            return True
        route = await self._state.get(Route, conversation.id)
        value = _value_of(job)
        if value.album:  # parts that arrive from now on get jobs of their own
            await self._state.put(Album(key=job.key))
        messages = await self._conversations.messages(conversation.id, limit=_HISTORY_MESSAGES)
        seen = tuple(digest(message.id) for message in messages)
        if conversation.id != job.conversation_id and digest(value.message) not in seen:
            raise RetryLater("not-merged-yet")  # its thread was merged, and the messages are being moved
        if value.album:
            await self._state.put(Album(key=job.key, version=1, parts=seen))
        name = f"reply:{digest(job.kind, job.key)}"
        text = None
        if (
            self._responder is not None
            and route is not None
            and not await self._is_suppressed(job, conversation, route)
        ):
            history = await self._state.get(ReplyHistory, conversation.id) or ReplyHistory(key=conversation.id)
            if history.covers(job, value.message) or any(message.id == name for message in messages):
                return False
            if retry_at(history.earlier(job, self._clock()), self._clock(), [self._limit]) is None:
                request = ReplyRequest(conversation, messages, route.account, route.recipient)
                async with asyncio.timeout(self._lease.total_seconds() * _TIMEOUT_SHARE):
                    text = _clean_reply(await self._responder(request), conversation.id)
                after = history.with_reply(job, seen, self._clock()) if text else history.without_reply(job, seen)
                await self._state.put(after)
            else:
                await self._mark_rate_limited(value, conversation)
        if not text:
            await self._writer.settle(_turn_without_reply(conversation, job))
            return True
        reply = Message(
            id=name,
            direction=Direction.OUTBOUND,
            role=Role.AGENT,
            text=text,
            at=_reply_time(messages, self._clock()),
        )
        in_reply_to = _message_replied_to(route, messages) or _value_of(job).message
        sending = send_job(conversation.id, reply, automatic=True, due_at=self._clock(), in_reply_to=in_reply_to)
        await self._writer.settle(
            Turn(conversation=_meta(conversation), messages=(reply,)),
            jobs=[sending] if conversation.channel in SENDING_CHANNELS else (),
        )
        return True

    async def _conversation(self, job: LeasedJob) -> Conversation | None:
        """The job's conversation; its thread may have been merged while the job waited."""
        return await self._conversations.conversation(await merged_into(self._state, job.conversation_id))

    async def _mark_rate_limited(self, value: ReplyJob, conversation: Conversation) -> None:
        """Stop two machines that reply to each other. The reason is shown with the message."""
        channel = conversation.channel.value
        telemetry.auto_replies_limited.labels(channel).inc()
        telemetry.log("auto_replies_limited", level=logging.WARNING, conversation_id=conversation.id, channel=channel)
        key = message_key(conversation.id, value.message)
        details = await self._state.get(MessageDetails, key) or MessageDetails(key=key)
        await self._state.put(details.model_copy(update={"version": 1, "suppress": SuppressReason.RATE_LIMIT.value}))

    async def _is_suppressed(self, job: LeasedJob, conversation: Conversation, route: Route) -> bool:
        """Whether to send no automatic reply: it is suppressed, or the customer has opted out."""
        if _is_without_reply(job):
            return True
        opt_out = await self._state.opt_out(conversation.channel, route.recipient)
        return opt_out is not None and opt_out.opted_out

    async def _finish_call(self, job: LeasedJob) -> bool:
        """Settle a call without a transcript, unless one came meanwhile."""
        if await self._state.get(SettledCall, job.key) is not None:
            return False
        conversation = await self._conversations.conversation(job.conversation_id)
        if conversation is not None:
            key = legal_id("call:", job.key)
            turn = Turn(conversation=_meta(conversation), flush_mode=FlushMode.IMMEDIATE, key=key)
            await self._writer.settle(turn)
        return True


def send_job(
    conversation_id: str,
    message: Message,
    *,
    automatic: bool,
    due_at: datetime | None = None,
    in_reply_to: str | None = None,
) -> Job:
    """The job to send an outbound message.

    ``due_at``: default: the message's time; ``in_reply_to``: the id of the message that it replies to, if known.
    """
    value = SendJob(message=message.id, automatic=automatic, in_reply_to=in_reply_to)
    return Job(
        kind=SEND,
        key=digest(conversation_id, message.id),
        conversation_id=conversation_id,
        value=value.model_dump(mode="json", exclude_defaults=True),
        due_at=due_at or message.at,
    )


def _message_replied_to(route: Route | None, messages: Sequence[Message]) -> str | None:
    """The id of the newest message to be answered, if the reply is based on it."""
    newest = None if route is None else route.message_id
    return next((message.id for message in reversed(messages) if message.id == newest), None)


def _reply_time(messages: Sequence[Message], now: datetime) -> datetime:
    """The reply's time: after these messages, because a provider's clock may be ahead of ours.

    Times beyond the store's tolerance are ignored.
    """
    return max([now, *(message.at for message in messages if message.at - now <= _MAX_AHEAD)])


def _turn_without_reply(conversation: Conversation, job: LeasedJob) -> Turn:
    return Turn(conversation=_meta(conversation), key=legal_id("answered:", digest(job.kind, job.key)))


def _value_of(job: LeasedJob) -> ReplyJob:
    return ReplyJob.model_validate(job.value)


def _is_without_reply(job: LeasedJob) -> bool:
    return _value_of(job).without_reply


def _clean_reply(text: object, conversation_id: str) -> str:
    """The reply as a record can hold it; ``""`` for none. A reply that cannot be stored would be requested again."""
    if text is not None and not isinstance(text, str):
        raise TypeError("a responder returns a text, or None")
    facts: dict[str, str] = {}
    fitting = clean_message_text(text, facts)
    if facts:
        telemetry.log("reply_truncated", level=logging.WARNING, conversation_id=conversation_id)
    return fitting if fitting.strip() else ""


def _meta(conversation: Conversation) -> ConversationMeta:
    return ConversationMeta(**{name: getattr(conversation, name) for name in ConversationMeta.model_fields})


def retry_at(
    replies: Iterable[datetime], now: datetime, limits: Sequence[RateLimit] = MAIL_RATE_LIMITS
) -> datetime | None:
    """When the next automatic reply may be sent; None: now.

    ``replies``: times of automatic replies to the same correspondent, in any order.
    """
    times = sorted(replies, reverse=True)
    free_at = [times[limit.replies - 1] + limit.window for limit in limits if len(times) >= limit.replies]
    return max((at for at in free_at if at > now), default=None)
