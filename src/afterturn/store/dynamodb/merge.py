"""Rows of several partitions as one sequence, lazily: no partition is read further than the answer needs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from afterturn.store.dynamodb.attributes import Plain

Fetch = Callable[[int, Any], Awaitable[tuple[list[Plain], Any]]]
"""A page of at most so many rows after a start key (None: the start), and the key to go on from (None: the end)."""

_SPARE_ROWS = 4
"""Shards are rarely hit evenly; a few rows more save most second reads."""


@dataclass(slots=True)
class PartitionRows:
    """One partition, newest first. ``sort_key`` names the attribute that rows are ordered by."""

    fetch: Fetch
    sort_key: str
    _rows: deque[Plain] = field(default_factory=deque)
    _start: Any = None
    _ended: bool = False

    async def fill(self, wanted: int) -> None:
        """Have a row at hand, or know that there is none: an empty page is not the end, only a missing key is."""
        while not self._rows and not self._ended:
            rows, self._start = await self.fetch(wanted, self._start)
            self._rows.extend(rows)
            self._ended = self._start is None

    @property
    def newest(self) -> str | None:
        return self._rows[0][self.sort_key] if self._rows else None

    @property
    def is_spent(self) -> bool:
        return self._ended and not self._rows

    def take(self) -> Plain:
        return self._rows.popleft()


async def merge(groups: Sequence[Sequence[PartitionRows]], limit: int) -> tuple[list[Plain], bool]:
    """The newest ``limit`` rows, and whether these are all.

    Every row of a group is newer than every row of the next; within a group the newest of all its sources comes first.
    """
    rows: list[Plain] = []
    for place, group in enumerate(groups):
        while len(rows) < limit:
            left = limit - len(rows)
            wanted = left if len(group) == 1 else left // len(group) + _SPARE_ROWS
            await asyncio.gather(*(source.fill(wanted) for source in group if source.newest is None))
            filled = [source for source in group if source.newest is not None]
            if not filled:
                break
            rows.append(max(filled, key=lambda source: source.newest or "").take())
        if len(rows) >= limit:
            spent = all(source.is_spent for source in group)
            return rows, spent and place == len(groups) - 1
    return rows, True
