"""The current layouts of the recency index, read from the table, so that a layout change reaches every process.

A process uses layouts that it read at most MAX_AGE ago. A layout change waits longer than that between its steps, so
all processes are at the same step or at two neighbouring ones, which agree on every row.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Protocol

from afterturn.errors import ConfigError, StoreTooNew
from afterturn.store.dynamodb import keys
from afterturn.store.dynamodb.attributes import Plain
from afterturn.store.dynamodb.layout import RecencyLayouts, SlotLayout
from afterturn.store.dynamodb.table import Table

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


def layouts_item(layouts: RecencyLayouts) -> Plain:
    return {"read": str(layouts.read), "write": [str(layout) for layout in layouts.write]}
