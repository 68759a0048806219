"""Answers out: each part of a message once, only after its turn was stored, whoever dies on the way.

Before a part is sent it is noted that it is begun, afterwards that it is sent, or for sure not. A part that was begun
by somebody who said neither may have gone out; it is not sent again by a machine, and says so where people look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from afterturn import telemetry
from afterturn.channels.auto_reply import SENDING_CHANNELS, send_job
from afterturn.channels.rate_limit import retry_at
from afterturn.channels.sending import OutboundMessage, Reason, Sender, SendFailed, SendReceipt, TryLater, Undeliverable
from afterturn.channels.state import (
    DISPATCH,
    SENT_VERSION,
    AutomaticMail,
    MergedThread,
    PartState,
    PartStatus,
    Route,
    SendJob,
    SendState,
    SendStatus,
    ThreadEntry,
    message_key,
)
from afterturn.clock import Clock
from afterturn.errors import AfterturnError
from afterturn.jobs.retry import RetryLater, RetryPolicy
from afterturn.jobs.runner import JobHandler
from afterturn.model import Channel, Conversation, ConversationMeta, Message, SendProblem
from afterturn.store.port import Job, JobQueue, LeasedJob, StateStore

LEASE = timedelta(minutes=15)
"""More than the longest message may take, part after part: whoever takes over calls what is begun uncertain."""
GIVE_UP_AFTER = timedelta(days=3)
"""Later an answer helps nobody; it is left to people."""

_DELAYS = (15, 60, 300, 1800, 3600)
_LOOKED_THROUGH = 100
_TIMES_KEPT = 60

Choose = Callable[[OutboundMessage], Sender | None]
"""Who sends a message; nobody where the channel is not set up."""


class OutboxStore(StateStore, JobQueue, Protocol):
    """What is asked of the store."""

    async def set_send_problem(self, conversation_id: str, message_id: str, problem: SendProblem | None) -> None: ...

    async def conversation(self, conversation_id: str) -> Conversation | None: ...
    async def messages(self, conversation_id: str, *, limit: int | None = None) -> Sequence[Message]: ...


class InterruptedSend(AfterturnError):
    """Somebody began to send this and never said how it went."""


class Outbox:
    """Does the jobs of sending. ``choose`` names the sender."""

    def __init__(self, store: OutboxStore, clock: Clock, choose: Choose, *, lease: timedelta = LEASE) -> None:
        self._store = store
        self._clock = clock
        self._choose = choose
        self._lease = lease

    @property
    def handler(self) -> JobHandler:
        """How send jobs are done: one after the other, because a process that dies holds a job for a long lease."""
        return JobHandler(
            kind=DISPATCH,
            run=self._run,
            lease=self._lease,
            retry=RetryPolicy(_DELAYS, GIVE_UP_AFTER),
            failed=self._failed,
        )

    async def _run(self, job: LeasedJob) -> bool:
        ids: Sequence[str] = ()
        try:
            state, reason, ids = await self._send(job)
        except TryLater as error:
            raise RetryLater(error.reason.value, error.after) from error
        except SendFailed as error:
            state = SendState.UNDELIVERABLE if isinstance(error, Undeliverable) else SendState.UNCERTAIN
            reason = error.reason.value
        except InterruptedSend:
            state, reason = SendState.UNCERTAIN, "answer-lost"
        level = logging.INFO if state is SendState.SENT else logging.WARNING
        telemetry.log("dispatched", level=level, conversation_id=job.conversation_id, status=state.value)
        await self._tell(job, state, reason, ids)
        return True

    async def _failed(self, job: LeasedJob, reason: str, delay: timedelta | None) -> None:
        await self._tell(job, SendState.GIVEN_UP if delay is None else SendState.WAITING, reason)

    async def _tell(self, job: LeasedJob, state: SendState, reason: str | None, ids: Sequence[str] = ()) -> None:
        """``ids``: the provider's ids of the parts, which its delivery updates name."""
        message_id = _value_of(job).message
        key = message_key(job.conversation_id, message_id)
        await self._store.put(
            SendStatus(key=key, state=state, reason=reason, at=self._clock(), provider_ids=tuple(ids))
        )
        problem = send_problem(state, reason)
        if problem is not None or job.attempts > 1:
            await self._store.set_send_problem(job.conversation_id, message_id, problem)

    async def _send(self, job: LeasedJob) -> tuple[SendState, str | None, Sequence[str]]:
        value = _value_of(job)
        conversation = await self._store.conversation(job.conversation_id)
        message = await self._message(job)
        route = await self._store.get(Route, job.conversation_id)
        if conversation is None or message is None or route is None:
            return SendState.UNDELIVERABLE, "no-route", ()
        outgoing = outgoing_of(conversation, message, route, automatic=value.automatic, answers=value.answers)
        sender = self._choose(outgoing)
        if sender is None:
            raise RetryLater("channel-not-set-up")  # another process may have it, or this one once it is set up
        if await self._is_opted_out(outgoing):
            return SendState.UNDELIVERABLE, Reason.OPTED_OUT.value, ()
        if (held := await self._held(outgoing)) is not None:
            raise RetryLater("loop", held - self._clock())
        parts = sender.parts(outgoing)
        keys = [f"{job.key}/{number}" for number in range(len(parts))]
        known = await self._store.get_all(PartStatus, keys)
        ids: list[str] = []
        for part, key in zip(parts, keys, strict=True):
            status = known.get(key)
            if status is not None and status.state is PartState.SENT:
                ids.append(status.provider_id)
            else:
                ids.append(await self._part(job, sender, part, key, status))
        await self._count(outgoing)
        return SendState.SENT, None, ids

    async def _part(
        self, job: LeasedJob, sender: Sender, part: OutboundMessage, key: str, status: PartStatus | None
    ) -> str:
        if status is not None and status.state is PartState.BEGUN:
            raise InterruptedSend(f"part {part.part} of message {part.message_id} may have been sent")
        version = 2 * job.attempts
        await self._store.put(PartStatus(key=key, version=version, state=PartState.BEGUN))
        try:
            sent = await sender.send(part)
        except (TryLater, Undeliverable):
            await self._store.put(PartStatus(key=key, version=version + 1, state=PartState.NOT_SENT))
            raise
        await self._remember(part, sent)
        await self._store.put(
            PartStatus(key=key, version=SENT_VERSION, state=PartState.SENT, provider_id=sent.provider_id)
        )
        return sent.provider_id

    async def _remember(self, part: OutboundMessage, sent: SendReceipt) -> None:
        if part.channel is Channel.EMAIL:
            names = dict.fromkeys((sent.provider_id, *sent.thread_ids))
            await self._store.put_all([ThreadEntry(key=name, conversation_id=part.conversation_id) for name in names])
        if sent.moved is not None:
            await self._store.put(MergedThread(key=sent.moved.target, conversation_id=part.conversation_id))

    async def _message(self, job: LeasedJob) -> Message | None:
        wanted = _value_of(job).message
        for limit in (_LOOKED_THROUGH, None):
            for one in reversed(await self._store.messages(job.conversation_id, limit=limit)):
                if one.id == wanted:
                    return one
        return None

    async def _is_opted_out(self, message: OutboundMessage) -> bool:
        """Whether a STOP has come in since a machine answered."""
        if not message.automatic:
            return False
        [recipient] = message.recipients
        opt_out = await self._store.opt_out(message.channel, recipient)
        return opt_out is not None and opt_out.opted_out

    async def _held(self, message: OutboundMessage) -> datetime | None:
        """Two machines that answer each other are stopped here, whatever their headers say (F16)."""
        if not message.automatic or message.channel is not Channel.EMAIL:
            return None
        return retry_at(await self._times(message), self._clock())

    async def _count(self, message: OutboundMessage) -> None:
        if message.automatic and message.channel is Channel.EMAIL:
            times = (*await self._times(message), self._clock())[-_TIMES_KEPT:]
            await self._store.put(AutomaticMail(key=_correspondent(message), times=times))

    async def _times(self, message: OutboundMessage) -> tuple[datetime, ...]:
        known = await self._store.get(AutomaticMail, _correspondent(message))
        return () if known is None else known.times


def send_problem(state: SendState, reason: str | None) -> SendProblem | None:
    """What a person has to act on; None if the message was sent, or will be."""
    is_good = state is SendState.SENT or (state is SendState.WAITING and reason != "channel-not-set-up")
    return None if is_good else SendProblem(state=state.value, reason=reason)


def outgoing_of(
    conversation: Conversation, message: Message, route: Route, *, automatic: bool, answers: str | None
) -> OutboundMessage:
    """The message as its channel sends it, by the way that the newest message came in.

    A mail has to name the newest one to stay in its thread; a chat shows what is named, so that it is ``answers``.
    """
    newest = route.references[0] if route.references else None
    return OutboundMessage(
        conversation_id=conversation.id,
        message_id=message.id,
        channel=conversation.channel,
        account=route.account,
        recipients=(route.recipient,),
        text=message.text,
        attachments=message.attachments,
        subject=route.subject,
        in_reply_to=answers if conversation.channel is Channel.TELEGRAM else newest,
        references=tuple(reversed(route.references)),
        automatic=automatic,
        topic=route.topic,
    )


def _value_of(job: LeasedJob) -> SendJob:
    return SendJob.model_validate(job.value)


def _correspondent(message: OutboundMessage) -> str:
    return " ".join((message.account, *message.recipients)).casefold()


async def reply_jobs(store: StateStore, meta: ConversationMeta, message: Message) -> list[Job]:
    """The job to send a person's reply; none if the conversation did not come in by a channel."""
    if meta.channel not in SENDING_CHANNELS or await store.get(Route, meta.id) is None:
        return []
    return [send_job(meta.id, message, automatic=False)]
