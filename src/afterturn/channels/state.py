"""What the channels remember between two deliveries: every kind of record, with key, version rule and time to live.

Records of one provider alone stand in its package.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import Field

from afterturn.clock import EPOCH, MILLISECOND
from afterturn.ids import digest
from afterturn.model import Record, Time
from afterturn.store.jobs import Job
from afterturn.store.state import StateRecord, Ties

MAX_REPLY_TIMES = 200
"""Times in a reply history; a state record is small."""


class ThreadEntry(StateRecord):
    """The conversation that a mail is in. ``key``: the mail's id."""

    kind = "thread"
    ties = Ties.FIRST

    conversation_id: str


class SubjectEntry(StateRecord):
    """The newest conversation of mail that names no earlier mail. ``key``: digest of account, correspondent and
    subject; ``version``: the mail's time.
    """

    kind = "subject"

    conversation_id: str
    at: Time


class MergedThread(StateRecord):
    """The conversation that a thread goes on in. ``key``: the id under which the channel knows the thread."""

    kind = "merged-thread"
    ties = Ties.FIRST

    conversation_id: str


class ThreadMigration(StateRecord):
    """Which id survives when a thread changes its id. ``key``: digest of both ids."""

    kind = "thread-migration"
    ties = Ties.FIRST

    conversation_id: str


class FirstReceived(StateRecord):
    """When a message was received first: repeated deliveries are as old as that. ``key``: channel and provider id.

    ``permanent``: the record of an opt-out or opt-in, which must never become newer than it was.
    """

    kind = "first-received"
    ties = Ties.FIRST
    ttl = timedelta(days=90)

    at: Time
    permanent: bool = False

    @property
    def kept_for(self) -> timedelta | None:
        return None if self.permanent else self.ttl


class EarlyEdit(StateRecord):
    """An edit that came before the message. ``key``: channel and provider id; ``version``: the time of the edit."""

    kind = "early-edit"
    ttl = timedelta(days=1)

    text: str
    at: Time


class Album(StateRecord):
    """Digests of the parts of an album that were answered together. ``key``: of the album's job.

    Version 0, empty, is written before the parts are read: from then on a new part waits alone.
    """

    kind = "album"

    parts: tuple[str, ...] = ()


class SettledCall(StateRecord):
    """A call that was settled with its transcript. ``key``: the provider's id."""

    kind = "settled-call"
    ties = Ties.FIRST


class Route(StateRecord):
    """How a conversation is answered: as its newest inbound message came in. ``key``: the conversation's id;
    ``version``: the message's time.

    ``account``: ours; ``recipient``: where answers go; ``sender``: who wrote; ``references``: message ids, newest
    first.
    """

    kind = "route"

    account: str
    recipient: str
    sender: str
    message_id: str = ""
    topic: str | None = None
    subject: str | None = None
    references: tuple[str, ...] = ()


class MessageDetails(StateRecord):
    """What the channel says of a message beside its text. ``key``: see :func:`message_key`.

    ``suppress``: why it is not answered automatically; version 1 sets it afterwards.
    """

    kind = "message-details"
    ties = Ties.FIRST

    facts: Mapping[str, str] = Field(default_factory=dict)
    sent_at: Time | None = None
    suppress: str | None = None


class ContactName(StateRecord):
    """What somebody calls themselves. ``key``: their address; ``version``: the time of the message that says so."""

    kind = "contact-name"

    name: str = ""
    username: str = ""

    @property
    def text(self) -> str:
        """``Ada Lovelace (@ada)``; ``""`` if there is nothing to show."""
        handle = f"@{self.username.removeprefix('@')}" if self.username else ""
        return f"{self.name} ({handle})" if self.name and handle else self.name or handle


class SendState(StrEnum):
    """What became of sending a message. UNCERTAIN: it may have been sent."""

    WAITING = "waiting"
    SENT = "sent"
    UNDELIVERABLE = "undeliverable"
    UNCERTAIN = "uncertain"
    GIVEN_UP = "given-up"


class SendStatus(StateRecord):
    """What became of sending a message. ``key``: see :func:`message_key`; ``provider_ids``: of its parts."""

    kind = "send-status"

    state: SendState
    reason: str | None = None
    at: Time
    provider_ids: tuple[str, ...] = ()


class PartState(StrEnum):
    BEGUN = "begun"
    NOT_SENT = "not-sent"
    SENT = "sent"


class PartStatus(StateRecord):
    """How far one part of a message is. ``key``: the job's key and the part's number.

    ``version``: twice the attempt, one more when it ended without sending; SENT_VERSION when it was sent.
    """

    kind = "part-status"

    state: PartState
    provider_id: str = ""


SENT_VERSION = 1_000_000


class DeliveryStatus(StateRecord):
    """What the provider last reported of a message part. ``key``: its provider id; ``version``: how far that is."""

    kind = "delivery-status"
    ties = Ties.FIRST

    state: str
    at: Time
    error: str | None = None


class AutomaticMail(StateRecord):
    """When a correspondent got automatic mail. ``key``: account and recipient."""

    kind = "automatic-mail"

    times: tuple[Time, ...] = ()


class ReplyHistory(StateRecord):
    """The automatic replies of a conversation. ``key``: the conversation's id.

    ``job``: the key of the job that the newest reply was for; ``messages``: digests of the messages that it was based
    on; ``times``: when there were replies, in milliseconds since 1970, oldest first.
    """

    kind = "reply-history"

    job: str | None = None
    messages: tuple[str, ...] = ()
    times: tuple[int, ...] = ()

    def covers(self, job: Job, message_id: str) -> bool:
        """Whether the reply to a later message was based on this job's message, while the job was deferred."""
        return self.job != job.key and digest(message_id) in self.messages

    def earlier(self, job: Job, now: datetime) -> tuple[datetime, ...]:
        """When there were replies for other jobs.

        The newest of this job was made by a process that died before it settled; times ahead of the clock were
        recorded while the clock was wrong.
        """
        times = self.times[:-1] if self.job == job.key else self.times
        return tuple(at for at in map(_from_millis, times) if at <= now)

    def without_reply(self, job: Job, messages: tuple[str, ...]) -> ReplyHistory:
        """After the responder had nothing to say."""
        return self.model_copy(update={"job": job.key, "messages": messages})

    def with_reply(self, job: Job, messages: tuple[str, ...], now: datetime) -> ReplyHistory:
        """After the responder replied. A second reply for the same job replaces the first one."""
        times = self.times if self.job == job.key else (*self.times, _to_millis(now))
        return self.model_copy(update={"job": job.key, "messages": messages, "times": times[-MAX_REPLY_TIMES:]})


REPLY = "reply"
"""Kind of jobs: a message waits for an automatic reply."""

FINISH_CALL = "finish-call"
"""Kind of jobs: a call has ended, and its transcript may still come."""

SEND = "send"
"""Kind of jobs: an outbound message has to be sent."""


class ReplyJob(Record):
    """Value of a reply job. ``without_reply``: only settle the message; ``album``: it stands for several messages."""

    message: str
    without_reply: bool = False
    album: bool = False


class SendJob(Record):
    """Value of a send job. ``in_reply_to``: the id of the message that this one replies to."""

    message: str
    automatic: bool = False
    in_reply_to: str | None = None


def message_key(conversation_id: str, message_id: str) -> str:
    return f"{conversation_id} {message_id}"


def _to_millis(at: datetime) -> int:
    return (at - EPOCH) // MILLISECOND


def _from_millis(millis: int) -> datetime:
    return EPOCH + millis * MILLISECOND
