"""What a channel's provider sends, and what it means, before anything is looked up or stored. Pure data.

Each channel has a module with two functions: ``verify(request, …)``, which raises :class:`Rejected`, and
``read(request, now=…)``, which returns arrivals. Whatever a provider sends that is genuine gets arrivals, if only
:class:`Nothing` with its reason: an error would make it send the same again and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from afterturn.errors import AfterturnError
from afterturn.model import Attachment, Channel, Direction, Role


class Rejected(AfterturnError):
    """A request that is not answered with success. ``status``: the HTTP status.

    The reason names no content and no secret. 401: no or a wrong signature; 400: what a genuine provider would not
    send; 413: larger than it would; 503: what it takes to check cannot be had now, and the provider has to ask again.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """One HTTP request. ``url``: whole, as the provider called it (not as a proxy handed it on); ``headers``: names in
    lower case.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Party:
    """Who writes to whom. ``account``: ours, a number, a mailbox or a bot; ``sender``: theirs. Both normalised.

    ``answers``: where they want answers, if elsewhere (``Reply-To``).
    """

    account: str
    sender: str
    answers: str | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """Where a message belongs.

    ``conversation_id``: as the importers make it (``sms:+15158226442``, ``telegram:-4518810793``, ``mail:<root id>``).
    ``after``: ids of earlier messages, nearest first, whose conversation it belongs to where one of them is known.
    ``subject``: stripped of reply marks, for mail that names none of them.
    """

    conversation_id: str
    after: tuple[str, ...] = ()
    subject: str | None = None


class SuppressReason(StrEnum):
    """Why a message must not be answered by a machine. It is stored like any other."""

    AUTO_REPLY = "auto-reply"
    BOUNCE = "bounce"
    BULK = "bulk"
    RECEIPT = "receipt"
    COMPLAINT = "complaint"
    SPAM = "spam"
    OPT_OUT = "opt-out"
    OWN = "own"
    SENDER_NOT_IN_THREAD = "stranger"
    """Somebody who was not in the conversation that the mail names, or cannot be told from a forger."""
    LOOP = "loop"
    """More automatic answers went to it than a person asks for. No reader says so: who answers finds out."""


@dataclass(frozen=True, slots=True)
class InboundMessage:
    """A message. ``provider_id`` is unique in its channel, so that a second delivery changes nothing.

    ``at``: when it was received, whatever the sender's clock says; ``sent_at``: what that one says, for show.
    ``album``: what the parts of one message share that come as several. ``extra``: short facts for the record.
    ``whole``: everything that the message holds, where ``text`` is what remains of it without the quotes below.
    """

    channel: Channel
    provider_id: str
    party: Party
    thread: Thread
    at: datetime
    text: str
    attachments: tuple[Attachment, ...] = ()
    participants: tuple[str, ...] = ()
    sent_at: datetime | None = None
    suppress: SuppressReason | None = None
    album: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    full_text: str | None = None


@dataclass(frozen=True, slots=True)
class MessageEdited:
    """A message that we have says something else now, or the same again. It settles nothing."""

    provider_id: str
    thread: Thread
    at: datetime
    text: str
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Utterance:
    """Of a call. ``provider_id`` is the same at every delivery of the transcript."""

    provider_id: str
    direction: Direction
    role: Role
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class CallEvent:
    """A call, at the state ``state``. ``ended``: nothing more is said; its transcript may still be missing.

    Deliveries come twice and out of order: what has ended never opens again, and utterances only add up. ``whole``:
    false where a fuller account of it is still to come.
    """

    provider_id: str
    party: Party
    thread: Thread
    at: datetime
    state: str
    ended: bool
    utterances: tuple[Utterance, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    whole: bool = True


@dataclass(frozen=True, slots=True)
class DeliveryUpdate:
    """How far a message of ours has come, by its ``rank``: a lower rank never replaces a higher one."""

    provider_id: str
    state: str
    rank: int
    at: datetime
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ThreadMigrated:
    """A thread goes on under another id, with what it was before."""

    source: str
    target: str
    at: datetime


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A message that has to be fetched first. ``source``: which fetcher; ``reference``: what it needs, no content."""

    source: str
    reference: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ImmediateResponse:
    """What the provider wants to read at once, such as a handshake's token."""

    status: int
    body: str
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class SubscriptionEvent:
    """Something to be done at the provider, or nothing more will come from it. ``action``: of a fixed vocabulary."""

    source: str
    action: str
    reference: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ignored:
    """Genuine, and no turn. ``reason``: a short word of a fixed vocabulary."""

    reason: str


ChannelEvent = (
    InboundMessage
    | MessageEdited
    | CallEvent
    | DeliveryUpdate
    | ThreadMigrated
    | FetchRequest
    | ImmediateResponse
    | SubscriptionEvent
    | Ignored
)
