"""The store's interface.

Every method is atomic: it is carried out completely and durably, or not at all. Callers give ``now``.
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
    ConversationPatch,
    Message,
    SendProblem,
    SettledTurn,
    Stamp,
    Turn,
    WorkOrder,
)
from afterturn.store.jobs import Job, JobQueue
from afterturn.store.state import StateStore


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of a settle.

    ``new``: false if everything in the turn was settled before and nothing changed. ``published``: the event was
    published in the same transaction, because stream and store share a database.
    """

    event: TurnSettled
    new: bool
    published: bool


@dataclass(frozen=True, slots=True)
class Range:
    """A part of the recency index: ``since <= recency < until``, of one property or of all.

    ``property_id`` is used only with ``of_property``; None selects unassigned conversations.
    """

    since: datetime | None = None
    until: datetime | None = None
    of_property: bool = False
    property_id: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class RecencyKey:
    """The position of a row in the recency index; unique."""

    at: datetime
    conversation_id: str


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows, newest first. ``exhausted``: the range holds no further rows."""

    rows: tuple[Conversation, ...]
    exhausted: bool


class ConsumerState(StrEnum):
    """``shadow``: runs without effects, and its stamps are not shown. ``retired``: owes nothing any more."""

    LIVE = "live"
    SHADOW = "shadow"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class Registration:
    """A consumer in the ledger: since when it owes reactions, and how long its debounce may wait."""

    name: str
    registered_at: datetime
    state: ConsumerState
    max_wait: timedelta


@dataclass(frozen=True, slots=True)
class ReactionWindow:
    """The input of a reaction: messages that the consumer has not seen, and the newest turn among them."""

    conversation: Conversation
    messages: tuple[Message, ...]
    through: datetime


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed reaction: its attempts are used up."""

    conversation_id: str
    consumer: str
    failed_through: datetime
    error: str


@dataclass(frozen=True, slots=True, order=True)
class FailureKey:
    """The position of a failure in the list of failures."""

    consumer: str
    conversation_id: str


@dataclass(frozen=True, slots=True, order=True)
class WorkOrderKey:
    """The position of a work order in the list of work orders. ``rank``: that of its urgency."""

    rank: int
    opened_at: datetime
    order_id: str

    @classmethod
    def of(cls, order: WorkOrder) -> WorkOrderKey:
        return cls(order.urgency.rank, order.opened_at, order.id)


class Writer(Protocol):
    """What settling uses."""

    async def save_conversation(self, meta: ConversationMeta, *, now: datetime) -> Conversation:
        """Create a conversation, or replace the attributes that the writer owns. Stamps and times stay."""
        ...

    async def save_messages(
        self, meta: ConversationMeta, messages: Sequence[Message], *, now: datetime, jobs: Sequence[Job] = ()
    ) -> int:
        """Save messages in the middle of a turn. Returns the number of new ones.

        The conversation's place in the inbox does not change; its preview does.

        ``jobs`` (at most MAX_JOBS) are added in the transaction of the last message, even if no message is new. A job
        whose kind and key are known, waiting or done, is not added again.
        """
        ...

    async def settle(self, turn: Turn, *, now: datetime, emitter: str, jobs: Sequence[Job] = ()) -> Settled:
        """Save a turn's messages, meta, recency, settled mark and jobs in one transaction.

        A message with a known id or provider id changes nothing. A turn is not new, and adds no jobs, if all of its
        messages are settled already or its key is known. A job whose kind and key are known is not added again.
        """
        ...

    async def edit_message(self, conversation_id: str, provider_id: str, text: str, *, at: datetime) -> bool:
        """Replace the text of a stored message. Returns whether the text changed.

        Nothing is settled, and the conversation's place in the inbox does not change. Nothing changes if the message is
        unknown, the text is the same, or the edit is not newer than the last one. Raises InvalidRecord for a text that
        is not valid in a message.
        """
        ...

    async def meta(self, conversation_id: str) -> ConversationMeta | None:
        """The attributes that the writer owns."""
        ...


class Stamper(Protocol):
    """What reactions use."""

    async def window(self, conversation_id: str, consumer: str) -> ReactionWindow | None:
        """What the consumer has not seen; None if nothing was settled since, or the conversation is unknown."""
        ...

    async def stamp(
        self, conversation_id: str, consumer: str, stamp: Stamp, *, through: datetime, now: datetime
    ) -> bool:
        """Write a stamp and its work orders. Returns whether they were written.

        Nothing is written if the stored stamp is as new, or the conversation is unknown. A known work order that is
        open can only become more urgent; a closed one does not change.
        """
        ...

    async def fail(self, conversation_id: str, consumer: str, *, through: datetime, error: str, now: datetime) -> None:
        """Record that the consumer failed on the turns up to ``through``."""
        ...

    async def request(self, conversation_id: str, consumers: Sequence[str], *, now: datetime) -> None:
        """Make consumers owe a conversation: write an empty stamp of now and clear a failure."""
        ...

    async def claim(self, name: str, key: str, value: JsonValue = None) -> JsonValue:
        """Take a claim. Returns the value of its first taker."""
        ...

    async def claim_done(self, name: str, key: str) -> bool: ...

    async def finish_claim(self, name: str, key: str) -> None: ...

    async def register(self, registrations: Sequence[Registration]) -> None:
        """Record first registrations; a known consumer keeps its time and its state."""
        ...

    async def set_state(self, consumer: str, state: ConsumerState) -> None:
        """Promote or retire; raises NotFound."""
        ...


class Editor(Protocol):
    """The part of the store that keeps what people and senders change of a conversation."""

    async def patch_conversation(
        self, conversation_id: str, patch: ConversationPatch, *, revision: int | None, now: datetime
    ) -> Conversation:
        """Apply a person's change and raise the revision. ``revision``: the one that the change is based on.

        Turns do not undo it: a property set by a person stays, also if it was set to none. A closed conversation
        reopens when a turn settles an inbound message that was saved after it was closed, whatever the message's time.
        ``save_conversation`` replaces property and status. Neither a settle nor a reopening raises the revision.

        Raises NotFound, and Conflict if the stored revision differs.
        """
        ...

    async def set_send_problem(self, conversation_id: str, message_id: str, problem: SendProblem | None) -> None:
        """Show in the conversation's row that its newest message was not sent; None: there is no problem any more.

        Nothing is written if the row previews another message.
        """
        ...

    async def close_work_order(self, conversation_id: str, order_id: str, *, now: datetime) -> WorkOrder | None:
        """Close a work order. It stays closed, also if a reaction reports its cause again.

        Returns the work order; None if the conversation has no such work order.
        """
        ...


class StoreReader(Protocol):
    """What every package may use."""

    async def conversation(self, conversation_id: str) -> Conversation | None: ...

    async def messages(self, conversation_id: str, *, limit: int | None = None) -> tuple[Message, ...]:
        """The newest ``limit`` messages, or all, in thread order: by time, then arrival."""
        ...

    async def turns(
        self, conversation_id: str, *, after: datetime | None = None, limit: int
    ) -> tuple[SettledTurn, ...]:
        """Settled turns after ``after``, oldest first."""
        ...

    async def recency(self, part: Range, *, before: RecencyKey | None = None, limit: int) -> Slice:
        """Rows of the recency index, newest first, strictly older than ``before``."""
        ...

    async def scan(self, *, after: str | None = None, limit: int) -> tuple[Conversation, ...]:
        """Every conversation, in the order of ids."""
        ...

    async def failures(self, *, after: FailureKey | None = None, limit: int) -> tuple[Failure, ...]:
        """Failures after ``after``, by consumer, then conversation."""
        ...

    async def work_orders(
        self,
        *,
        conversation_id: str | None = None,
        open_only: bool = True,
        after: WorkOrderKey | None = None,
        limit: int,
    ) -> tuple[WorkOrder, ...]:
        """Work orders after ``after``, most urgent first, then oldest first."""
        ...

    async def registrations(self) -> Mapping[str, Registration]: ...

    async def checkpoint(self, name: str) -> datetime | None:
        """The time that was last saved under a name."""
        ...

    async def save_checkpoint(self, name: str, at: datetime) -> None: ...

    async def counts(self) -> Mapping[str, int]:
        """The numbers of conversations, messages, turns, stamps, open work orders and waiting jobs."""
        ...


class Store(Writer, Stamper, StateStore, JobQueue, Editor, StoreReader, Protocol):
    """All of it, as an adapter provides it."""
