"""Events of channels: what a provider's request means, before anything is looked up or stored. Pure data.

A provider's ``verify(request, …)`` raises :class:`Rejected`; its ``parse(request, …)`` returns events. A verified
request always yields events, at least :class:`Ignored` with its reason, because a provider repeats a request that is
answered with an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from afterturn.errors import AfterturnError
from afterturn.model import Attachment, Channel, Direction, Role


class Rejected(AfterturnError):
    """A request that is refused. ``reason`` holds no content and no secret.

    ``status``: the HTTP status. 400: not what the provider sends; 401: the signature is missing or wrong; 413: larger
    than the provider sends; 503: it cannot be verified now, and the provider has to repeat it.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """An HTTP request. ``url``: complete, as the provider called it and not as a proxy forwarded it; ``headers``: names
    in lower case.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Party:
    """Who writes to whom, both normalised.

    ``account``: our number, mailbox or bot; ``sender``: the customer's address; ``reply_to``: the address for replies
    if it is another one (``Reply-To``).
    """

    account: str
    sender: str
    reply_to: str | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """The thread that a message belongs to.

    Attributes:
        conversation_id: as importers make it (``sms:+15158226442``, ``telegram:-4518810793``, ``mail:<root id>``).
        after: ids of earlier messages, nearest first. If one is known, the message belongs to its conversation.
        subject: without reply marks, for mail that refers to no earlier message.
    """

    conversation_id: str
    after: tuple[str, ...] = ()
    subject: str | None = None


class SuppressReason(StrEnum):
    """Why a message gets no automatic reply. It is stored like any other."""

    AUTO_REPLY = "auto-reply"
    BOUNCE = "bounce"
    BULK = "bulk"
    RECEIPT = "receipt"
    COMPLAINT = "complaint"
    SPAM = "spam"
    OPT_OUT = "opt-out"
    OWN = "own"
    SENDER_NOT_IN_THREAD = "not-in-thread"
    """The sender takes no part in the conversation that the mail refers to, or may be forged."""
    RATE_LIMIT = "rate-limit"
    """Too many automatic replies went to the conversation. Set when replying, not by a parser."""


@dataclass(frozen=True, slots=True)
class InboundMessage:
    """A message of a customer.

    Attributes:
        provider_id: unique in its channel, so that a second delivery changes nothing.
        at: when it was received.
        sent_at: when it was sent by the sender's clock; only shown.
        album: shared by the parts of one message that are delivered as several.
        extra: short facts for the record.
        full_text: the complete text, if ``text`` leaves out what it quotes.
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
    """A stored message was edited. Settles no turn."""

    provider_id: str
    thread: Thread
    at: datetime
    text: str
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Utterance:
    """One utterance of a call. ``provider_id`` is the same in every delivery of the transcript."""

    provider_id: str
    direction: Direction
    role: Role
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class CallEvent:
    """A call in the state ``state``.

    Deliveries are repeated and come out of order: a call that ended stays ended, and utterances accumulate.

    Attributes:
        ended: the call is over; its transcript may still be missing.
        whole: whether the report is final.
    """

    provider_id: str
    party: Party
    thread: Thread
    at: datetime
    state: str
    ended: bool
    utterances: tuple[Utterance, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    is_final: bool = True


@dataclass(frozen=True, slots=True)
class DeliveryUpdate:
    """The delivery status of a message of ours. A lower ``rank`` never replaces a higher one."""

    provider_id: str
    state: str
    rank: int
    at: datetime
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ThreadMigrated:
    """A thread and its history continue under another id."""

    source: str
    target: str
    at: datetime


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A message has to be fetched. ``source`` selects the fetcher; ``reference`` is its input and holds no content."""

    source: str
    reference: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ImmediateResponse:
    """The response that a provider expects at once, such as a handshake's token."""

    status: int
    body: str
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class SubscriptionEvent:
    """A subscription needs attention, or its provider stops delivering. ``action``: from a fixed vocabulary."""

    source: str
    action: str
    reference: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ignored:
    """Verified, and nothing to store. ``reason``: a code of ours, or the provider's name of the event."""

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
