"""What afterturn asks of a store, in the words of the domain.

Every method is one atomic unit: it happens whole and durably, or not at all. Methods that take ``now`` do so because
only a clock tells the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from pydantic import JsonValue

from afterturn.event import TurnSettled
from afterturn.model import (
    Conversation,
    ConversationMeta,
    Message,
    SendProblem,
    SettledTurn,
    Stamp,
    StoredStamp,
    Turn,
    WorkOrder,
)
from afterturn.store.kept import MAX_JOBS, MAX_VALUE_BYTES, ConversationPatch, Job, LeasedJob, Note, WaitingJob


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of a settle.

    ``new``: false where everything in the turn was settled before, and nothing changed. ``published``: the event
    was put into the stream in the same transaction, because stream and store share one database.
    """

    event: TurnSettled
    new: bool
    published: bool


@dataclass(frozen=True, slots=True)
class Range:
    """A part of the recency index: ``since <= recency < until``, of one property or of all.

    ``property_id`` None means unassigned ones where ``of_property`` is set, and is ignored where it is not.
    """

    since: datetime | None = None
    until: datetime | None = None
    of_property: bool = False
    property_id: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class RecencyKey:
    """The place of a row in the recency index; no two rows have the same."""

    at: datetime
    conversation_id: str


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows in order, newest first. ``exhausted``: nothing of the range lies beyond them."""

    rows: tuple[Conversation, ...]
    exhausted: bool


class ConsumerState(StrEnum):
    """``shadow``: runs without effects, its stamps unseen. ``retired``: owes nothing any more."""

    LIVE = "live"
    SHADOW = "shadow"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class Registration:
    """What the ledger knows of a consumer: since when it owes, and how long its debounce may wait."""

    name: str
    registered_at: datetime
    state: ConsumerState
    max_wait: timedelta


@dataclass(frozen=True, slots=True)
class ReactionWindow:
    """A conversation, the messages that a consumer has not seen, and the turn that they reach up to."""

    conversation: Conversation
    messages: tuple[Message, ...]
    through: datetime


@dataclass(frozen=True, slots=True)
class Failure:
    """A reaction that was given up on."""

    conversation_id: str
    consumer: str
    failed_through: datetime
    error: str


@dataclass(frozen=True, slots=True, order=True)
class FailureKey:
    """The place of a failure among all."""

    consumer: str
    conversation_id: str


@dataclass(frozen=True, slots=True, order=True)
class WorkOrderKey:
    """The place of a work order among all. ``rank``: of its urgency."""

    rank: int
    opened_at: datetime
    order_id: str

    @classmethod
    def of(cls, order: WorkOrder) -> WorkOrderKey:
        return cls(order.urgency.rank, order.opened_at, order.id)


class Writer(Protocol):
    """The half of the store that only ``settle/`` and the importers' path through it use."""

    async def save_conversation(self, meta: ConversationMeta, *, now: datetime) -> Conversation:
        """Create a conversation, or replace the attributes that the writer owns; stamps and times stay."""
        ...

    async def save_messages(
        self, meta: ConversationMeta, messages: Sequence[Message], *, now: datetime, jobs: Sequence[Job] = ()
    ) -> int:
        """Save messages in the middle of a turn; the inbox does not move. Returns how many were new.

        ``jobs`` (at most MAX_JOBS) are added in the transaction of the last message, but for those whose kind and
        key are known, be they waiting or done. They are added also where no message is new.
        """
        ...

    async def settle(self, turn: Turn, *, now: datetime, emitter: str, jobs: Sequence[Job] = ()) -> Settled:
        """Messages, meta, recency, the settled mark and jobs in one transaction.

        A message that is known by id or provider id changes nothing. A turn that brings messages of which all are
        settled already, or whose key is known, is not new, and adds no jobs: the first one did. A job whose kind
        and key are known is not added again.
        """
        ...

    async def edit_message(self, conversation_id: str, provider_id: str, text: str, *, at: datetime) -> bool:
        """Replace the text of a stored message; returns whether it is another one now.

        Nothing is settled, and nothing moves in the inbox. An edit that is not newer than the last one changes
        nothing, nor does one that leaves the text as it is, or of a message that is not there. Raises InvalidRecord for
        a text that no message can have.
        """
        ...

    async def meta(self, conversation_id: str) -> ConversationMeta | None:
        """The attributes that the writer owns."""
        ...


class Stamper(Protocol):
    """The half of the store that only ``reactions/`` uses."""

    async def window(self, conversation_id: str, consumer: str) -> ReactionWindow | None:
        """What the consumer has not seen; None where nothing was settled since, or the conversation is unknown."""
        ...

    async def stamp(
        self, conversation_id: str, consumer: str, stamp: Stamp, *, through: datetime, now: datetime
    ) -> bool:
        """Write a stamp and its work orders, unless the stored one has seen as much. Returns whether it was written.

        A work order that is known only becomes more urgent, and not even that once it is closed. Nothing is written for
        a conversation that is not there.
        """
        ...

    async def fail(self, conversation_id: str, consumer: str, *, through: datetime, error: str, now: datetime) -> None:
        """Mark that the consumer gave up on the turns up to ``through``."""
        ...

    async def request(self, conversation_id: str, consumers: Sequence[str], *, now: datetime) -> None:
        """Make consumers owe a conversation that they would not: an empty stamp of now, and no failure."""
        ...

    async def claim(self, name: str, key: str, value: JsonValue = None) -> JsonValue:
        """Take a claim; returns the value of whoever took it first."""
        ...

    async def claim_done(self, name: str, key: str) -> bool: ...

    async def finish_claim(self, name: str, key: str) -> None: ...

    async def register(self, registrations: Sequence[Registration]) -> None:
        """Record first registrations; a known consumer keeps its time and its state."""
        ...

    async def set_state(self, consumer: str, state: ConsumerState) -> None:
        """Promote or retire; raises NotFound."""
        ...


class Keeper(Protocol):
    """The half of the store that only ``channels/`` and ``web/`` use: what is remembered between deliveries,
    and what is still to be done."""

    async def note(
        self,
        name: str,
        key: str,
        value: JsonValue,
        *,
        rank: int = 0,
        replace: bool = False,
        kept: timedelta | None = None,
    ) -> bool:
        """Write a small value (at most MAX_VALUE_BYTES of JSON) under a key of a name; returns whether it was written.

        A note of a higher rank stays, so what only goes forward (the delivery of a message) cannot go back. Among notes
        of one rank the first stays, so writing one also takes something once; with ``replace`` the last stays.
        ``kept``: after that time the store may forget it; None keeps it. Raises InvalidRecord.
        """
        ...

    async def note_all(self, notes: Sequence[Note]) -> Sequence[bool]:
        """The same for several in one go; returns of each whether it was written. Each is a unit of its own: where it
        raises, some may have been written.
        """
        ...

    async def noted(self, name: str, keys: Sequence[str]) -> Mapping[str, JsonValue]:
        """The values under those of the keys that are known, as they are now."""
        ...

    async def notes(self, wanted: Mapping[str, Sequence[str]]) -> Mapping[str, Mapping[str, JsonValue]]:
        """The same for keys of several names, in one look; each name that was asked for is there."""
        ...

    async def lease_jobs(self, kind: str, *, now: datetime, lease: timedelta, limit: int) -> Sequence[LeasedJob]:
        """Jobs of a kind that are due, at most ``limit``, in the order in which they became due.

        Until ``now + lease`` they are handed out to nobody else; then to anybody, so a taker that dies loses them.
        Raises InvalidInput for a lease of no time.
        """
        ...

    async def complete(self, taken: LeasedJob) -> bool:
        """It is done and does not come again; told twice, it stays so.

        Returns false, and changes nothing, where somebody else took it after the lease, or it was put off.
        """
        ...

    async def retry_later(self, taken: LeasedJob, *, until: datetime) -> bool:
        """Hand it back, not to be handed out before ``until``; false as above, and where it is done."""
        ...

    async def patch_conversation(
        self, conversation_id: str, patch: ConversationPatch, *, revision: int | None, now: datetime
    ) -> Conversation:
        """Change what people decide, and raise the revision. ``revision``: the one that the change is based on.

        Turns do not undo it. A property that was set stays, also where it was set to none: a channel assigns only what
        nobody has decided on. A conversation that was closed is open again once a turn settles an inbound message that
        was saved after the closing, however old it is: nobody has seen it. A closing by the writer has no such end, and
        ``save_conversation`` replaces both. Settles do not raise the revision, nor does a reopening.

        Raises NotFound, and Conflict where the stored revision is not the given one.
        """
        ...

    async def set_send_problem(self, conversation_id: str, message_id: str, problem: SendProblem | None) -> None:
        """Show in the conversation's row that its newest message was not sent; None: there is no problem any more.

        Nothing is written if the row previews another message.
        """
        ...

    async def close_work_order(self, conversation_id: str, order_id: str, *, now: datetime) -> WorkOrder | None:
        """The repair is done. A closed one stays as it is, also where a reaction tells its cause again.

        Returns it as it is now; None where the conversation has no such work order.
        """
        ...

    async def waiting_jobs(self, kind: str, *, limit: int) -> Sequence[WaitingJob]:
        """What is not done, handed out or not, first what can be taken first."""
        ...


class StoreReader(Protocol):
    """The half of the store that everybody may use."""

    async def conversation(self, conversation_id: str) -> Conversation | None: ...

    async def messages(self, conversation_id: str, *, limit: int | None = None) -> tuple[Message, ...]:
        """In thread order (time, then arrival); the newest ``limit`` of them where it is given."""
        ...

    async def turns(
        self, conversation_id: str, *, after: datetime | None = None, limit: int
    ) -> tuple[SettledTurn, ...]:
        """Settled turns in order, oldest first, after ``after``."""
        ...

    async def recency(self, part: Range, *, before: RecencyKey | None = None, limit: int) -> Slice:
        """Rows of the recency index, newest first, strictly older than ``before``."""
        ...

    async def scan(self, *, after: str | None = None, limit: int) -> tuple[Conversation, ...]:
        """Every conversation, in the order of ids."""
        ...

    async def failures(self, *, after: FailureKey | None = None, limit: int) -> tuple[Failure, ...]:
        """In the order of consumers and conversations, beyond ``after``."""
        ...

    async def work_orders(
        self,
        *,
        conversation_id: str | None = None,
        open_only: bool = True,
        after: WorkOrderKey | None = None,
        limit: int,
    ) -> tuple[WorkOrder, ...]:
        """Most urgent first, then oldest first, beyond ``after``."""
        ...

    async def registrations(self) -> Mapping[str, Registration]: ...

    async def checkpoint(self, name: str) -> datetime | None:
        """The time that was last kept under a name."""
        ...

    async def save_checkpoint(self, name: str, at: datetime) -> None: ...

    async def counts(self) -> Mapping[str, int]:
        """How many conversations, messages, turns, stamps, open work orders and jobs that wait there are."""
        ...


class Store(Writer, Stamper, Keeper, StoreReader, Protocol):
    """All of it, as an adapter provides it."""


__all__ = [
    "MAX_JOBS",
    "MAX_VALUE_BYTES",
    "ConsumerState",
    "ConversationPatch",
    "Failure",
    "FailureKey",
    "Job",
    "Keeper",
    "LeasedJob",
    "Note",
    "Range",
    "ReactionWindow",
    "RecencyKey",
    "Registration",
    "Settled",
    "Slice",
    "Stamper",
    "Store",
    "StoreReader",
    "StoredStamp",
    "WaitingJob",
    "WorkOrderKey",
    "Writer",
]
