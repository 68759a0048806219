"""The keys of an index, stamped onto the rows that lack them, while the table is in use.

Only key attributes are written, each time on the condition that the row is still as it was read. So a live write is
never undone, a deleted row never comes back, and every part can be done twice. Where it is stopped, it goes on.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from afterturn.aws.table import ENTITY, WORK_ORDER
from afterturn.errors import ConfigError, StoreBusy
from afterturn.store.dynamodb import index_keys, keys
from afterturn.store.dynamodb.index_keys import IndexTarget
from afterturn.store.dynamodb.layout import RecencyLayouts, layouts_of
from afterturn.store.dynamodb.requests import Plain, Query, delete, put
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


WIDTH = 16
"""Writes at a time."""

_REMEMBERED = 200
"""Problems that a checkpoint keeps by name; `aws index verify` names all."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A row whose keys cannot be told."""

    name: str
    why: str

    def to_json(self) -> dict[str, str]:
        return {"id": self.name, "problem": self.why}


@dataclass(slots=True)
class Tally:
    """What became of the rows: ``right`` before, ``stamped``, ``gone`` meanwhile, or with a problem."""

    looked: int = 0
    rows: int = 0
    right: int = 0
    stamped: int = 0
    gone: int = 0
    unnamed: int = 0
    problems: list[Problem] = field(default_factory=list)
    resumed: bool = False

    @property
    def problem_count(self) -> int:
        """With those of an earlier run that were too many to remember by name."""
        return len(self.problems) + self.unnamed

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "right": self.right,
            "stamped": self.stamped,
            "gone": self.gone,
            "problems": [one.to_json() for one in self.problems],
            "problemCount": self.problem_count,
            "resumed": self.resumed,
        }


@dataclass(frozen=True, slots=True)
class BackfillOptions:
    """How a backfill goes about it. ``resume``: from the checkpoint of one that was stopped, if there is one."""

    write: bool = False
    through: Through = Through.SCAN
    pace: Pace = field(default_factory=Pace)
    page: int = PAGE
    resume: bool = True


async def backfill(
    table: Table,
    target: IndexTarget,
    way: BackfillOptions,
    *,
    total: int | None = None,
    told: ReportProgress | None = None,
) -> Tally:
    """Give every row the keys that it should have in an index; without ``way.write`` only count what that would do.

    Raises StoreBusy where the layout of the recency index is changed meanwhile: then run it again.
    """
    run = _Run(table, target, way)
    if way.write and way.resume:
        await run.resume()
    progress = Progress("stamping" if way.write else "looking", total, run.tally.looked)
    progress.begin()
    async for page in pages(table, target, way.through, start=run.start, size=way.page):
        await run.handle(page)
        progress.looked, progress.rows, progress.written = run.tally.looked, run.tally.rows, run.tally.stamped
        if told is not None:
            told(progress)
    return run.tally


async def layout(table: Table) -> RecencyLayouts:
    """Where the table's recency index is written and read, now."""
    return layouts_of(await table.get(keys.layout()))


class _Run:
    def __init__(self, table: Table, target: IndexTarget, way: BackfillOptions) -> None:
        self.tally = Tally()
        self.start: Any = None
        self._table = table
        self._target = target
        self._way = way
        self._slots = asyncio.Semaphore(WIDTH)
        self._months: set[str] = set()
        self._key = keys.operation(f"backfill {target.index.name}")

    async def resume(self) -> None:
        item = await self._table.get(self._key)
        if item is not None and (item["target"], item["through"]) == (str(self._target), self._way.through.value):
            self.start = json.loads(item["start"])
            self.tally = _tally_of(json.loads(item["tally"]))

    async def handle(self, page: Page) -> None:
        """A page is done as a whole before it is remembered as done."""
        if IndexTarget.of(self._target.index, await layout(self._table)) != self._target:
            raise StoreBusy(f"the layout of {self._target.index.name} was changed meanwhile; run it again")
        await _all(self._slots, [self._row(item) for item in page.rows])
        self.tally.looked += page.looked
        self.tally.rows += len(page.rows)
        if self._way.write:
            await self._remember(page.next)

    async def _row(self, item: Plain) -> None:
        seen: list[Plain] = [item]

        async def unit() -> None:
            if not seen:
                again = await self._table.get(index_keys.key_of(item), self._target.names)
                if again is None:
                    self.tally.gone += 1
                    return
                seen.append(again)
            await self._decide(seen.pop())

        await self._table.until_done(unit)

    async def _decide(self, item: Plain) -> None:
        wanted = index_keys.expected_keys(item, self._target)
        if wanted.problem is not None:
            self.tally.problems.append(Problem(index_keys.name_of(item), wanted.problem))
        elif wanted.is_met_by(item):
            self.tally.right += 1
        else:
            if self._way.write:
                await self._way.pace.take()
                await self._note_month(wanted.keys)
                await self._table.write(index_keys.stamp_keys(item, self._target, wanted.keys))
            self.tally.stamped += 1

    async def _note_month(self, wanted: Mapping[str, str | None]) -> None:
        note = index_keys.month(wanted, self._target)
        if note is not None and note.key[1] not in self._months:
            await self._table.write(note)
            self._months.add(note.key[1])

    async def _remember(self, start: Any) -> None:
        if start is None:
            await self._table.write(delete(self._key))
            return
        item = {
            "kind": "checkpoint",
            "target": str(self._target),
            "through": self._way.through.value,
            "start": json.dumps(start),
            "tally": json.dumps(_dump(self.tally)),
        }
        await self._table.write(put(self._key, item))


async def _all(slots: asyncio.Semaphore, units: list[Any]) -> None:
    """All of them, some at a time; the first error stops the rest."""

    async def one(unit: Any) -> None:
        async with slots:
            await unit

    tasks = [asyncio.ensure_future(one(unit)) for unit in units]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for unit in units:
            unit.close()


def _dump(tally: Tally) -> dict[str, Any]:
    """Bounded, since it has to fit into an item."""
    kept = tally.problems[:_REMEMBERED]
    return {
        "looked": tally.looked,
        "rows": tally.rows,
        "right": tally.right,
        "stamped": tally.stamped,
        "gone": tally.gone,
        "unnamed": tally.unnamed + len(tally.problems) - len(kept),
        "problems": [[one.name, one.why] for one in kept],
    }


def _tally_of(dumped: dict[str, Any]) -> Tally:
    problems = [Problem(name, why) for name, why in dumped.pop("problems")]
    return Tally(**dumped, problems=problems, resumed=True)
