"""Answers out: each part of a message once, only after its turn was stored, whoever dies on the way.

Before a part is sent it is noted that it is begun, afterwards that it is sent, or for sure not. A part that was begun
by somebody who said neither may have gone out; it is not sent again by a machine, and says so where people look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from pydantic import JsonValue

from afterturn import telemetry
from afterturn.channels.auto_reply import DISPATCH
from afterturn.channels.ingest import OPTED_OUT, ROUTE
from afterturn.channels.rate_limit import retry_at
from afterturn.channels.sending import OutboundMessage, Reason, Sender, SendFailed, SendReceipt, TryLater, Undeliverable
from afterturn.channels.threads import MOVED, THREAD
from afterturn.clock import Clock, from_text, to_text
from afterturn.errors import AfterturnError
from afterturn.model import Channel, Conversation, Message, SendProblem
from afterturn.store.port import Keeper, LeasedJob

SENDING = "sending"
DISPATCHED = "dispatched"
AUTOMATIC = "automatic"
"""Notes: how far each part is; what became of a message, for people; when a correspondent got automatic mail."""

LEASE = timedelta(minutes=15)
"""More than the longest message may take, part after part: whoever takes over calls what is begun uncertain."""
GIVE_UP_AFTER = timedelta(days=3)
"""Later an answer helps nobody; it is left to people."""

_SENT = 1_000_000
_PAUSES = (15, 60, 300, 1800, 3600)
_LOOKED_THROUGH = 100
_TIMES_KEPT = 60

Choose = Callable[[OutboundMessage], Sender | None]
"""Who sends a message; nobody where the channel is not set up."""


class Sendable(Keeper, Protocol):
    """What is asked of the store."""

    async def conversation(self, conversation_id: str) -> Conversation | None: ...
    async def messages(self, conversation_id: str, *, limit: int | None = None) -> Sequence[Message]: ...


class Uncertainly(AfterturnError):
    """Somebody began to send this and never said how it went."""


class NotSetUp(AfterturnError):
    """This process cannot send by the channel; another one on the same store may, or this one once it is set up."""


class Held(AfterturnError):
    """Too many automatic answers went to this correspondent. ``until``: when one more may."""

    def __init__(self, until: datetime) -> None:
        super().__init__("too many automatic answers went to this correspondent")
        self.until = until


class Outbox:
    """Does the jobs of sending. ``choose`` names the sender."""

    def __init__(self, store: Sendable, clock: Clock, choose: Choose, *, lease: timedelta = LEASE) -> None:
        self._store = store
        self._clock = clock
        self._choose = choose
        self._lease = lease

    async def once(self, *, limit: int = 16) -> int:
        """Take what is due and send it, one after the other; returns how many jobs were taken."""
        taken = await self._store.lease_jobs(DISPATCH, now=self._clock(), lease=self._lease, limit=limit)
        for one in taken:
            await self._do(one)
        return len(taken)

    async def _do(self, job: LeasedJob) -> None:
        ids: Sequence[str] = ()
        try:
            state, reason, ids = await self._send(job)
        except TryLater as error:
            await self._later(job, error.reason.value, error.after)
            return
        except Held as error:
            await self._later(job, "loop", error.until - self._clock())
            return
        except NotSetUp:
            await self._later(job, "channel-not-set-up", None)
            return
        except SendFailed as error:
            state = "undeliverable" if isinstance(error, Undeliverable) else "uncertain"
            reason = error.reason.value
        except Uncertainly:
            state, reason = "uncertain", "answer-lost"
        except Exception as error:  # one that nobody foresaw keeps nothing else from being sent
            await self._later(job, type(error).__name__, None)
            return
        level = logging.INFO if state == "sent" else logging.WARNING
        telemetry.log("dispatched", level=level, conversation_id=job.conversation_id, status=state)
        await self._tell(job, state, reason, ids)
        await self._store.complete(job)

    async def _later(self, job: LeasedJob, reason: str, after: timedelta | None) -> None:
        now = self._clock()
        if now - job.due_at > GIVE_UP_AFTER:
            await self._tell(job, "given-up", reason)
            await self._store.complete(job)
            return
        pause = after or timedelta(seconds=_PAUSES[min(job.attempts, len(_PAUSES)) - 1])
        telemetry.log(
            "dispatch_put_off",
            level=logging.WARNING,
            conversation_id=job.conversation_id,
            error=reason,
            delay_s=int(pause.total_seconds()),
        )
        await self._tell(job, "waiting", reason)
        await self._store.retry_later(job, until=now + pause)

    async def _tell(self, job: LeasedJob, state: str, reason: str | None, ids: Sequence[str] = ()) -> None:
        """``ids``: what the provider calls its parts, by which it will tell how they fare."""
        value: dict[str, JsonValue] = {"state": state, "reason": reason, "at": to_text(self._clock())}
        if ids:
            value["providerIds"] = list(ids)
        await self._store.note(DISPATCHED, _name(job), value, replace=True)
        problem = send_problem(state, reason)
        message = job.value.get("message") if isinstance(job.value, dict) else None
        if isinstance(message, str) and (problem is not None or job.attempts > 1):
            await self._store.set_send_problem(job.conversation_id, message, problem)

    async def _send(self, job: LeasedJob) -> tuple[str, str | None, Sequence[str]]:
        conversation = await self._store.conversation(job.conversation_id)
        message = await self._message(job)
        route = (await self._store.noted(ROUTE, [job.conversation_id])).get(job.conversation_id)
        if conversation is None or message is None or not isinstance(route, dict):
            return "undeliverable", "no-route", ()
        outgoing = outgoing_of(conversation, message, route, automatic=_is_automatic(job), answers=_answers(job))
        sender = self._choose(outgoing)
        if sender is None:
            raise NotSetUp
        if await self._is_opted_out(outgoing):
            return "undeliverable", Reason.OPTED_OUT.value, ()
        if (held := await self._held(outgoing)) is not None:
            raise Held(held)
        parts = sender.parts(outgoing)
        keys = [f"{job.key}/{number}" for number in range(len(parts))]
        known = await self._store.noted(SENDING, keys)
        ids: list[str] = []
        for part, key in zip(parts, keys, strict=True):
            before = known.get(key)
            if isinstance(before, dict) and _is_sent(before):
                ids.append(str(before.get("providerId")))
            else:
                ids.append(await self._part(job, sender, part, key, before))
        await self._count(outgoing)
        return "sent", None, ids

    async def _part(self, job: LeasedJob, sender: Sender, part: OutboundMessage, key: str, known: JsonValue) -> str:
        if isinstance(known, dict) and known.get("state") == "begun":
            raise Uncertainly(f"part {part.part} of message {part.message_id} may have been sent")
        rank = 2 * job.attempts
        await self._store.note(SENDING, key, {"state": "begun"}, rank=rank)
        try:
            sent = await sender.send(part)
        except (TryLater, Undeliverable):
            await self._store.note(SENDING, key, {"state": "not sent"}, rank=rank + 1)
            raise
        await self._remember(part, sent)
        await self._store.note(SENDING, key, {"state": "sent", "providerId": sent.provider_id}, rank=_SENT)
        return sent.provider_id

    async def _remember(self, part: OutboundMessage, sent: SendReceipt) -> None:
        if part.channel is Channel.EMAIL:
            for name in dict.fromkeys((sent.provider_id, *sent.thread_ids)):
                await self._store.note(THREAD, name, part.conversation_id)
        if sent.moved is not None:
            await self._store.note(MOVED, sent.moved.target, part.conversation_id)

    async def _message(self, job: LeasedJob) -> Message | None:
        wanted = job.value.get("message") if isinstance(job.value, dict) else None
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
        found = (await self._store.noted(OPTED_OUT, [recipient])).get(recipient)
        return isinstance(found, dict) and bool(found.get("out"))

    async def _held(self, message: OutboundMessage) -> datetime | None:
        """Two machines that answer each other are stopped here, whatever their headers say (F16)."""
        if not message.automatic or message.channel is not Channel.EMAIL:
            return None
        return retry_at(await self._times(message), self._clock())

    async def _count(self, message: OutboundMessage) -> None:
        if message.automatic and message.channel is Channel.EMAIL:
            times = [*await self._times(message), self._clock()][-_TIMES_KEPT:]
            value: list[JsonValue] = [to_text(one) for one in times]
            await self._store.note(AUTOMATIC, _correspondent(message), value, replace=True)

    async def _times(self, message: OutboundMessage) -> list[datetime]:
        found = (await self._store.noted(AUTOMATIC, [_correspondent(message)])).get(_correspondent(message))
        return [from_text(str(one)) for one in found] if isinstance(found, list) else []


def send_problem(state: str, reason: str | None) -> SendProblem | None:
    """What a person has to act on; None if the message was sent, or will be."""
    is_good = state == "sent" or (state == "waiting" and reason != "channel-not-set-up")
    return None if is_good else SendProblem(state=state, reason=reason)


def outgoing_of(
    conversation: Conversation, message: Message, route: Mapping[str, Any], *, automatic: bool, answers: str | None
) -> OutboundMessage:
    """The message as its channel sends it, by the way that the newest message came in.

    A mail has to name the newest one to stay in its thread; a chat shows what is named, so that it is ``answers``.
    """
    references = [str(one) for one in route.get("references") or ()]
    newest = references[0] if references else None
    return OutboundMessage(
        conversation_id=conversation.id,
        message_id=message.id,
        channel=conversation.channel,
        account=str(route["account"]),
        recipients=(str(route["recipient"]),),
        text=message.text,
        attachments=message.attachments,
        subject=None if route.get("subject") is None else str(route["subject"]),
        in_reply_to=answers if conversation.channel is Channel.TELEGRAM else newest,
        references=tuple(reversed(references)),
        automatic=automatic,
        topic=None if route.get("topic") is None else str(route["topic"]),
    )


def _name(job: LeasedJob) -> str:
    message = job.value.get("message") if isinstance(job.value, dict) else None
    return f"{job.conversation_id} {message}"


def _answers(job: LeasedJob) -> str | None:
    answers = job.value.get("answers") if isinstance(job.value, dict) else None
    return answers if isinstance(answers, str) else None


def _is_automatic(job: LeasedJob) -> bool:
    return isinstance(job.value, dict) and bool(job.value.get("automatic"))


def _is_sent(known: JsonValue) -> bool:
    return isinstance(known, dict) and known.get("state") == "sent"


def _correspondent(message: OutboundMessage) -> str:
    return " ".join((message.account, *message.recipients)).casefold()
