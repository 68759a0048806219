"""Outbox: sends each part of a message once, after its turn was stored.

A part is recorded as begun before it is sent, and as sent or not sent afterwards. A part that remains begun may have
been sent. It is not sent again automatically; the inbox shows it as uncertain.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from afterturn import telemetry
from afterturn.channels.auto_reply import SENDING_CHANNELS, retry_at, send_job
from afterturn.channels.sending import OutboundMessage, Reason, Sender, SendFailed, SendReceipt, TryLater, Undeliverable
from afterturn.channels.state import (
    SEND,
    SENT_VERSION,
    AutomaticMail,
    DeliveryStatus,
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
from afterturn.jobs.runner import JobHandler, RetryLater, RetryPolicy
from afterturn.model import Channel, Conversation, ConversationMeta, Message, SendProblem
from afterturn.store.jobs import Job, JobQueue, LeasedJob
from afterturn.store.state import StateStore

LEASE = timedelta(minutes=15)
"""Longer than sending the longest message takes: when the lease expires, parts that are begun become uncertain."""
GIVE_UP_AFTER = timedelta(days=3)
"""After that the message is left to people."""

_DELAYS = (15, 60, 300, 1800, 3600)
_RECENT_MESSAGES = 100
_TIMES_KEPT = 60

Choose = Callable[[OutboundMessage], Sender | None]
"""The sender for a message; None if its channel is not configured."""


class OutboxStore(StateStore, JobQueue, Protocol):
    """What the outbox needs of the store."""

    async def set_send_problem(self, conversation_id: str, message_id: str, problem: SendProblem | None) -> None: ...

    async def conversation(self, conversation_id: str) -> Conversation | None: ...
    async def messages(self, conversation_id: str, *, limit: int | None = None) -> Sequence[Message]: ...


class InterruptedSend(AfterturnError):
    """A process began to send a part and did not record the result."""


class Outbox:
    """Handles send jobs. ``choose``: returns the sender for a message."""

    def __init__(self, store: OutboxStore, clock: Clock, choose: Choose, *, lease: timedelta = LEASE) -> None:
        self._store = store
        self._clock = clock
        self._choose = choose
        self._lease = lease

    @property
    def handler(self) -> JobHandler:
        """The handler of send jobs. They run one at a time: a process that dies holds its jobs for a long lease."""
        return JobHandler(
            kind=SEND,
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
            state, reason = SendState.UNCERTAIN, "response-lost"
        level = logging.INFO if state is SendState.SENT else logging.WARNING
        telemetry.log("send_finished", level=level, conversation_id=job.conversation_id, status=state.value)
        await self._record(job, state, reason, ids)
        return True

    async def _failed(self, job: LeasedJob, reason: str, delay: timedelta | None) -> None:
        await self._record(job, SendState.GIVEN_UP if delay is None else SendState.WAITING, reason)

    async def _record(self, job: LeasedJob, state: SendState, reason: str | None, ids: Sequence[str] = ()) -> None:
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
        conversation = await self._store.conversation(job.conversation_id)
        message = await self._message(job)
        route = await self._store.get(Route, job.conversation_id)
        if conversation is None or message is None or route is None:
            return SendState.UNDELIVERABLE, "no-route", ()
        outgoing = outbound_message(conversation, message, route, _value_of(job))
        sender = self._choose(outgoing)
        if sender is None:
            raise RetryLater("channel-not-set-up")  # another process may have it, or this one later
        if await self._is_opted_out(outgoing):
            return SendState.UNDELIVERABLE, Reason.OPTED_OUT.value, ()
        if (retry_time := await self._rate_limited_until(outgoing)) is not None:
            raise RetryLater("rate-limit", retry_time - self._clock())
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
        await self._count_mail(outgoing)
        return SendState.SENT, None, ids

    async def _part(
        self, job: LeasedJob, sender: Sender, part: OutboundMessage, key: str, status: PartStatus | None
    ) -> str:
        if status is not None and status.state is PartState.BEGUN:
            raise InterruptedSend(f"part {part.part} of message {part.message_id} may have been sent")
        version = 2 * job.attempts
        await self._store.put(PartStatus(key=key, version=version, state=PartState.BEGUN))
        try:
            receipt = await sender.send(part)
        except (TryLater, Undeliverable):
            await self._store.put(PartStatus(key=key, version=version + 1, state=PartState.NOT_SENT))
            raise
        await self._remember(part, receipt)
        await self._store.put(
            PartStatus(key=key, version=SENT_VERSION, state=PartState.SENT, provider_id=receipt.provider_id)
        )
        return receipt.provider_id

    async def _remember(self, part: OutboundMessage, sent: SendReceipt) -> None:
        if part.channel is Channel.EMAIL:
            names = dict.fromkeys((sent.provider_id, *sent.thread_ids))
            await self._store.put_all([ThreadEntry(key=name, conversation_id=part.conversation_id) for name in names])
        if sent.moved is not None:
            await self._store.put(MergedThread(key=sent.moved.target, conversation_id=part.conversation_id))

    async def _message(self, job: LeasedJob) -> Message | None:
        message_id = _value_of(job).message
        for limit in (_RECENT_MESSAGES, None):
            for message in reversed(await self._store.messages(job.conversation_id, limit=limit)):
                if message.id == message_id:
                    return message
        return None

    async def _is_opted_out(self, message: OutboundMessage) -> bool:
        """Whether the recipient opted out after the automatic reply was written."""
        if not message.automatic:
            return False
        [recipient] = message.recipients
        opt_out = await self._store.opt_out(message.channel, recipient)
        return opt_out is not None and opt_out.opted_out

    async def _rate_limited_until(self, message: OutboundMessage) -> datetime | None:
        """When the rate limit permits the next automatic mail; None: now. It stops two machines that reply to each
        other, whatever their headers are.
        """
        if not message.automatic or message.channel is not Channel.EMAIL:
            return None
        return retry_at(await self._times(message), self._clock())

    async def _count_mail(self, message: OutboundMessage) -> None:
        if message.automatic and message.channel is Channel.EMAIL:
            times = (*await self._times(message), self._clock())[-_TIMES_KEPT:]
            await self._store.put(AutomaticMail(key=_correspondent(message), times=times))

    async def _times(self, message: OutboundMessage) -> tuple[datetime, ...]:
        known = await self._store.get(AutomaticMail, _correspondent(message))
        return () if known is None else known.times


def send_problem(state: SendState, reason: str | None) -> SendProblem | None:
    """The problem that a person has to act on; None if the message was sent, or will be."""
    is_good = state is SendState.SENT or (state is SendState.WAITING and reason != "channel-not-set-up")
    return None if is_good else SendProblem(state=state.value, reason=reason)


def outbound_message(conversation: Conversation, message: Message, route: Route, job: SendJob) -> OutboundMessage:
    """The message as its channel sends it, over the route of the newest inbound message.

    A mail refers to the newest message to stay in its thread. A chat shows the one that the job names.
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
        in_reply_to=job.in_reply_to if conversation.channel is Channel.TELEGRAM else newest,
        references=tuple(reversed(route.references)),
        automatic=job.automatic,
        topic=route.topic,
    )


def _value_of(job: LeasedJob) -> SendJob:
    return SendJob.model_validate(job.value)


def _correspondent(message: OutboundMessage) -> str:
    return " ".join((message.account, *message.recipients)).casefold()


async def reply_jobs(store: StateStore, meta: ConversationMeta, message: Message) -> list[Job]:
    """The job to send a person's reply; none if the conversation is not from a channel that sends."""
    if meta.channel not in SENDING_CHANNELS or await store.get(Route, meta.id) is None:
        return []
    return [send_job(meta.id, message, automatic=False)]


_WORDS = {
    SendState.SENT: "sent",
    SendState.WAITING: "waits to be sent",
    SendState.UNDELIVERABLE: "was not sent",
    SendState.UNCERTAIN: "may not have been sent",
    SendState.GIVEN_UP: "was not sent, and is not tried any more",
}
_UNDELIVERED_STATES = {"bounced", "canceled", "complained", "failed", "rejected", "undelivered"}
"""What a provider reports if a message did not reach the recipient."""

_AT_A_TIME = 500


@dataclass(frozen=True, slots=True)
class SendOutcome:
    """A message's send status. ``deliveries``: what the provider reported of its parts."""

    status: SendStatus
    deliveries: tuple[DeliveryStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class DeliverySummary:
    """A message's delivery status as text. ``bad``: a person has to act on it."""

    text: str
    bad: bool


async def send_outcomes(store: StateStore, conversation_id: str, ids: Sequence[str]) -> Mapping[str, SendOutcome]:
    """The status of the conversation's messages that were to be sent, by message id."""
    messages = {message_key(conversation_id, message_id): message_id for message_id in ids}
    statuses: dict[str, SendStatus] = {}
    for part in _parts(list(messages)):
        statuses |= await store.get_all(SendStatus, part)
    deliveries: dict[str, DeliveryStatus] = {}
    for part in _parts([provider_id for status in statuses.values() for provider_id in status.provider_ids]):
        deliveries |= await store.get_all(DeliveryStatus, part)
    return {
        messages[key]: SendOutcome(
            status, tuple(deliveries[name] for name in status.provider_ids if name in deliveries)
        )
        for key, status in statuses.items()
    }


def delivery_summary(sending: SendOutcome | None) -> DeliverySummary | None:
    """The status as text; None if the message was not to be sent."""
    if sending is None:
        return None
    status = sending.status
    words = _WORDS[status.state]
    if status.state is SendState.SENT and sending.deliveries:
        worst = next(
            (delivery for delivery in sending.deliveries if delivery.state in _UNDELIVERED_STATES),
            sending.deliveries[-1],
        )
        words = f"sent, {worst.state.replace('_', ' ')}"
        return DeliverySummary(f"{words}: {worst.error}" if worst.error else words, worst.state in _UNDELIVERED_STATES)
    bad = send_problem(status.state, status.reason) is not None
    return DeliverySummary(f"{words}: {status.reason}" if status.reason else words, bad)


def problem_text(problem: SendProblem) -> str:
    """The problem in words."""
    words = _WORDS[SendState(problem.state)] if problem.state in set(SendState) else problem.state
    return f"{words}: {problem.reason}" if problem.reason else words


def _parts(keys: Sequence[str]) -> Sequence[Sequence[str]]:
    return [keys[start : start + _AT_A_TIME] for start in range(0, len(keys), _AT_A_TIME)]
