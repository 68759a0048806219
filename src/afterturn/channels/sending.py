"""Sending messages through a provider: the message, the Sender, the receipt and the errors.

::

    SendFailed
    ├── Undeliverable     not sent; a repetition would fail too
    ├── TryLater          not sent; it may be repeated after a while
    └── Uncertain         it may have been sent: only a person may repeat it

A sender splits a message into the parts that its channel carries, in the same way each time. Each part is one request,
so it is sent, not sent, or uncertain as a whole. The caller records which parts are sent. A call that is cancelled is
uncertain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from afterturn.channels.types import ThreadMigrated
from afterturn.errors import AfterturnError
from afterturn.model import Attachment, Channel

_HTTPS = re.compile(r"https://[A-Za-z0-9._~\[\]:-]+(?:[/?#][!-~]*)?\Z")


@dataclass(frozen=True, slots=True)
class OutboundMessage:
    """A message to send, or one part of it.

    Attributes:
        account: the number, mailbox or bot of ours that sends it.
        recipients: ``+15158226442``, ``whatsapp:+15158226442``, ``telegram:-4518810793`` or mail addresses.
        in_reply_to: provider id of the message that it answers.
        references: ids of the earlier messages of its thread, oldest first.
        automatic: no person wrote it.
        topic: of a Telegram forum.
        part: its number, from 0.
    """

    conversation_id: str
    message_id: str
    channel: Channel
    account: str
    recipients: tuple[str, ...]
    text: str
    attachments: tuple[Attachment, ...] = ()
    subject: str | None = None
    in_reply_to: str | None = None
    references: tuple[str, ...] = ()
    automatic: bool = False
    topic: str | None = None
    part: int = 0

    def __repr__(self) -> str:
        """Holds no content."""
        return f"OutboundMessage({self.channel}, message_id={self.message_id!r}, part={self.part})"


@dataclass(frozen=True, slots=True)
class SendReceipt:
    """The provider has accepted the message; its delivery is reported later.

    Attributes:
        provider_id: its id in delivery updates and replies.
        thread_ids: all ids by which a reply may refer to it.
        moved: the thread turned out to continue under another id.
    """

    provider_id: str
    accepted_at: datetime
    thread_ids: tuple[str, ...] = ()
    moved: ThreadMigrated | None = None


class Reason(StrEnum):
    """Why a message was not sent, or may not have been. Used in records, logs and metrics."""

    # Undeliverable
    OPTED_OUT = "opted-out"
    BLOCKED = "blocked"
    BAD_ADDRESS = "bad-address"
    NOT_PERMITTED = "not-permitted"
    WINDOW_CLOSED = "window-closed"
    EMPTY = "empty"
    TOO_LONG = "too-long"
    BAD_ATTACHMENT = "bad-attachment"
    REFUSED = "refused"
    # TryLater
    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"
    UNREACHABLE = "unreachable"
    CONFIGURATION = "configuration"
    # Uncertain
    RESPONSE_LOST = "response-lost"
    RESPONSE_UNREADABLE = "response-unreadable"


_ADVICE = {
    Reason.OPTED_OUT: "the recipient has opted out; reach them in another way",
    Reason.BLOCKED: "the recipient has blocked us or closed the account; reach them in another way",
    Reason.BAD_ADDRESS: "nobody can be reached at this address; correct the recipient",
    Reason.NOT_PERMITTED: "our account may not write there; check its permissions at the provider",
    Reason.WINDOW_CLOSED: "they wrote too long ago for a free answer; wait until they write, or use a template",
    Reason.EMPTY: "it holds nothing that could be sent; write a text",
    Reason.TOO_LONG: "it is longer than the channel carries; shorten it",
    Reason.BAD_ATTACHMENT: "an attachment is not at an https address, or not one that the provider takes; leave it out",
    Reason.REFUSED: "the provider refused it; look the code up in its documentation",
    Reason.THROTTLED: "the provider wants fewer messages; it is sent later",
    Reason.UNAVAILABLE: "the provider has trouble; it is sent later",
    Reason.UNREACHABLE: "the provider cannot be reached; check the network, it is sent later",
    Reason.CONFIGURATION: "credentials, sender or account are not in order; correct them, and it is sent later",
    Reason.RESPONSE_LOST: "the answer was lost and it may have gone out; look there before sending it again",
    Reason.RESPONSE_UNREADABLE: "it was taken, but the answer cannot be read; look there before sending it again",
}


class SendFailed(AfterturnError):
    """A message was not sent, or may not have been. ``code``: the provider's error code, never content."""

    def __init__(self, provider: str, reason: Reason, code: str | None = None) -> None:
        super().__init__(f"{provider}: {_ADVICE[reason]}" + (f" ({code})" if code else ""))
        self.provider = provider
        self.reason = reason
        self.code = code


class Undeliverable(SendFailed):
    """Not sent; a repetition would fail too."""


class TryLater(SendFailed):
    """Not sent; it may be repeated. ``after``: the least pause, if the provider or the error asks for one."""

    def __init__(
        self, provider: str, reason: Reason, code: str | None = None, *, after: timedelta | None = None
    ) -> None:
        super().__init__(provider, reason, code)
        self.after = after


class Uncertain(SendFailed):
    """It may have been sent. Repeating it automatically could send it twice."""


class Sender(Protocol):
    """Sends through one provider."""

    def parts(self, message: OutboundMessage) -> tuple[OutboundMessage, ...]:
        """The parts to send, in order; always the same for the same message.

        Raises:
            Undeliverable: there is nothing that can be sent.
        """
        ...

    async def send(self, part: OutboundMessage) -> SendReceipt:
        """Send one of :meth:`parts`. Raises Undeliverable, TryLater or Uncertain for every network error."""
        ...


@dataclass(frozen=True, slots=True)
class ProviderErrors:
    """What a provider's error codes mean. ``temporary``: those that pass or can be corrected."""

    permanent: Mapping[str, Reason] = field(default_factory=dict)
    temporary: Mapping[str, Reason] = field(default_factory=dict)

    def error_of(self, provider: str, code: str, *, after: timedelta | None = None) -> SendFailed | None:
        """The error for a code; None if it is unknown."""
        if code in self.permanent:
            return Undeliverable(provider, self.permanent[code], code)
        if code in self.temporary:
            return TryLater(provider, self.temporary[code], code, after=after or pause_after(self.temporary[code]))
        return None


CONFIGURATION_PAUSE = timedelta(minutes=15)
"""Somebody has to correct the settings first."""


def pause_after(reason: Reason) -> timedelta | None:
    """The pause if the provider does not ask for one."""
    return CONFIGURATION_PAUSE if reason is Reason.CONFIGURATION else None


def public_attachments(message: OutboundMessage, provider: str) -> tuple[Attachment, ...]:
    """The attachments. Raises Undeliverable if one has no https URL, from which others can fetch it."""
    if not all(_HTTPS.match(file.url) for file in message.attachments):
        raise Undeliverable(provider, Reason.BAD_ATTACHMENT)
    return message.attachments


def text_with_links(message: OutboundMessage, provider: str) -> str:
    """The text, and a line for each attachment: for channels that do not fetch files."""
    lines = [
        f"{file.name.strip()}: {file.url}" if file.name.strip() else file.url
        for file in public_attachments(message, provider)
    ]
    return "\n\n".join(filter(None, (message.text.rstrip() if lines else message.text, "\n".join(lines))))
