"""Answers: a responder is asked about each message that waits, its answer is settled, and then it is sent.

Answer and the job to send it are one transaction. An answer has the id of what it answers, so one that was asked for
twice, because somebody died in between, is kept once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol
from weakref import WeakValueDictionary

from afterturn import telemetry
from afterturn.channels.ingest import ConversationWriter
from afterturn.channels.leases import Lock, Locks
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
from afterturn.errors import AfterturnError
from afterturn.ids import digest, legal_id
from afterturn.model import Channel, Conversation, ConversationMeta, Direction, FlushMode, Message, Role, Turn
from afterturn.store.invariants import FUTURE_TOLERANCE_HOURS
from afterturn.store.port import Job, JobQueue, LeasedJob, StateStore

ASKING = "asking"
"""Name of the locks of conversations that a responder is asked about."""

CAP = RateLimit(40, timedelta(hours=1))
"""More automatic answers than a person asks for in a conversation, and fewer than two machines give each other."""

SENT_ON = frozenset({Channel.SMS, Channel.EMAIL, Channel.TELEGRAM})
"""Where a text can be sent. A call is over, and a page fetches what it shows."""

LEASE = timedelta(minutes=2)
"""After that time somebody else is asked."""

GIVE_UP_AFTER = timedelta(days=3)
"""Later an answer helps nobody; it is left to people."""

_PATIENCE = 0.75
"""The part of the lease that an answer may take; who has not answered then has failed."""

_AHEAD = timedelta(hours=FUTURE_TOLERANCE_HOURS)
_LAST_WORDS = 50
_WAIT = (1, 2, 4)
"""Seconds before another look at a conversation that another process asks about; the last one again and again."""
_PAUSES = (5, 30, 120, 600, 3600)
"""Seconds before the next try of what failed; the last one again and again."""


class Threads(Protocol):
    async def conversation(self, conversation_id: str) -> Conversation | None: ...
    async def messages(self, conversation_id: str, *, limit: int | None = None) -> Sequence[Message]: ...


class ReplyStore(StateStore, JobQueue, Protocol):
    """What automatic replies need of the store beside its threads."""


class NobodyHere(AfterturnError):
    """This process has nobody who answers; another one on the same store may have."""


class NotThereYet(AfterturnError):
    """A group has moved, and what this is about is being carried along."""


class AutoReply:
    """Does the jobs of answering and of calls that have ended. Without a responder messages are settled only, and
    their answers left to a process that has one.

    ``cap``: how many automatic answers a conversation gets; what goes beyond is left to people.
    """

    def __init__(
        self,
        writes: ConversationWriter,
        keeper: ReplyStore,
        threads: Threads,
        clock: Clock,
        *,
        responder: Responder | None = None,
        lease: timedelta = LEASE,
        cap: RateLimit = CAP,
    ) -> None:
        self._writes = writes
        self._keeper = keeper
        self._threads = threads
        self._clock = clock
        self._responder = responder
        self._lease = lease
        self._cap = RateLimit(min(cap.answers, MAX_REPLY_TIMES), cap.span)
        self._locks_of_all = Locks(keeper, clock, ASKING)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._next: set[str] = set()

    async def once(self, *, limit: int = 16) -> int:
        """Take what is due and do it, conversations side by side; returns how many jobs were taken."""
        taken = await self.taken(limit=limit)
        async with asyncio.TaskGroup() as group:
            for each in taken:
                group.create_task(self.do(each))
        return sum(map(len, taken))

    async def taken(self, *, limit: int) -> list[tuple[LeasedJob, ...]]:
        """What is due, by conversation; :meth:`do` does each."""
        now = self._clock()
        by_conversation: dict[str, list[LeasedJob]] = {}
        for kind in (ANSWER, FINISH_CALL):
            for one in await self._keeper.lease_jobs(kind, now=now, lease=self._lease, limit=limit):
                by_conversation.setdefault(one.conversation_id, []).append(one)
        return [tuple(each) for each in by_conversation.values()]

    async def do(self, jobs: Sequence[LeasedJob]) -> None:
        """Of one conversation, one after the other. Raises nothing: what fails is done again, later and later.

        What came in meanwhile is answered in one, so only the newest is asked about, and the others are done by that.
        Of each conversation one call waits for the one that is at work; what else is due of it is put off, so that it
        takes no place of others.
        """
        name = jobs[0].conversation_id
        if name in self._next:
            await self._wait(jobs)
            return
        lock = self._locks.setdefault(name, asyncio.Lock())
        self._next.add(name)
        try:
            await lock.acquire()
        finally:
            self._next.discard(name)
        try:
            await self._alone(jobs)
        finally:
            lock.release()

    async def _alone(self, jobs: Sequence[LeasedJob]) -> None:
        """Nobody else in this process is at work on the conversation."""
        asking = [one for one in jobs if one.kind == ANSWER and not _is_nobody(one)]
        if not asking or self._responder is None:
            await self._each(jobs, asking)
            return
        lease = await self._only_here(asking[0].conversation_id)
        if lease is None:
            await self._each([one for one in jobs if one not in asking], [])
            await self._wait(asking)
            return
        try:
            await self._each(jobs, asking)
        finally:
            with contextlib.suppress(AfterturnError):  # it ends by itself
                await self._locks_of_all.release(lease)

    async def _each(self, jobs: Sequence[LeasedJob], asking: Sequence[LeasedJob]) -> None:
        """``asking``: those of them where somebody is asked; the answer to the newest is one to all.

        Not so where it was given before: then it has not seen what came in since, whose jobs may come first.
        """
        for one in jobs:
            if one not in asking:
                await self._do(one)
        left = sorted(asking, key=lambda one: one.due_at)
        while left:
            if not await self._do(left.pop()):
                break
        for one in left:
            await self._finish(one)

    async def _only_here(self, conversation_id: str) -> Lock | None:
        """The right to be the only process that asks about a conversation; None where another one has it."""
        try:
            return await self._locks_of_all.acquire(conversation_id, self._lease)
        except AfterturnError as error:
            telemetry.log("lease_failed", level=logging.WARNING, stage=ANSWER, error=type(error).__name__)
            return None

    async def _wait(self, jobs: Sequence[LeasedJob]) -> None:
        """Until who is at work on it is done: the answer to these has that to those in sight."""
        for one in jobs:
            pause = timedelta(seconds=_WAIT[min(one.attempts, len(_WAIT)) - 1])
            with contextlib.suppress(AfterturnError):  # it comes again when the lease ends
                await self._keeper.retry_later(one, until=self._clock() + pause)

    async def _do(self, job: LeasedJob) -> bool:
        """Whether it was done before."""
        before = False
        try:
            if self._responder is None and job.kind == ANSWER and not _is_nobody(job):
                raise NobodyHere
            if job.kind == FINISH_CALL:
                await self._finish_call(job)
            else:
                before = await self._answer(job)
        except Exception as error:
            await self._failed(job, error)
        else:
            await self._finish(job)
        return before

    async def _finish(self, job: LeasedJob) -> None:
        try:
            await self._keeper.complete(job)
        except AfterturnError:  # it comes again when the lease ends, and changes nothing then
            telemetry.log("finish_failed", level=logging.WARNING, stage=job.kind)

    async def _failed(self, job: LeasedJob, error: Exception) -> None:
        pause = _pause(job, self._clock())
        telemetry.log(
            "job_failed",
            level=logging.ERROR,
            stage=job.kind,
            conversation_id=job.conversation_id,
            error=type(error).__name__,
            place=telemetry.error_location(error),
            delay_s=pause,
        )
        try:
            if job.kind == ANSWER:
                # What somebody said does not wait for who answers: reactions see it, and an emergency is told.
                conversation = await self._conversation(job)
                if conversation is not None:
                    await self._writes.settle(_without_answer(conversation, job))
                if self._clock() - job.due_at > GIVE_UP_AFTER:
                    await self._keeper.complete(job)
                    return
            await self._keeper.retry_later(job, until=self._clock() + timedelta(seconds=pause))
        except Exception:  # it comes again when the lease ends
            telemetry.log("put_off_failed", level=logging.WARNING, stage=job.kind)

    async def _answer(self, job: LeasedJob) -> bool:
        """Whether that was done before."""
        conversation = await self._conversation(job)
        if conversation is None:
            return False
        route = await self._keeper.get(Route, conversation.id)
        value = _value_of(job)
        if value.album:  # from here on a part that comes waits alone
            await self._keeper.put(Album(key=job.key))
        messages = await self._threads.messages(conversation.id, limit=_LAST_WORDS)
        seen = tuple(digest(message.id) for message in messages)
        if conversation.id != job.conversation_id and digest(value.message) not in seen:
            raise NotThereYet
        if value.album:
            await self._keeper.put(Album(key=job.key, version=1, parts=seen))
        name = f"reply:{digest(job.kind, job.key)}"
        text = None
        if self._responder is not None and route is not None and not await self._is_quiet(job, conversation, route):
            history = await self._keeper.get(ReplyHistory, conversation.id) or ReplyHistory(key=conversation.id)
            if history.covers(job, value.message) or any(message.id == name for message in messages):
                return True
            if retry_at(history.earlier(job, self._clock()), self._clock(), [self._cap]) is None:
                asked = ReplyRequest(conversation, messages, route.account, route.recipient)
                async with asyncio.timeout(self._lease.total_seconds() * _PATIENCE):
                    text = _fit(await self._responder(asked), conversation.id)
                after = history.with_reply(job, seen, self._clock()) if text else history.without_reply(job, seen)
                await self._keeper.put(after)
            else:
                await self._leave_to_people(value, conversation)
        if not text:
            await self._writes.settle(_without_answer(conversation, job))
            return False
        reply = Message(
            id=name,
            direction=Direction.OUTBOUND,
            role=Role.AGENT,
            text=text,
            at=_behind(messages, self._clock()),
        )
        answers = _answered_by_it(route, messages) or _value_of(job).message
        sending = dispatch_of(conversation.id, reply, automatic=True, due_at=self._clock(), answers=answers)
        await self._writes.settle(
            Turn(conversation=_meta(conversation), messages=(reply,)),
            jobs=[sending] if conversation.channel in SENT_ON else (),
        )
        return False

    async def _conversation(self, job: LeasedJob) -> Conversation | None:
        """Where it goes on by now: a group may have moved while the job waited."""
        return await self._threads.conversation(await merged_into(self._keeper, job.conversation_id))

    async def _leave_to_people(self, value: AnswerJob, conversation: Conversation) -> None:
        """Two machines that answer each other are stopped here; the reason is shown with the message."""
        channel = conversation.channel.value
        telemetry.answers_capped.labels(channel).inc()
        telemetry.log("answers_capped", level=logging.WARNING, conversation_id=conversation.id, channel=channel)
        key = message_key(conversation.id, value.message)
        details = await self._keeper.get(MessageDetails, key) or MessageDetails(key=key)
        await self._keeper.put(details.model_copy(update={"version": 1, "suppress": SuppressReason.LOOP.value}))

    async def _is_quiet(self, job: LeasedJob, conversation: Conversation, route: Route) -> bool:
        """Whether no automatic reply is wanted: nobody answers, or the customer has opted out."""
        if _is_nobody(job):
            return True
        opt_out = await self._keeper.opt_out(conversation.channel, route.recipient)
        return opt_out is not None and opt_out.opted_out

    async def _finish_call(self, job: LeasedJob) -> None:
        """Settle a call without a transcript, unless one came meanwhile."""
        if await self._keeper.get(SettledCall, job.key) is not None:
            return
        conversation = await self._threads.conversation(job.conversation_id)
        if conversation is not None:
            key = legal_id("call:", job.key)
            turn = Turn(conversation=_meta(conversation), flush_mode=FlushMode.IMMEDIATE, key=key)
            await self._writes.settle(turn)


def dispatch_of(
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


def _pause(job: LeasedJob, now: datetime) -> int:
    """Seconds before the next try. Those where it only waited for others do not count as failures: so long it has not
    been due.
    """
    age = (now - job.due_at).total_seconds()
    failures = min(job.attempts, 1 + sum(one <= age for one in _PAUSES))
    return _PAUSES[min(failures, len(_PAUSES)) - 1]


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
