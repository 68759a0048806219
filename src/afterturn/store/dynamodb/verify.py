"""Verifies an index: whether it holds what the table says, row by row; every difference is named.

The table and the index are read one after the other, while both are in use and the index follows the table with some
delay. So whatever looks wrong is checked again a few times before it is reported as a difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from afterturn.store.dynamodb import index_keys
from afterturn.store.dynamodb.backfill import PAGE, Page, Problem, Progress, ReportProgress, Through, for_each, pages
from afterturn.store.dynamodb.index_keys import IndexTarget
from afterturn.store.dynamodb.keys import Key
from afterturn.store.dynamodb.requests import Query
from afterturn.store.dynamodb.table import Table

_FEW = 20
"""So many rows, or one in a hundred, are queried one by one; for more of them the index is read again."""

IndexEntry = tuple[Any, Any]
"""The key attributes of a row in an index."""


class Drift(StrEnum):
    """``missing``: not in the index; ``misplaced``: in it, but elsewhere; ``stray``: in it, but should not be."""

    MISSING = "missing"
    MISPLACED = "misplaced"
    STRAY = "stray"


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    name: str
    drift: Drift

    def to_json(self) -> dict[str, str]:
        return {"id": self.name, "drift": self.drift.value}


@dataclass(slots=True)
class IndexReport:
    """``rows``: of the table; ``expected``: those that should be in the index; ``indexed``: those that rightly are."""

    index: str
    rows: int = 0
    expected: int = 0
    differences: list[Difference] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def indexed(self) -> int:
        return self.expected - sum(difference.drift is not Drift.STRAY for difference in self.differences)

    @property
    def clean(self) -> bool:
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "rows": self.rows,
            "expected": self.expected,
            "indexed": self.indexed,
            "differences": [difference.to_json() for difference in self.differences],
            "problems": [problem.to_json() for problem in self.problems],
            "clean": self.clean,
        }


@dataclass(frozen=True, slots=True)
class Rechecks:
    """How often to check again: the pause before each, in seconds."""

    pauses: tuple[float, ...] = (0, 1, 3)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


async def verify(
    table: Table,
    target: IndexTarget,
    *,
    through: Through = Through.SCAN,
    total: int | None = None,
    page: int = PAGE,
    rechecks: Rechecks | None = None,
    report: ReportProgress = lambda progress: None,
) -> IndexReport:
    """Compare all of the index with all of the table.

    Raises StoreForeign if the table has no such index, and StoreBusy while it is being created.
    """
    await table.check([target.index])
    rechecks = rechecks or Rechecks()
    result = IndexReport(target.index.name)
    expected: dict[Key, IndexEntry] = {}
    progress = Progress("reading the table", total)
    async for part in pages(table, target, through, size=page):
        for item in part.rows:
            row = index_keys.expected_keys(item, target)
            if row.problem is not None:
                result.problems.append(Problem(index_keys.name_of(item), row.problem))
            elif row.is_indexed:
                expected[index_keys.key_of(item)] = _entry(row.keys, target)
        progress.looked += part.looked
        progress.rows = result.rows = result.rows + len(part.rows)
        report(progress)
    result.expected = len(expected)

    suspects: dict[Key, _Suspect] = {}
    progress = Progress("reading the index", None)
    async for part in _index_pages(table, target, page):
        for item in part.rows:
            key, entry = index_keys.key_of(item), _entry(item, target)
            if expected.pop(key, None) != entry:
                suspects[key] = _Suspect(index_keys.name_of(item), entry)
        progress.looked += part.looked
        report(progress)
    suspects |= {key: _Suspect(" / ".join(key)) for key in expected}

    few = max(_FEW, result.rows // 100)
    for pause in rechecks.pauses:
        if not suspects:
            break
        await rechecks.sleep(pause)
        suspects = await _recheck(table, target, suspects, few)
    result.differences = sorted(Difference(each.name, each.drift) for each in suspects.values() if each.drift)
    return result


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A row that looks wrong. ``seen``: its entry in the index when the index was read."""

    name: str
    seen: IndexEntry | None = None
    drift: Drift | None = None


async def _index_pages(table: Table, target: IndexTarget, size: int) -> AsyncIterator[Page]:
    start: Any = None
    names = "PK", "SK", target.index.pk, target.index.sk
    while True:
        items, start, looked = await table.scan(names, index=target.index, limit=size, start=start)
        yield Page(items, start, looked)
        if start is None:
            return


async def _recheck(
    table: Table, target: IndexTarget, suspects: Mapping[Key, _Suspect], few: int
) -> dict[Key, _Suspect]:
    """The suspects that are still wrong, by the rows and the index as they are now."""
    items = await table.get_many(suspects)
    expected = {
        key: _entry(row.keys, target)
        for key, item in items.items()
        if (row := index_keys.expected_keys(item, target)).is_indexed
    }
    query_each = len(suspects) <= few
    entries = await (
        _query_entries(table, target, suspects, expected) if query_each else _scan_entries(table, target, suspects)
    )
    still_wrong: dict[Key, _Suspect] = {}
    for key, suspect in suspects.items():
        if (drift := _drift(expected.get(key), entries.get(key, ()))) is not None:
            name = index_keys.name_of(items[key]) if key in items else suspect.name
            still_wrong[key] = _Suspect(name, suspect.seen, drift)
    return still_wrong


def _drift(expected: IndexEntry | None, entries: Collection[IndexEntry]) -> Drift | None:
    if expected is None:
        return Drift.STRAY if entries else None
    if expected in entries:
        return None
    return Drift.MISPLACED if entries else Drift.MISSING


async def _query_entries(
    table: Table, target: IndexTarget, suspects: Mapping[Key, _Suspect], expected: Mapping[Key, IndexEntry]
) -> dict[Key, set[IndexEntry]]:
    """The entries of each row in the index, of where it was seen and where it belongs: one query for each."""
    entries: dict[Key, set[IndexEntry]] = {key: set() for key in suspects}

    async def query(candidate: tuple[Key, IndexEntry]) -> None:
        key, (partition, sort_key) = candidate
        if not all(isinstance(part, str) and part for part in (partition, sort_key)):
            entries[key].add((partition, sort_key))  # no query can select a key of another type
            return
        exact = Query(partition, index=target.index, within=(sort_key, sort_key), names=("PK", "SK"))
        if key in [index_keys.key_of(item) async for item in table.items(exact)]:
            entries[key].add((partition, sort_key))

    candidates = {
        (key, entry) for key, each in suspects.items() for entry in (each.seen, expected.get(key)) if entry is not None
    }
    await for_each(candidates, query)
    return entries


async def _scan_entries(table: Table, target: IndexTarget, suspects: Collection[Key]) -> dict[Key, set[IndexEntry]]:
    """The same by reading the whole index: cheaper if many rows are suspect."""
    entries: dict[Key, set[IndexEntry]] = {}
    async for page in _index_pages(table, target, PAGE):
        for item in page.rows:
            if (key := index_keys.key_of(item)) in suspects:
                entries.setdefault(key, set()).add(_entry(item, target))
    return entries


def _entry(item: Mapping[str, Any], target: IndexTarget) -> IndexEntry:
    return item[target.index.pk], item[target.index.sk]
