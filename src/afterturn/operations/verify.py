"""Whether an index holds what the table says, row by row; what is not so is named.

The table and the index are read one after the other, while both are in use and the index follows the table with some
delay. So whatever looks wrong is looked at again, a few times, before it is called a difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from afterturn.operations import stamps
from afterturn.operations.backfill import Problem
from afterturn.operations.stamps import Target
from afterturn.operations.walking import PAGE, Progress, Through, Told, pages
from afterturn.store.dynamodb.keys import Key
from afterturn.store.dynamodb.requests import Query
from afterturn.store.dynamodb.table import Table

_AT_ONCE = 16


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
class Verdict:
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
class Looks:
    """How often to look again, and the pauses between, in seconds."""

    pauses: tuple[float, ...] = (0, 1, 2, 4)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


async def verify(
    table: Table,
    target: Target,
    *,
    through: Through = Through.SCAN,
    total: int | None = None,
    page: int = PAGE,
    looks: Looks | None = None,
    told: Told | None = None,
) -> Verdict:
    """Compare all of the index with all of the table."""
    looks = looks or Looks()
    verdict = Verdict(target.index.name)
    expected = await _expected(table, target, through, verdict, Progress("reading the table", total), page, told)
    suspects = await _suspects(table, target, expected, Progress("reading the index", None), page, told)
    for pause in looks.pauses:
        if not suspects:
            break
        await looks.sleep(pause)
        suspects = await _look_again(table, target, suspects)
    verdict.differences = [
        Difference(name, drift)
        for name, drift in sorted((one.name, one.drift) for one in suspects.values() if one.drift is not None)
    ]
    return verdict


@dataclass(frozen=True, slots=True)
class _Suspect:
    name: str
    found: tuple[str, str] | None = None
    drift: Drift | None = None


async def _expected(
    table: Table, target: Target, through: Through, verdict: Verdict, progress: Progress, page: int, told: Told | None
) -> dict[Key, tuple[str, str]]:
    expected: dict[Key, tuple[str, str]] = {}
    progress.begin()
    async for one in pages(table, target, through, size=page):
        for item in one.rows:
            verdict.rows += 1
            wanted = stamps.wanted(item, target)
            if wanted.problem is not None:
                verdict.problems.append(Problem(stamps.name_of(item), wanted.problem))
            elif wanted.is_indexed:
                expected[stamps.key_of(item)] = _place(wanted.keys, target)
        progress.looked += one.looked
        progress.rows = verdict.rows
        if told is not None:
            told(progress)
    verdict.wanted = len(expected)
    return expected


async def _suspects(
    table: Table,
    target: Target,
    expected: dict[Key, tuple[str, str]],
    progress: Progress,
    page: int,
    told: Told | None,
) -> dict[Key, _Suspect]:
    """Every row of the index crossed off; what is left, on either side."""
    suspects: dict[Key, _Suspect] = {}
    start: Any = None
    while True:
        found, start, looked = await table.scan(
            ("PK", "SK", target.index.pk, target.index.sk), index=target.index, limit=page, start=start
        )
        for item in found:
            key, place = stamps.key_of(item), _place(item, target)
            if expected.pop(key, None) != place:
                suspects[key] = _Suspect(stamps.name_of(item), place)
        progress.looked += looked
        if told is not None:
            told(progress)
        if start is None:
            break
    for key in expected:
        suspects[key] = _Suspect(f"{key[0]} / {key[1]}")
    return suspects


async def _look_again(table: Table, target: Target, suspects: Mapping[Key, _Suspect]) -> dict[Key, _Suspect]:
    found: dict[Key, _Suspect] = {}
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(key: Key, suspect: _Suspect) -> None:
        async with slots:
            judged = await _judge(table, target, key, suspect)
        if judged.drift is not None:
            found[key] = judged

    await asyncio.gather(*(one(key, suspect) for key, suspect in suspects.items()))
    return found


async def _judge(table: Table, target: Target, key: Key, suspect: _Suspect) -> _Suspect:
    """As the row is now, and as the index has it now."""
    item = await table.get(key, target.names)
    name = suspect.name if item is None else stamps.name_of(item)
    wanted = None if item is None else stamps.wanted(item, target)
    right = _place(wanted.keys, target) if wanted is not None and wanted.is_indexed else None
    elsewhere = (
        suspect.found is not None and suspect.found != right and await _stands(table, target, suspect.found, key)
    )
    if right is None:
        return _Suspect(name, suspect.found, Drift.STRAY if elsewhere else None)
    if await _stands(table, target, right, key):
        return _Suspect(name, suspect.found, None)
    return _Suspect(name, suspect.found, Drift.MISPLACED if elsewhere else Drift.MISSING)


async def _stands(table: Table, target: Target, place: tuple[str, str], key: Key) -> bool:
    """Whether the index shows the row at a place; also where that place's keys are of another kind."""
    if not all(isinstance(one, str) and one for one in place):
        return True
    query = Query(place[0], index=target.index, within=(place[1], place[1]), names=("PK", "SK"))
    return key in [stamps.key_of(one) async for one in table.items(query)]


def _place(item: Mapping[str, Any], target: Target) -> tuple[str, str]:
    return item[target.index.pk], item[target.index.sk]
