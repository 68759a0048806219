"""Requests and read units of the first inbox page on DynamoDB, against a fan-out over the properties.

Two tables in the emulator, of 2 thousand and 100 thousand conversations over 200 properties. Requests are counted
where the client sends them; read units follow from the sizes of the items that came back, by DynamoDB's rules, because
the emulator reports a constant. Neither depends on the machine. Seconds are not shown: the emulator looks through the
whole table for every page, which DynamoDB does not.

The fan-out is the read that ADR-0049 replaced, a query of every property's partition in full (the unassigned one, too),
and beside it a kinder one, which takes from each property no more than a page. Both are checked to find the first page
of the inbox.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from afterturn.aws.session import Access, open_client
from afterturn.aws.table import PROPERTY_RECENCY
from afterturn.backbone import REGISTRATIONS_KEPT
from afterturn.clock import system_clock
from afterturn.inbox import Inbox, InboxQuery
from afterturn.store.dynamodb import DynamoStore, keys
from afterturn.store.dynamodb.layout import TableLayouts
from afterturn.store.dynamodb.requests import Attributes, Query, from_item, item_bytes
from afterturn.store.dynamodb.table import Table
from afterturn.store.port import ConsumerState, Registration
from bench import aws_fleet, servers, units
from bench.measure import Figure, Ratio, Report, figure, ratio

SIZES = (2_000, 100_000)
LIMIT = 50
FIRST, COLD, FAN_OUT, KIND_FAN_OUT = (
    "first page",
    "first page of a new process",
    "fan-out",
    "fan-out, a page of each",
)


@dataclass(slots=True)
class Meter:
    """What a client reads: the operations, in their order, and the read units."""

    operations: list[str] = field(default_factory=list)
    units: float = 0.0

    def watch(self, client: Any) -> None:
        client.meta.events.register("before-parameter-build.dynamodb", self._asked)
        client.meta.events.register("after-call.dynamodb", self._answered)

    def reset(self) -> None:
        self.operations, self.units = [], 0.0

    def _asked(self, params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["consistent"] = params.get("ConsistentRead", False)

    def _answered(self, model: Any, parsed: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        name = model.name
        self.operations.append(name)
        if name == "Query":
            assert parsed["Count"] == parsed["ScannedCount"], "what a filter drops has a size, too"
            self.units += units.of_query(_sizes(parsed["Items"]), consistent=context["consistent"])
        elif name == "GetItem":
            found = [parsed["Item"]] if parsed.get("Item") else []
            self.units += units.of_lookups(_sizes(found) or [0], consistent=context["consistent"])
        else:
            raise AssertionError(f"no rule for the read units of {name}")


@dataclass(frozen=True, slots=True)
class Cost:
    requests: int
    units: float
    operations: tuple[str, ...]


def run(*, rounds: int = 2, folder: Path | None = None, sizes: tuple[int, ...] = SIZES) -> Report:
    """``folder`` is of no use here: the emulator keeps everything in memory."""
    with servers.emulator() as access:
        return asyncio.run(_run(access, rounds, sizes))


async def _run(access: Access, rounds: int, sizes: tuple[int, ...]) -> Report:
    costs: dict[int, dict[str, list[Cost]]] = {}
    loading: dict[str, float] = {}
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(open_client("dynamodb", access))
        for size in sizes:
            began = time.perf_counter()
            await aws_fleet.load(client, _table(size), size)
            await _register(client, _table(size))
            loading[str(size)] = round(time.perf_counter() - began, 1)
        meter = Meter()
        meter.watch(client)
        for size in sizes:
            costs[size] = {name: [] for name in (FIRST, COLD, FAN_OUT, KIND_FAN_OUT)}
        for number in range(rounds):
            for size in sizes:
                await _round(client, _table(size), meter, costs[size], full=number == 0)
    return _report(costs, loading)


def _table(size: int) -> str:
    return f"afterturn-dev-{size}"


async def _register(client: Any, table: str) -> None:
    since = aws_fleet.NOW - timedelta(days=2_000)
    registered = [Registration(name, since, ConsumerState.LIVE, timedelta(minutes=5)) for name in aws_fleet.CONSUMERS]
    await DynamoStore.on(client, table).register(registered)


async def _round(client: Any, name: str, meter: Meter, costs: dict[str, list[Cost]], *, full: bool) -> None:
    """``full``: the fan-out as well, which takes a while and costs the same each time."""
    table = Table(client, name)
    inbox = Inbox(
        DynamoStore(table, layout_source=TableLayouts(table)), system_clock, registrations_kept=REGISTRATIONS_KEPT
    )
    query = InboxQuery(limit=LIMIT)
    found = []
    for kind in (COLD, FIRST):
        meter.reset()
        page = await inbox.page(query)
        costs[kind].append(Cost(len(meter.operations), meter.units, tuple(meter.operations)))
        found.append([row.conversation.id for row in page.rows])
    for kind, limit in ((KIND_FAN_OUT, LIMIT), (FAN_OUT, None)) if full else ():
        meter.reset()
        rows = await _fan_out(table, limit)
        costs[kind].append(Cost(len(meter.operations), meter.units, tuple(meter.operations)))
        found.append([row["id"] for row in rows])
    assert all(one == found[0] for one in found), "the fan-out finds another first page"


async def _fan_out(table: Table, limit: int | None) -> list[Attributes]:
    """The newest page over all properties, property by property."""
    rows: list[Attributes] = []
    names = [None, *map(aws_fleet.property_name, range(aws_fleet.PROPERTIES))]
    for property_id in names:
        query = Query(keys.of_property(property_id), index=PROPERTY_RECENCY, newest_first=True)
        rows += [row async for row in table.items(query, limit)]
    rows.sort(key=lambda row: str(row[PROPERTY_RECENCY.sk]), reverse=True)
    return rows[:LIMIT]


def _report(costs: dict[int, dict[str, list[Cost]]], loading: dict[str, float]) -> Report:
    figures: list[Figure] = []
    for size, kinds in costs.items():
        for kind, found in kinds.items():
            figures.append(figure(f"{size:>7,}: {kind}", "requests", [one.requests for one in found]))
            figures.append(figure(f"{size:>7,}: {kind}", "read units", [one.units for one in found]))
    smallest, largest = min(costs), max(costs)
    ratios: list[Ratio] = [
        ratio(
            f"{size:,}: requests of the {FIRST}",
            _requests(kinds[FIRST]),
            [1.0] * len(kinds[FIRST]),
            aim=1,
            at_most=True,
        )
        for size, kinds in costs.items()
    ]
    small, large = costs[smallest], costs[largest]
    ratios += [
        ratio(
            f"{largest:,} / {smallest:,}: requests",
            _requests(large[FIRST]),
            _requests(small[FIRST]),
            aim=1,
            at_most=True,
        ),
        ratio(f"{largest:,} / {smallest:,}: read units", _units(large[FIRST]), _units(small[FIRST])),
    ]
    for size, kinds in costs.items():
        for kind in (FAN_OUT, KIND_FAN_OUT):
            ratios.append(
                ratio(f"{size:,}: {kind} / {FIRST}, requests", _requests(kinds[kind]), _requests(kinds[FIRST][:1]))
            )
            ratios.append(
                ratio(f"{size:,}: {kind} / {FIRST}, read units", _units(kinds[kind]), _units(kinds[FIRST][:1]))
            )
    return Report(
        "inbox-aws",
        tuple(figures),
        tuple(ratios),
        {
            "properties": aws_fleet.PROPERTIES,
            "rowsPerPage": LIMIT,
            "operations": {kind: found[0].operations for kind, found in large.items() if kind in (FIRST, COLD)},
            "loadingSeconds": loading,
        },
    )


def _sizes(items: Iterable[Any]) -> list[int]:
    return [item_bytes(from_item(item)) for item in items]


def _requests(found: Iterable[Cost]) -> list[float]:
    return [float(one.requests) for one in found]


def _units(found: Iterable[Cost]) -> list[float]:
    return [one.units for one in found]
