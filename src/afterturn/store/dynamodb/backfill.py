"""Backfills the keys of an index: gives them to the rows that lack them, while the table is in use.

Only key attributes are written, each time on the condition that the row is still as it was read. So a live write is
never undone, a deleted row never comes back, and every part can be repeated. A stopped run continues where it stopped.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from afterturn.aws.table import ENTITY, WORK_ORDER
from afterturn.errors import ConfigError, StoreBusy
from afterturn.store.dynamodb import index_keys, keys
from afterturn.store.dynamodb.index_keys import IndexTarget
from afterturn.store.dynamodb.layout import RecencyLayouts, layouts_of
from afterturn.store.dynamodb.requests import Attributes, Query, delete, put
from afterturn.store.dynamodb.table import Table

T = TypeVar("T")

PAGE = 1_000

CONCURRENCY = 16
"""Requests for single rows at the same time."""

_REMEMBERED = 200
"""Problems that a checkpoint keeps by name; `aws index verify` names all."""


class Through(StrEnum):
    """How rows are found: ``scan`` reads the whole table, messages too, and misses nothing; ``entity-index`` reads
    conversations only, and only those that are in that index."""

    SCAN = "scan"
    ENTITY = "entity-index"


@dataclass(slots=True)
class Pace:
    """A limit of ``rate`` writes a second; None: no limit."""

    rate: float | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _next: float = field(default=0.0, init=False)

    async def take(self) -> None:
        """Wait until the next write is allowed."""
        if self.rate is None:
            return
        now = self.clock()
        begin = max(now, self._next)
        self._next = begin + 1 / self.rate
        if begin > now:
            await self.sleep(begin - now)


@dataclass(slots=True)
class Progress:
    """How far a run is. ``total``: items of the table, as AWS counted them some hours ago; None if AWS has not."""

    doing: str
    total: int | None
    looked: int = 0
    rows: int = 0
    written: int = 0
    clock: Callable[[], float] = time.monotonic
    _begun: tuple[float, int] = field(init=False)

    def __post_init__(self) -> None:
        self._begun = self.clock(), self.looked

    @property
    def seconds_left(self) -> float | None:
        """By the speed so far; None while nothing is known."""
        begun, before = self._begun
        done, took = self.looked - before, self.clock() - begun
        if self.total is None or done <= 0 or took <= 0:
            return None
        return max(self.total - self.looked, 0) * took / done


ReportProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Problem:
    """A row whose keys cannot be derived."""

    name: str
    why: str

    def to_json(self) -> dict[str, str]:
        return {"id": self.name, "problem": self.why}


@dataclass(slots=True)
class Tally:
    """What became of the rows: ``right`` before, ``stamped``, ``gone`` meanwhile, or with a problem.

    ``unnamed``: problems of an earlier run that were too many to remember by name.
    """

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
        return len(self.problems) + self.unnamed

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "right": self.right,
            "stamped": self.stamped,
            "gone": self.gone,
            "problems": [problem.to_json() for problem in self.problems],
            "problemCount": self.problem_count,
            "resumed": self.resumed,
        }


@dataclass(frozen=True, slots=True)
class BackfillOptions:
    """``write``: false only counts. ``page``: items a read. ``resume``: continue from the checkpoint of a stopped
    run, if there is one."""

    write: bool = False
    through: Through = Through.SCAN
    pace: Pace = field(default_factory=Pace)
    page: int = PAGE
    resume: bool = True


async def backfill(
    table: Table,
    target: IndexTarget,
    options: BackfillOptions,
    *,
    total: int | None = None,
    report: ReportProgress = lambda progress: None,
) -> Tally:
    """Give every row the keys that it should have in an index; without ``options.write``, count what that would change.

    Raises StoreBusy if the layout of the recency index is changed meanwhile: then run it again.
    """
    run = _Backfill(table, target, options)
    if options.write and options.resume:
        await run.resume()
    tally = run.tally
    progress = Progress("stamping" if options.write else "counting", total, tally.looked)
    async for page in pages(table, target, options.through, start=run.start, size=options.page):
        await run.handle(page)
        progress.looked, progress.rows, progress.written = tally.looked, tally.rows, tally.stamped
        report(progress)
    return tally


async def layout(table: Table) -> RecencyLayouts:
    """The layouts in which the table's recency index is written and read now."""
    return layouts_of(await table.get(keys.layout()))


@dataclass(frozen=True, slots=True)
class Page:
    """Rows of a table. ``next``: the key to continue from (None: this is the end); ``looked``: items that were read."""

    rows: list[Attributes]
    next: Any
    looked: int


async def pages(
    table: Table, target: IndexTarget, through: Through = Through.SCAN, *, start: Any = None, size: int = PAGE
) -> AsyncIterator[Page]:
    """The rows that belong to an index, read from the table. Raises ConfigError if ``through`` cannot find them."""
    if through is Through.ENTITY and target.index in (ENTITY, WORK_ORDER):
        raise ConfigError(f"rows of {target.index.name} cannot be found through the entity index; use --through scan")
    while True:
        if through is Through.SCAN:
            rows, start, looked = await table.scan(target.names, only=target.rows, limit=size, start=start)
        else:
            ids, start = await table.query(Query(keys.CONVERSATIONS, index=ENTITY), size, start)
            rows, looked = list((await table.get_many(map(index_keys.key_of, ids))).values()), len(ids)
        yield Page(rows, start, looked)
        if start is None:
            return


async def for_each(items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Do ``work`` for each item, some at a time; the first error stops the rest."""
    remaining = iter(items)

    async def worker() -> None:
        for item in remaining:
            await work(item)

    workers = [asyncio.ensure_future(worker()) for _ in range(CONCURRENCY)]
    try:
        await asyncio.gather(*workers)
    finally:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


class _Backfill:
    def __init__(self, table: Table, target: IndexTarget, options: BackfillOptions) -> None:
        self.tally = Tally()
        self.start: Any = None
        self._table = table
        self._target = target
        self._options = options
        self._months: set[str] = set()
        self._checkpoint = keys.operation(f"backfill {target.index.name}")

    async def resume(self) -> None:
        item = await self._table.get(self._checkpoint)
        if item is not None and (item["target"], item["through"]) == (str(self._target), self._options.through.value):
            self.start = json.loads(item["start"])
            stored = json.loads(item["tally"])
            problems = [Problem(**problem) for problem in stored.pop("problems")]
            self.tally = Tally(**stored | {"problems": problems, "resumed": True})

    async def handle(self, page: Page) -> None:
        """A page is remembered as done only after all of it is done."""
        if IndexTarget.of(self._target.index, await layout(self._table)) != self._target:
            raise StoreBusy(f"the layout of {self._target.index.name} was changed meanwhile; run it again")
        await for_each(page.rows, self._row)
        self.tally.looked += page.looked
        self.tally.rows += len(page.rows)
        if self._options.write:
            await self._remember(page.next)

    async def _row(self, item: Attributes) -> None:
        """Stamp a row if its keys are not right; read it again if it changed meanwhile."""
        latest: Attributes | None = item

        async def unit() -> None:
            nonlocal latest
            row = latest or await self._table.get(index_keys.key_of(item), self._target.names)
            latest = None
            if row is None:
                self.tally.gone += 1
                return
            expected = index_keys.expected_keys(row, self._target)
            if expected.problem is not None:
                self.tally.problems.append(Problem(index_keys.name_of(row), expected.problem))
            elif expected.is_met_by(row):
                self.tally.right += 1
            else:
                if self._options.write:
                    await self._options.pace.take()
                    await self._record_month(expected.keys)
                    await self._table.write(index_keys.stamp_keys(row, self._target, expected.keys))
                self.tally.stamped += 1

        await self._table.until_done(unit)

    async def _record_month(self, item_keys: Mapping[str, str | None]) -> None:
        month = index_keys.month(item_keys, self._target)
        if month is not None and month.key[1] not in self._months:
            await self._table.write(month)
            self._months.add(month.key[1])

    async def _remember(self, start: Any) -> None:
        if start is None:
            await self._table.write(delete(self._checkpoint))
            return
        named = self.tally.problems[:_REMEMBERED]  # the checkpoint has to fit into an item
        tally = replace(self.tally, problems=named, unnamed=self.tally.problem_count - len(named))
        item = {
            "kind": "checkpoint",
            "target": str(self._target),
            "through": self._options.through.value,
            "start": json.dumps(start),
            "tally": json.dumps(asdict(tally)),
        }
        await self._table.write(put(self._checkpoint, item))
