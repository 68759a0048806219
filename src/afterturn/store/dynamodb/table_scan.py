"""Every row of an index's kind, page by page, out of the table itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from afterturn.aws.table import ENTITY, WORK_ORDER
from afterturn.errors import ConfigError
from afterturn.store.dynamodb import keys
from afterturn.store.dynamodb.attributes import Plain
from afterturn.store.dynamodb.index_keys import IndexTarget
from afterturn.store.dynamodb.requests import Query
from afterturn.store.dynamodb.table import Table

PAGE = 1_000


class Through(StrEnum):
    """How rows are found: ``scan`` reads the whole table, messages too, and misses nothing; ``entity-index`` reads
    conversations alone, and only those that stand in that index."""

    SCAN = "scan"
    ENTITY = "entity-index"


@dataclass(frozen=True, slots=True)
class Page:
    """``next``: where to go on (None: this was the last one); ``looked``: items that were read for it."""

    rows: list[Plain]
    next: Any
    looked: int


async def pages(
    table: Table, target: IndexTarget, through: Through = Through.SCAN, *, start: Any = None, size: int = PAGE
) -> AsyncIterator[Page]:
    """All pages from ``start``, each row as it is at that moment. Raises ConfigError for a way that can't see them."""
    if through is Through.ENTITY and target.index in (ENTITY, WORK_ORDER):
        raise ConfigError(f"rows of {target.index.name} cannot be found through the entity index; use --through scan")
    one_page = _by_scan if through is Through.SCAN else _by_entity
    while True:
        page = await one_page(table, target, start, size)
        yield page
        if page.next is None:
            return
        start = page.next


async def _by_scan(table: Table, target: IndexTarget, start: Any, size: int) -> Page:
    found, further, looked = await table.scan(target.names, only=target.rows, limit=size, start=start)
    return Page(found, further, looked)


async def _by_entity(table: Table, target: IndexTarget, start: Any, size: int) -> Page:
    ids, further = await table.query(Query(keys.CONVERSATIONS, index=ENTITY), size, start)
    found = await table.get_many((one["PK"], one["SK"]) for one in ids)
    return Page(list(found.values()), further, len(ids))


@dataclass(slots=True)
class Pace:
    """At most ``rate`` a second; as many as come where it is None."""

    rate: float | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _next: float = field(default=0.0, init=False)

    async def take(self) -> None:
        if self.rate is None:
            return
        now = self.clock()
        begin = max(now, self._next)
        self._next = begin + 1 / self.rate
        if begin > now:
            await self.sleep(begin - now)


@dataclass(slots=True)
class Progress:
    """How far a walk is. ``total``: items of the table, by AWS's count of some hours ago; None where it has none."""

    doing: str
    total: int | None
    looked: int = 0
    rows: int = 0
    written: int = 0
    clock: Callable[[], float] = time.monotonic
    _begun: tuple[float, int] | None = field(default=None, init=False)

    def begin(self) -> None:
        self._begun = self.clock(), self.looked

    @property
    def seconds_left(self) -> float | None:
        """By the speed since it began; None while nothing is known."""
        if self._begun is None or self.total is None:
            return None
        begun, before = self._begun
        done, took = self.looked - before, self.clock() - begun
        if done <= 0 or took <= 0:
            return None
        return max(self.total - self.looked, 0) * took / done


ReportProgress = Callable[[Progress], None]
