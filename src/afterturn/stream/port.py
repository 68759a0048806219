"""What afterturn asks of a stream.

There are two queues, both FIFO by group. The **main** queue holds events for every consumer; its group is the
conversation. The **direct** queue holds an event for one consumer alone (parked after that consumer failed to take it,
or replayed for it); its group is consumer and conversation. A record that was received is invisible until it is
acknowledged, released, or its visibility timeout ends; meanwhile nothing later of its group is handed out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from afterturn.event import TurnSettled

MAX_RECEIVES = 5
"""Receives after which a record goes to the dead letters."""


class Queue(StrEnum):
    MAIN = "main"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Receipt:
    """A handle on one receive of one record; useless once the record was handed out again."""

    queue: Queue
    handle: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record as it was received. ``body`` may be anything; ``consumer`` is set in the direct queue only."""

    receipt: Receipt
    group: str
    body: str
    receives: int
    consumer: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that was given up on, and why. ``reason`` holds no content."""

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
    """The place of a dead letter among all."""

    died_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Depth:
    """How many records wait (in flight ones included), and since when the oldest does.

    ``strange``: of the direct ones, those that this stream hands out to nobody here; see its ``receive``.
    """

    main: int
    retry: int
    dead_letters: int
    oldest: datetime | None
    unknown_consumer: int = 0


class Publisher(Protocol):
    """The emitter's half."""

    async def publish(self, event: TurnSettled, *, consumer: str | None = None, emission: str | None = None) -> None:
        """Append an event; for one consumer alone where it is named. Raises StreamUnavailable.

        A stream may take a second publish of the same emission for the first one, sent again, and drop it: also when
        that one was handled meanwhile. So the emitter publishes without an ``emission``, however often it has to try;
        whoever emits an event anew (sweep, replay, parking) gives each emission a name of its own: up to 64 letters,
        digits and hyphens.
        """
        ...


class Stream(Publisher, Protocol):
    """All of it."""

    async def receive(self, queue: Queue, *, limit: int, visibility: timedelta) -> Sequence[Delivery]:
        """The next records, in order within each group; invisible for ``visibility``.

        A record that was received MAX_RECEIVES times without success goes to the dead letters instead. A stream that
        can tell leaves a direct record alone where its consumer is not of this app: another process may have it.
        """
        ...

    async def ack(self, receipts: Sequence[Receipt]) -> None:
        """Forget records that were handled. A receipt that is no longer valid is ignored."""
        ...

    async def release(self, receipts: Sequence[Receipt], *, after: timedelta) -> None:
        """Make records visible again after a time, their groups waiting for them."""
        ...

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        """Move a record to the dead letters at once."""
        ...

    async def dead_letters(self, *, after: DeadLetterKey | None = None, limit: int) -> Sequence[DeadLetter]:
        """Oldest first, beyond ``after``, which may have been redriven meanwhile."""
        ...

    async def redrive(self, ids: Sequence[str]) -> int:
        """Append dead letters to their queue again; each is forgotten only once that is durable. Returns how many."""
        ...

    async def depth(self) -> Depth: ...
