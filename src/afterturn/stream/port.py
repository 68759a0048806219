"""The stream's interface.

There are two queues, both FIFO by group. The **main** queue holds events for every consumer; its group is the
conversation. The **retry** queue holds an event for a single consumer (deferred because that consumer could not accept
it, or replayed for it); its group is consumer and conversation. A record that was received is invisible until it is
acknowledged or released, or its visibility timeout ends; until then nothing later of its group is delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from afterturn.event import TurnSettled

MAX_RECEIVES = 5
"""Receives after which a record becomes a dead letter."""


class Queue(StrEnum):
    MAIN = "main"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Receipt:
    """A handle on one receive of one record; invalid after the record was received again."""

    queue: Queue
    handle: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record as it was received. ``body`` may be any text; ``consumer`` is set in the retry queue only."""

    receipt: Receipt
    group: str
    body: str
    receives: int
    consumer: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be handled, and why. ``reason`` holds no content."""

    id: str
    queue: Queue
    group: str
    body: str
    reason: str
    receives: int
    published_at: datetime
    died_at: datetime
    consumer: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetterKey:
    """The position of a dead letter in the list of all."""

    died_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Depth:
    """How many records wait, including those in flight, and when the oldest was published (None: unknown).

    ``unknown_consumer``: those of the retry queue whose consumer this app does not have; see ``receive``.
    """

    main: int
    retry: int
    dead_letters: int
    oldest: datetime | None
    unknown_consumer: int = 0


class Publisher(Protocol):
    """The emitter's half."""

    async def publish(self, event: TurnSettled, *, consumer: str | None = None, emission: str | None = None) -> None:
        """Append an event, for every consumer or for one. Raises StreamUnavailable.

        A stream may drop a second publish of the same emission as a repeat, even if the first one was handled
        meanwhile. So the emitter publishes without an ``emission``, however often it retries; a re-emission (sweep,
        replay, deferral) has a unique name: up to 64 letters, digits and hyphens.
        """
        ...


class Stream(Publisher, Protocol):
    """All of the stream, as an adapter provides it."""

    async def receive(self, queue: Queue, *, limit: int, visibility: timedelta) -> Sequence[Delivery]:
        """The next records, in order within each group; invisible for ``visibility``.

        A record that was received MAX_RECEIVES times without success becomes a dead letter instead. A stream that knows
        the app's consumers skips records of other consumers in the retry queue: another process may have them.
        """
        ...

    async def ack(self, receipts: Sequence[Receipt]) -> None:
        """Delete records that were handled. A receipt that is no longer valid is ignored."""
        ...

    async def release(self, receipts: Sequence[Receipt], *, after: timedelta) -> None:
        """Make records visible again after a time; their groups wait for them."""
        ...

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        """Move a record to the dead letters at once."""
        ...

    async def dead_letters(self, *, after: DeadLetterKey | None = None, limit: int) -> Sequence[DeadLetter]:
        """Dead letters after ``after``, oldest first. That one may have been redriven meanwhile."""
        ...

    async def redrive(self, ids: Sequence[str]) -> int:
        """Append dead letters to their queues again; returns how many. Each is deleted only once that is durable."""
        ...

    async def depth(self) -> Depth: ...
