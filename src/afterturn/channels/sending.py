"""How a message goes out, whatever the channel, and what may come of it.

::

    SendFailed
    ├── Undeliverable     it will never be taken as it is; not sent, and no use in trying again
    ├── TryLater          it was not taken, for sure; the same may be sent again after a while
    └── Uncertain         it may have been taken: nobody but a person sends it again

A sender makes of one message the parts that its channel can carry, by a rule that gives the same parts each time; each
part is one request, so that it is sent, not sent, or uncertain as a whole. Whoever calls keeps which parts are sent. A
call that is cancelled is as uncertain as a lost answer.
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
    """One message, or one part of it.

    ``account``: ours, the number, mailbox or bot that writes; ``recipients``: theirs, as their channel spells them
    (``+15158226442``, ``whatsapp:+15158226442``, ``telegram:-4518810793``, an address); ``in_reply_to``: the provider
    id of the message that it answers; ``references``: ids of the earlier ones of its thread, oldest first;
    ``automatic``: no person wrote it; ``topic``: of a Telegram forum; ``part``: its number, from 0.
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
        """Names the message and holds nothing of it."""
        return f"Outgoing({self.channel}, message_id={self.message_id!r}, part={self.part})"


@dataclass(frozen=True, slots=True)
class SendReceipt:
    """The provider has taken it. That it was delivered, other messages say.

    ``provider_id``: as later deliveries and answers name it; ``thread_ids``: all ids by which an answer may name it;
    ``moved``: where the conversation turned out to go on.
    """

    provider_id: str
    accepted_at: datetime
    thread_ids: tuple[str, ...] = ()
    moved: ThreadMigrated | None = None


class Reason(StrEnum):
    """Why a message did not go out, or not for sure. A fixed vocabulary: for records, logs and metrics."""

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
    ANSWER_LOST = "answer-lost"
    ANSWER_UNREADABLE = "answer-unreadable"


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
    Reason.ANSWER_LOST: "the answer was lost and it may have gone out; look there before sending it again",
    Reason.ANSWER_UNREADABLE: "it was taken, but the answer cannot be read; look there before sending it again",
}


class SendFailed(AfterturnError):
    """A message was not sent, or perhaps not. ``code``: the provider's own word for it, never content."""

    def __init__(self, provider: str, reason: Reason, code: str | None = None) -> None:
        super().__init__(f"{provider}: {_ADVICE[reason]}" + (f" ({code})" if code else ""))
        self.provider = provider
        self.reason = reason
        self.code = code


class Undeliverable(SendFailed):
    """It will never be taken as it is, and was not sent."""


class TryLater(SendFailed):
    """It was not taken, for sure. ``after``: how long to wait at least, where the provider or the trouble says so."""

    def __init__(
        self, provider: str, reason: Reason, code: str | None = None, *, after: timedelta | None = None
    ) -> None:
        super().__init__(provider, reason, code)
        self.after = after


class Uncertain(SendFailed):
    """It may have been taken. Sending it again by machine could tell a person the same thing twice."""


class Sender(Protocol):
    """Sends through one provider."""

    def parts(self, message: OutboundMessage) -> tuple[OutboundMessage, ...]:
        """What to send, in this order, one after the other: the same for the same message, each time.

        Raises Undeliverable where nothing can be sent.
        """
        ...

    async def send(self, part: OutboundMessage) -> SendReceipt:
        """Send one of :meth:`parts`. Raises Undeliverable, TryLater or Uncertain, and nothing else of the network's."""
        ...


@dataclass(frozen=True, slots=True)
class ProviderErrors:
    """A provider's error codes: what each means. ``later``: which of them pass, or can be put right."""

    permanent: Mapping[str, Reason] = field(default_factory=dict)
    temporary: Mapping[str, Reason] = field(default_factory=dict)

    def error_of(self, provider: str, code: str, *, after: timedelta | None = None) -> SendFailed | None:
        """The error for a code, None for an unknown one."""
        if code in self.permanent:
            return Undeliverable(provider, self.permanent[code], code)
        if code in self.temporary:
            return TryLater(provider, self.temporary[code], code, after=after or pause_after(self.temporary[code]))
        return None


CONFIGURATION_PAUSE = timedelta(minutes=15)
"""Nothing changes before somebody has put it right."""


def pause_after(reason: Reason) -> timedelta | None:
    """How long to wait where the provider does not say."""
    return CONFIGURATION_PAUSE if reason is Reason.CONFIGURATION else None


def public_attachments(message: OutboundMessage, provider: str) -> tuple[Attachment, ...]:
    """The message's files. Raises Undeliverable where one is at no https address: it could not be had by others."""
    if not all(_HTTPS.match(file.url) for file in message.attachments):
        raise Undeliverable(provider, Reason.BAD_ATTACHMENT)
    return message.attachments


def text_with_links(message: OutboundMessage, provider: str) -> str:
    """The text, and a line for each file: for channels that take no files by address."""
    lines = [
        f"{file.name.strip()}: {file.url}" if file.name.strip() else file.url
        for file in public_attachments(message, provider)
    ]
    return "\n\n".join(filter(None, (message.text.rstrip() if lines else message.text, "\n".join(lines))))
