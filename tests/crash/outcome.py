"""What is known of a cycle after its inspection: plain data, so that the checker needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A call of the writer that returned. ``event_id`` and ``occurred_at`` (ms) are those of a settled turn."""

    conversation_id: str
    message_ids: tuple[str, ...]
    event_id: str | None = None
    occurred_at: int | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    id: str
    at: datetime
    inbound: bool


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """``occurred_at`` in milliseconds; ``last_seq``: how many messages the conversation had when it was settled."""

    occurred_at: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class StoredStamp:
    through: int | None
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation as the store tells it; ``messages`` in thread order, ``settled_at`` in milliseconds.

    ``clean``: what each consumer whose outcome doesn't depend on windows stamps when it sees all of it in one run.
    """

    id: str
    settled_at: int | None
    messages: tuple[StoredMessage, ...]
    turns: tuple[StoredTurn, ...]
    stamps: Mapping[str, StoredStamp]
    clean: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def settled(self) -> tuple[StoredMessage, ...]:
        """The messages up to the newest settled turn."""
        return self.messages[: self.turns[-1].last_seq] if self.turns else ()


@dataclass(frozen=True, slots=True)
class Order:
    """A work order; ``message_id`` and ``category`` are its cause."""

    id: str
    conversation_id: str
    message_id: str
    category: str
    urgency: str


@dataclass(frozen=True, slots=True)
class Heard:
    """A request that reached the receiver. ``kind``: package or alert; ``id`` its idempotency key."""

    kind: str
    id: str
    content: str
    conversation_id: str
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """``attempted``: for each conversation, the messages of each single call that was ever planned.

    ``swept``: what only the sweep of the last drain brought to its consumers. ``dead_letters``: records that workers
    took five times and died each time; ``revived``: reactions of which the same was true, and which were retried.
    """

    acknowledged: tuple[Acknowledged, ...]
    attempted: Mapping[str, tuple[tuple[str, ...], ...]]
    threads: tuple[Thread, ...]
    consumers: tuple[str, ...]
    orders: tuple[Order, ...]
    clean_orders: tuple[Order, ...]
    heard: tuple[Heard, ...]
    debts: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    swept: tuple[str, ...] = ()
    dead_letters: int = 0
    revived: int = 0
    integrity: tuple[str, ...] = ("ok",)
