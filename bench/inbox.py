"""Pages of the inbox at 2 thousand, 100 thousand and 1 million conversations, against a fan-out over the properties.

The files are open at the same time and are read in turns, page by page, so that what slows the machine down meets all
of them. The first page of the baseline is checked to be the first page of the inbox.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from afterturn.inbox import Inbox, InboxPage, InboxQuery
from afterturn.sqlite.database import Database
from afterturn.store.sqlite import SqliteStore
from bench import fanout, fleet
from bench.measure import Figure, Ratio, Report, figure, percentile, ratio

SIZES = (2_000, 100_000, 1_000_000)
LIMIT = 50
REPEATS = 30
"""Reads of each kind and size in a round."""
FANOUTS = 3
"""Rounds with a fan-out at a million conversations: it takes seconds there."""

FIRST, TENTH, TOPIC, OWED, PROPERTY, FANOUT = (
    "first page",
    "tenth page",
    "page of a topic (5%)",
    "page of what is owed (2%)",
    "page of one property",
    "fan-out, first page",
)
_QUERIES = {
    FIRST: InboxQuery(limit=LIMIT),
    TENTH: InboxQuery(limit=LIMIT),
    TOPIC: InboxQuery(limit=LIMIT, topics=(fleet.RARE_TOPIC,)),
    OWED: InboxQuery(limit=LIMIT, owed=("any",)),
    PROPERTY: InboxQuery(limit=LIMIT, properties=("property-001",)),
}


@dataclass(slots=True)
class _Fleet:
    """One size: its inbox, the baseline's connection, and the seconds of every read, round by round."""

    size: int
    inbox: Inbox
    plain: sqlite3.Connection
    properties: list[str | None]
    tenth: str | None = None
    scanned: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, list[list[float]]] = field(default_factory=dict)


def run(*, rounds: int = 5, folder: Path | None = None, sizes: tuple[int, ...] = SIZES) -> Report:
    return asyncio.run(_run(rounds, folder, sizes))


async def _run(rounds: int, folder: Path | None, sizes: tuple[int, ...]) -> Report:
    building = time.perf_counter()
    paths = {size: fleet.database(size, folder) for size in sizes}
    built = time.perf_counter() - building
    async with AsyncExitStack() as stack:
        fleets = []
        for size, path in paths.items():
            database = stack.enter_context(Database.open(path))
            plain = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
            stack.callback(plain.close)
            plain.execute("PRAGMA cache_size = -32000")
            inbox = Inbox(SqliteStore(database), lambda: datetime(2026, 11, 30, 12, tzinfo=UTC))
            fleets.append(_Fleet(size, inbox, plain, fanout.properties(plain)))
        for one in fleets:
            await _prepare(one)
        for number in range(rounds):
            await _round(fleets, number)
    return _report(fleets, built)


async def _prepare(one: _Fleet) -> None:
    """Warm up, find the cursor of the tenth page, and check the baseline's page against ours."""
    for name, query in _QUERIES.items():
        for _ in range(3):
            page = await one.inbox.page(query)
        assert page.complete, f"{name}: the read budget was too small"
        one.scanned[name] = page.scanned
    page = await one.inbox.page(_QUERIES[FIRST])
    theirs = [row[0] for row in fanout.newest(one.plain, one.properties, LIMIT)]
    assert theirs == [row.conversation.id for row in page.rows], "the fan-out finds another first page"
    for _ in range(8):
        page = await one.inbox.page(_QUERIES[FIRST], page.next_cursor)
    one.tenth = page.next_cursor


async def _round(fleets: list[_Fleet], number: int) -> None:
    """Every kind of page, one read of each size after the other; then the fan-out, which empties every cache."""
    for name, query in _QUERIES.items():
        for one in fleets:
            one.seconds.setdefault(name, []).append([])
        for _ in range(REPEATS):
            for one in fleets:
                cursor = one.tenth if name == TENTH else None
                one.seconds[name][-1].append(await _timed(one.inbox.page(query, cursor)))
    for one in fleets:
        if one.size < 500_000 or number < FANOUTS:
            repeats = 1 if one.size > 10_000 else 10
            one.seconds.setdefault(FANOUT, []).append([_fan_out(one) for _ in range(repeats)])


async def _timed(read: Coroutine[Any, Any, InboxPage]) -> float:
    began = time.perf_counter()
    await read
    return time.perf_counter() - began


def _fan_out(one: _Fleet) -> float:
    began = time.perf_counter()
    fanout.newest(one.plain, one.properties, LIMIT)
    return time.perf_counter() - began


def _report(fleets: list[_Fleet], built: float) -> Report:
    figures: list[Figure] = []
    ratios: list[Ratio] = []
    medians = {one.size: {name: _medians(rounds) for name, rounds in one.seconds.items()} for one in fleets}
    for one in fleets:
        for name, values in medians[one.size].items():
            every = [value * 1e3 for reads in one.seconds[name] for value in reads]
            found = figure(f"{one.size:>9,}: {name}", "ms", [value * 1e3 for value in values])
            figures.append(replace(found, p99=percentile(every, 0.99)))
    smallest, largest = fleets[0].size, fleets[-1].size
    for one in fleets:
        mine = medians[one.size]
        aim = 50.0 if one.size == largest else None
        ratios.append(
            ratio(f"{one.size:,}: fan-out / first page", mine[FANOUT], mine[FIRST][: len(mine[FANOUT])], aim=aim)
        )
    for name in _QUERIES:
        aim = 1.3 if name == FIRST else None
        label = f"{name}: {largest:,} / {smallest:,}"
        ratios.append(ratio(label, medians[largest][name], medians[smallest][name], aim=aim, at_most=True))
    facts = {
        "properties": fleet.PROPERTIES,
        "rowsPerPage": LIMIT,
        "scanned": {str(one.size): one.scanned for one in fleets},
        "buildSeconds": round(built, 1),
    }
    return Report("inbox", tuple(figures), tuple(ratios), facts)


def _medians(rounds: list[list[float]]) -> list[float]:
    return [statistics.median(values) for values in rounds]
