"""The position of a conversation in the recency index, and the layouts that a table uses now.

One recency partition takes about 1,000 write units a second, some 500 settles. So the index has a layout:

``single``      one partition, ``CONV_RECENCY``: one query is the newest page
``monthly``     one for each month, ``CONV_RECENCY#2026-11``: bounds the size of a partition, not its write rate
``sharded:k``   k of them, ``CONV_RECENCY#s<n>``, by a hash of the id: k times the write rate, k queries for a page

An index holds an item only once. So that rows can be in two layouts during a change, there are two slots, each an index
of its own (``conv-recency-index`` and ``conv-recency-index-b``): writers write to every layout they are given, a
reader reads one. Nothing of the two ever mixes, also not two numbers of shards.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from afterturn.aws.table import RECENCY, RECENCY_B, Index
from afterturn.clock import to_text
from afterturn.errors import ConfigError, StoreTooNew
from afterturn.store.dynamodb import keys
from afterturn.store.dynamodb.requests import Attributes
from afterturn.store.dynamodb.table import Table

PARTITION = "CONV_RECENCY"
MAX_SHARDS = 256


class LayoutKind(StrEnum):
    SINGLE = "single"
    MONTHLY = "monthly"
    SHARDED = "sharded"


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows are spread over partitions. ``shards`` counts for ``sharded`` only."""

    kind: LayoutKind = LayoutKind.SINGLE
    shards: int = 1

    @classmethod
    def parse(cls, text: str) -> Layout:
        """``single``, ``monthly`` or ``sharded:16``; raises ConfigError."""
        name, _, number = text.partition(":")
        if name == LayoutKind.SHARDED and number.isascii() and number.isdecimal() and 2 <= int(number) <= MAX_SHARDS:
            return cls(LayoutKind.SHARDED, int(number))
        if name in (LayoutKind.SINGLE, LayoutKind.MONTHLY) and not number:
            return cls(LayoutKind(name))
        raise ConfigError(f"{text!r} is no recency layout: single, monthly, or sharded:N with N from 2 to {MAX_SHARDS}")

    def __str__(self) -> str:
        return f"{self.kind}:{self.shards}" if self.kind is LayoutKind.SHARDED else str(self.kind)

    def partition(self, at: datetime, conversation_id: str) -> str:
        """The partition of a row."""
        if self.kind is LayoutKind.MONTHLY:
            return f"{PARTITION}#{month_of(at)}"
        if self.kind is LayoutKind.SHARDED:
            return f"{PARTITION}#s{_hash(conversation_id) % self.shards}"
        return PARTITION

    def groups(self, since: datetime | None, until: datetime | None, months: Iterable[str]) -> list[list[str]]:
        """The partitions that hold a range: every row of a group is newer than every row of the next one.

        ``months``: those that hold rows; needed for ``monthly`` only. Rows of one group have to be merged.
        """
        if self.kind is LayoutKind.SHARDED:
            return [[f"{PARTITION}#s{number}" for number in range(self.shards)]]
        if self.kind is LayoutKind.SINGLE:
            return [[PARTITION]]
        first, last = (None if at is None else month_of(at) for at in (since, until))
        return [
            [f"{PARTITION}#{month}"]
            for month in sorted(months, reverse=True)
            if (first is None or first <= month) and (last is None or month <= last)
        ]


class Slot(StrEnum):
    """Which of the two recency indexes."""

    A = "a"
    B = "b"

    @property
    def table_index(self) -> Index:
        return RECENCY if self is Slot.A else RECENCY_B

    @property
    def other(self) -> Slot:
        return Slot.B if self is Slot.A else Slot.A


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """A layout in a slot."""

    layout: Layout = Layout()
    slot: Slot = Slot.A

    @classmethod
    def parse(cls, text: str) -> SlotLayout:
        """``sharded:16`` (in slot a) or ``b/sharded:16``."""
        slot, slash, layout = text.rpartition("/")
        if slash and slot not in tuple(Slot):
            raise ConfigError(f"{text!r} names no slot of the recency index: a or b")
        return cls(Layout.parse(layout), Slot(slot) if slash else Slot.A)

    def __str__(self) -> str:
        return f"{self.slot}/{self.layout}"

    def keys(self, at: datetime, conversation_id: str) -> dict[str, str]:
        """The index key attributes of a row."""
        index = self.slot.table_index
        return {index.pk: self.layout.partition(at, conversation_id), index.sk: keys.recency(at, conversation_id)}


@dataclass(frozen=True, slots=True)
class RecencyLayouts:
    """Where rows are written, and where they are read.

    Drain before flip: write both, restamp what is old, verify, then read the new one, then write only that.
    """

    read: SlotLayout = SlotLayout()
    write: tuple[SlotLayout, ...] = (SlotLayout(),)

    def __post_init__(self) -> None:
        if self.read not in self.write:
            raise ConfigError(f"the recency index is read as {self.read}, but not written so: rows would be missed")
        if len({slot_layout.slot for slot_layout in self.write}) < len(self.write):
            raise ConfigError("two recency layouts are written into one slot; give the new one the other slot")

    def keys(self, at: datetime, conversation_id: str) -> dict[str, str]:
        """The index key attributes of a row, for everything that is written."""
        return {
            name: value for slot_layout in self.write for name, value in slot_layout.keys(at, conversation_id).items()
        }

    @property
    def monthly(self) -> bool:
        """Whether writers have to record the months that hold rows."""
        return any(slot_layout.layout.kind is LayoutKind.MONTHLY for slot_layout in self.write)

    @property
    def indexes(self) -> Sequence[Index]:
        return [slot_layout.slot.table_index for slot_layout in self.write]


def month_of(at: datetime) -> str:
    """``2026-11``: the start of the time as text, so months sort as their rows do."""
    return to_text(at)[:7]


def _hash(conversation_id: str) -> int:
    """The same in every process, machine and version."""
    return int.from_bytes(hashlib.blake2b(conversation_id.encode(), digest_size=8).digest())


MAX_AGE = timedelta(seconds=20)


class LayoutSource(Protocol):
    """Where the layouts come from."""

    async def current(self) -> RecencyLayouts: ...


class FixedLayouts:
    """Layouts that do not change."""

    def __init__(self, layouts: RecencyLayouts) -> None:
        self._layouts = layouts

    async def current(self) -> RecencyLayouts:
        return self._layouts


def _both_clocks() -> tuple[float, float]:
    return time.monotonic(), time.time()


class TableLayouts:
    """The layouts in the table, read again after ``max_age``.

    ``clocks``: a monotonic one, and one that continues while the process is suspended.
    """

    def __init__(
        self,
        table: Table,
        *,
        max_age: timedelta = MAX_AGE,
        clocks: Callable[[], tuple[float, float]] = _both_clocks,
    ) -> None:
        self._table = table
        self._max_age = max_age.total_seconds()
        self._clocks = clocks
        self._known: tuple[tuple[float, float], RecencyLayouts] | None = None
        self._reading = asyncio.Lock()

    async def current(self) -> RecencyLayouts:
        """Raises StoreError if the table does not respond, and StoreTooNew for an unknown layout."""
        if (fresh := self._fresh()) is not None:
            return fresh
        async with self._reading:
            if (fresh := self._fresh()) is not None:
                return fresh
            asked = self._clocks()
            layouts = layouts_of(await self._table.get(keys.layout()))
            self._known = asked, layouts
            return layouts

    def _fresh(self) -> RecencyLayouts | None:
        if self._known is None:
            return None
        asked, layouts = self._known
        age = max(now - then for now, then in zip(self._clocks(), asked, strict=True))
        return layouts if age < self._max_age else None


def layouts_of(item: Mapping[str, Any] | None) -> RecencyLayouts:
    """From the item of :func:`keys.layout`; a table without it never changed its layout."""
    if item is None:
        return RecencyLayouts()
    try:
        return RecencyLayouts(SlotLayout.parse(item["read"]), tuple(SlotLayout.parse(text) for text in item["write"]))
    except ConfigError as error:
        raise StoreTooNew(f"the table's recency layout was made by a newer afterturn: {error}; upgrade") from error


def layouts_item(layouts: RecencyLayouts) -> Attributes:
    return {"read": str(layouts.read), "write": [str(layout) for layout in layouts.write]}
