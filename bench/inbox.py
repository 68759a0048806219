"""Pages of the inbox at 2 thousand, 100 thousand and 1 million conversations, against a fan-out over the properties.

The files are open at the same time and are read in turns, so that what slows the machine down meets all of them. The
first page of the baseline is checked to be the first page of the inbox.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from afterturn.inbox import Inbox, InboxQuery, Page
from afterturn.sqlite.database import Database
from afterturn.store.sqlite import SqliteStore
from bench import fanout, fleet
from bench.measure import Figure, Ratio, Report, figure, percentile, ratio

SIZES = (2_000, 100_000, 1_000_000)
LIMIT = 50
REPEATS = 30
"""Reads of each kind in a round."""

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
    PROPERTY: InboxQuery(limit=LIMIT, properties=("property-007",)),
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
            for one in fleets:
                await _round(one, with_fanout=number < _fanout_rounds(one.size, rounds))
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


async def _round(one: _Fleet, *, with_fanout: bool) -> None:
    for name, query in _QUERIES.items():
        cursor = one.tenth if name == TENTH else None
        one.seconds.setdefault(name, []).append([await _timed(one.inbox.page(query, cursor)) for _ in range(REPEATS)])
    if with_fanout:
        repeats = 1 if one.size > 10_000 else 10
        reads = [_timed_plain(lambda: fanout.newest(one.plain, one.properties, LIMIT)) for _ in range(repeats)]
        one.seconds.setdefault(FANOUT, []).append(reads)


def _fanout_rounds(size: int, rounds: int) -> int:
    """It takes seconds at a million, and differs little from round to round there."""
    return min(rounds, 3) if size > 500_000 else rounds


async def _timed(read: Coroutine[Any, Any, Page]) -> float:
    began = time.perf_counter()
    await read
    return time.perf_counter() - began


def _timed_plain(read: Callable[[], object]) -> float:
    began = time.perf_counter()
    read()
    return time.perf_counter() - began


def _report(fleets: list[_Fleet], built: float) -> Report:
    figures: list[Figure] = []
    ratios: list[Ratio] = []
    tails: dict[str, float] = {}
    medians = {one.size: {name: _medians(rounds) for name, rounds in one.seconds.items()} for one in fleets}
    for one in fleets:
        for name, values in medians[one.size].items():
            figures.append(figure(f"{one.size:>9,}: {name}", "ms", [value * 1e3 for value in values]))
            every = [value for values in one.seconds[name] for value in values]
            tails[f"{one.size}: {name}"] = round(percentile(every, 0.99) * 1e3, 3)
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
        "p99Milliseconds": tails,
        "buildSeconds": round(built, 1),
    }
    return Report("inbox", tuple(figures), tuple(ratios), facts)


def _medians(rounds: list[list[float]]) -> list[float]:
    return [statistics.median(values) for values in rounds]
