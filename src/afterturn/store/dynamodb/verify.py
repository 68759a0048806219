"""Whether an index holds what the table says, row by row; what is not so is named.

The table and the index are read one after the other, while both are in use and the index follows the table with some
delay. So whatever looks wrong is looked at again, a few times, before it is called a difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from afterturn.store.dynamodb import index_keys
from afterturn.store.dynamodb.backfill import PAGE, Problem, Progress, ReportProgress, Through, pages
from afterturn.store.dynamodb.index_keys import IndexTarget
from afterturn.store.dynamodb.keys import Key
from afterturn.store.dynamodb.requests import Query
from afterturn.store.dynamodb.table import Table

_AT_ONCE = 16

_FEW = 20
"""So many rows, or one in a hundred, are asked for one by one; for more of them the index is read again."""

IndexPlace = tuple[str, str]
"""The key attributes of a row in an index."""


class Drift(StrEnum):
    """``missing``: not in the index; ``misplaced``: there, but elsewhere; ``stray``: there, but should not be."""

    MISSING = "missing"
    MISPLACED = "misplaced"
    STRAY = "stray"


@dataclass(frozen=True, slots=True)
class Difference:
    name: str
    drift: Drift

    def to_json(self) -> dict[str, str]:
        return {"id": self.name, "drift": self.drift.value}


@dataclass(slots=True)
class IndexReport:
    """``rows``: of the table; ``wanted``: those that should be in the index; ``indexed``: those that are, rightly."""

    index: str
    rows: int = 0
    wanted: int = 0
    differences: list[Difference] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def indexed(self) -> int:
        return self.wanted - sum(one.drift is not Drift.STRAY for one in self.differences)

    @property
    def clean(self) -> bool:
        return not self.differences

    def to_json(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "rows": self.rows,
            "wanted": self.wanted,
            "indexed": self.indexed,
            "differences": [one.to_json() for one in self.differences],
            "problems": [one.to_json() for one in self.problems],
            "clean": self.clean,
        }


@dataclass(frozen=True, slots=True)
class Rechecks:
    """How often to look again, and the pauses between, in seconds."""

    pauses: tuple[float, ...] = (0, 1, 3)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


async def verify(
    table: Table,
    target: IndexTarget,
    *,
    through: Through = Through.SCAN,
    total: int | None = None,
    page: int = PAGE,
    looks: Rechecks | None = None,
    told: ReportProgress | None = None,
) -> IndexReport:
    """Compare all of the index with all of the table.

    Raises StoreForeign where there is no such index, and StoreBusy while it is being made.
    """
    await table.check([target.index])
    looks = looks or Rechecks()
    verdict = IndexReport(target.index.name)
    expected = await _expected(table, target, through, verdict, Progress("reading the table", total), page, told)
    suspects = await _suspects(table, target, expected, Progress("reading the index", None), page, told)
    few = max(_FEW, verdict.rows // 100)
    for pause in looks.pauses:
        if not suspects:
            break
        await looks.sleep(pause)
        suspects = await _look_again(table, target, suspects, few)
    verdict.differences = [
        Difference(name, drift)
        for name, drift in sorted((one.name, one.drift) for one in suspects.values() if one.drift is not None)
    ]
    return verdict


@dataclass(frozen=True, slots=True)
class _Suspect:
    name: str
    found: IndexPlace | None = None
    drift: Drift | None = None


async def _expected(
    table: Table,
    target: IndexTarget,
    through: Through,
    verdict: IndexReport,
    progress: Progress,
    page: int,
    told: ReportProgress | None,
) -> dict[Key, IndexPlace]:
    expected: dict[Key, IndexPlace] = {}
    progress.begin()
    async for one in pages(table, target, through, size=page):
        for item in one.rows:
            verdict.rows += 1
            wanted = index_keys.expected_keys(item, target)
            if wanted.problem is not None:
                verdict.problems.append(Problem(index_keys.name_of(item), wanted.problem))
            elif wanted.is_indexed:
                expected[index_keys.key_of(item)] = _place(wanted.keys, target)
        progress.looked += one.looked
        progress.rows = verdict.rows
        if told is not None:
            told(progress)
    verdict.wanted = len(expected)
    return expected


async def _suspects(
    table: Table,
    target: IndexTarget,
    expected: dict[Key, IndexPlace],
    progress: Progress,
    page: int,
    told: ReportProgress | None,
) -> dict[Key, _Suspect]:
    """Every row of the index crossed off; what is left, on either side."""
    suspects: dict[Key, _Suspect] = {}
    start: Any = None
    while True:
        found, start, looked = await table.scan(_names(target), index=target.index, limit=page, start=start)
        for item in found:
            key, place = index_keys.key_of(item), _place(item, target)
            if expected.pop(key, None) != place:
                suspects[key] = _Suspect(index_keys.name_of(item), place)
        progress.looked += looked
        if told is not None:
            told(progress)
        if start is None:
            break
    for key in expected:
        suspects[key] = _Suspect(f"{key[0]} / {key[1]}")
    return suspects


async def _look_again(
    table: Table, target: IndexTarget, suspects: Mapping[Key, _Suspect], few: int
) -> dict[Key, _Suspect]:
    """As the rows are now, and as the index has them now."""
    items = await table.get_many(suspects)
    right = {key: wanted for key, item in items.items() if (wanted := _right_place(item, target)) is not None}
    if len(suspects) <= few:
        standing = await _asked(table, target, suspects, right)
    else:
        standing = await _scanned(table, target, suspects)
    found: dict[Key, _Suspect] = {}
    for key, suspect in suspects.items():
        drift = _judge(right.get(key), standing.get(key, set()))
        if drift is not None:
            found[key] = _Suspect(
                index_keys.name_of(items[key]) if key in items else suspect.name, suspect.found, drift
            )
    return found


def _judge(right: IndexPlace | None, standing: Collection[IndexPlace]) -> Drift | None:
    if right is None:
        return Drift.STRAY if standing else None
    if right in standing:
        return None
    return Drift.MISPLACED if standing else Drift.MISSING


async def _asked(
    table: Table, target: IndexTarget, suspects: Mapping[Key, _Suspect], right: Mapping[Key, IndexPlace]
) -> dict[Key, set[IndexPlace]]:
    """Where the index shows each row, among where it was seen and where it belongs: one query for each."""
    standing: dict[Key, set[IndexPlace]] = {key: set() for key in suspects}

    async def ask(key: Key, place: IndexPlace) -> None:
        if not all(isinstance(one, str) and one for one in place):
            standing[key].add(place)  # of a kind that no query can ask for
            return
        query = Query(place[0], index=target.index, within=(place[1], place[1]), names=("PK", "SK"))
        if key in [index_keys.key_of(one) async for one in table.items(query)]:
            standing[key].add(place)

    slots = asyncio.Semaphore(_AT_ONCE)

    async def in_turn(key: Key, place: IndexPlace) -> None:
        async with slots:
            await ask(key, place)

    places = {(key, place) for key, one in suspects.items() for place in (one.found, right.get(key)) if place}
    await asyncio.gather(*(in_turn(key, place) for key, place in places))
    return standing


async def _scanned(table: Table, target: IndexTarget, suspects: Collection[Key]) -> dict[Key, set[IndexPlace]]:
    """The same, by reading the whole index: cheaper where many are suspect."""
    standing: dict[Key, set[IndexPlace]] = {}
    start: Any = None
    while True:
        found, start, _ = await table.scan(_names(target), index=target.index, limit=PAGE, start=start)
        for item in found:
            if (key := index_keys.key_of(item)) in suspects:
                standing.setdefault(key, set()).add(_place(item, target))
        if start is None:
            return standing


def _right_place(item: Mapping[str, Any], target: IndexTarget) -> IndexPlace | None:
    wanted = index_keys.expected_keys(item, target)
    return _place(wanted.keys, target) if wanted.is_indexed else None


def _names(target: IndexTarget) -> tuple[str, ...]:
    return "PK", "SK", target.index.pk, target.index.sk


def _place(item: Mapping[str, Any], target: IndexTarget) -> IndexPlace:
    return item[target.index.pk], item[target.index.sk]
