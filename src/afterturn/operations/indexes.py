"""An index of the table, added and waited for.

An index is ready when it is itself active and no longer backfilling; the table's state says nothing of that. AWS makes
one index at a time. It goes on with one that it has begun, whoever waits for it, so waiting can be taken up again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from afterturn.aws.errors import translated
from afterturn.aws.table import INDEXES, RECENCY_B, Index
from afterturn.errors import NotFound, StoreBusy, StoreForeign

KNOWN = (*INDEXES, RECENCY_B)


class Act(StrEnum):
    """What to do about an index."""

    CREATE = "create"
    WAIT = "wait"
    NOTHING = "unchanged"


class TimedOut(StoreBusy):
    """It was waited for as long as was allowed; AWS goes on with it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an index is: AWS tells nothing but its state and a count that it renews every six hours."""

    index: str
    status: str
    backfilling: bool
    waited: float


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for AWS, in seconds, and how often to look."""

    timeout: float = 3_600
    every: float = 5
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


def named(name: str) -> Index:
    """Raises NotFound for an index that afterturn does not know."""
    for one in KNOWN:
        if one.name == name:
            return one
    raise NotFound(f"there is no index {name!r}; there are {', '.join(one.name for one in KNOWN)}")


def decide(description: Mapping[str, Any], wanted: Index) -> Act:
    """By what DescribeTable says, pure.

    Raises StoreForeign where the index is there with other keys, and StoreBusy while the table or another index is
    being changed.
    """
    table = description["TableName"]
    there = {one["IndexName"]: one for one in description.get("GlobalSecondaryIndexes", ())}
    found = there.pop(wanted.name, None)
    if found is not None:
        _check_make(table, found, wanted)
        if found.get("IndexStatus") == "DELETING":
            raise StoreBusy(f"index {wanted.name} of table {table} is being deleted; run it again later")
        return Act.NOTHING if is_ready(found) else Act.WAIT
    for other in there.values():
        if not is_ready(other):
            raise StoreBusy(
                f"index {other['IndexName']} of table {table} is {_state(other)}; AWS changes one index at a time: "
                f"wait for it, with `afterturn aws index add {other['IndexName']}` where it is being made"
            )
    if description.get("TableStatus") != "ACTIVE":
        raise StoreBusy(f"table {table} is {description.get('TableStatus')}; run it again when it is ACTIVE")
    types = {one["AttributeName"]: one["AttributeType"] for one in description.get("AttributeDefinitions", ())}
    for key in (wanted.pk, wanted.sk):
        if types.get(key, "S") != "S":
            raise StoreForeign(
                f"table {table} defines {key} as {types[key]}, not as text: an index of it is in the way"
            )
    return Act.CREATE


def is_ready(index: Mapping[str, Any]) -> bool:
    return index.get("IndexStatus") in ("ACTIVE", "UPDATING") and not index.get("Backfilling")


def creation(description: Mapping[str, Any], wanted: Index) -> dict[str, Any]:
    """The parameters of UpdateTable: this one index and nothing else."""
    definition = wanted.definition()
    if description.get("BillingModeSummary", {}).get("BillingMode") != "PAY_PER_REQUEST":
        units = description.get("ProvisionedThroughput", {})
        given = {key: units[key] for key in ("ReadCapacityUnits", "WriteCapacityUnits") if units.get(key)}
        if given:
            definition["ProvisionedThroughput"] = given
    return {
        "TableName": description["TableName"],
        "AttributeDefinitions": [
            {"AttributeName": key, "AttributeType": "S"} for key in ("PK", "SK", wanted.pk, wanted.sk)
        ],
        "GlobalSecondaryIndexUpdates": [{"Create": definition}],
    }


async def add(
    client: Any,
    table: str,
    wanted: Index,
    patience: Patience | None = None,
    told: Callable[[Progress], None] = lambda progress: None,
) -> Act:
    """Have the index, ready to be read; returns what had to be done. ``told`` hears of each look.

    Raises TimedOut, and what :func:`decide` raises.
    """
    patience = patience or Patience()
    description = await _describe(client, table)
    act = decide(description, wanted)
    if act is Act.NOTHING:
        return act
    if act is Act.CREATE:
        with translated(f"index {wanted.name} of table {table}"):
            await client.update_table(**creation(description, wanted))
    await _wait(client, table, wanted, patience, told)
    return act


@dataclass(frozen=True, slots=True)
class Standing:
    """How an index stands. ``items``: by a count that AWS renews every six hours; none where there is no index.

    ``state``: ``ready``; ``missing``; ``not needed`` (it is there only while a layout changes); AWS's own word; what is
    wrong with its make; or ``not afterturn's``.
    """

    name: str
    state: str
    holds: str
    items: int | None

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "state": self.state, "holds": self.holds, "items": self.items}


async def listed(client: Any, table: str) -> tuple[Standing, ...]:
    """Every index that afterturn knows, then any other that the table has."""
    return standings(await _describe(client, table))


def standings(description: Mapping[str, Any]) -> tuple[Standing, ...]:
    """By what DescribeTable says, pure."""
    there = {one["IndexName"]: one for one in description.get("GlobalSecondaryIndexes", ())}
    ours = [_standing(str(description["TableName"]), one, there.pop(one.name, None)) for one in KNOWN]
    rest = [
        Standing(name, "not afterturn's", _HOLDS.get(one["Projection"]["ProjectionType"], "some"), one.get("ItemCount"))
        for name, one in there.items()
    ]
    return (*ours, *rest)


_HOLDS = {"ALL": "whole rows", "KEYS_ONLY": "keys"}


def _standing(table: str, wanted: Index, found: Mapping[str, Any] | None) -> Standing:
    holds = "whole rows" if wanted.whole else "keys"
    if found is None:
        return Standing(wanted.name, "not needed" if wanted is RECENCY_B else "missing", holds, None)
    try:
        _check_make(table, found, wanted)
    except StoreForeign as error:
        return Standing(wanted.name, str(error), holds, found.get("ItemCount"))
    return Standing(wanted.name, "ready" if is_ready(found) else _state(found), holds, found.get("ItemCount"))


async def remove(client: Any, table: str, index: Index, patience: Patience | None = None) -> None:
    """Have no such index any more. Raises TimedOut."""
    patience = patience or Patience()
    begun = patience.clock()
    while True:
        description = await _describe(client, table)
        found = _find(description.get("GlobalSecondaryIndexes", ()), index)
        if found is None:
            return
        if found.get("IndexStatus") == "ACTIVE" and description.get("TableStatus") == "ACTIVE":
            with translated(f"index {index.name} of table {table}"):
                await client.update_table(
                    TableName=table, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": index.name}}]
                )
        await _pause(patience, begun, f"index {index.name} of table {table} is {_state(found)}")


async def item_count(client: Any, table: str) -> int | None:
    """How many items a table has, by a count that AWS renews every six hours; None where it knows of none."""
    return (await _describe(client, table)).get("ItemCount") or None


async def table_ready(client: Any, table: str, patience: Patience) -> None:
    """Wait until the table itself is active: AWS changes it only then. Raises TimedOut."""
    begun = patience.clock()
    while True:
        status = (await _describe(client, table)).get("TableStatus")
        if status == "ACTIVE":
            return
        await _pause(patience, begun, f"table {table} is {status}")


async def _wait(client: Any, table: str, wanted: Index, patience: Patience, told: Callable[[Progress], None]) -> None:
    begun = patience.clock()
    while True:
        description = await _describe(client, table)
        found = _find(description.get("GlobalSecondaryIndexes", ()), wanted)
        if found is not None:
            if found.get("IndexStatus") == "DELETING":
                raise StoreForeign(f"index {wanted.name} of table {table} is being deleted by somebody else")
            told(
                Progress(
                    wanted.name,
                    str(found.get("IndexStatus")),
                    bool(found.get("Backfilling")),
                    patience.clock() - begun,
                )
            )
            if is_ready(found):
                return
        state = "not there yet" if found is None else _state(found)
        await _pause(patience, begun, f"index {wanted.name} of table {table} is {state}")


async def _pause(patience: Patience, begun: float, state: str) -> None:
    waited = patience.clock() - begun
    if waited >= patience.timeout:
        raise TimedOut(f"{state} after {waited:.0f} s; AWS goes on with it: run the same command again to wait on")
    await patience.sleep(min(patience.every, patience.timeout - waited))


async def _describe(client: Any, table: str) -> Mapping[str, Any]:
    with translated(f"table {table}"):
        found: Mapping[str, Any] = (await client.describe_table(TableName=table))["Table"]
        return found


def _find(there: Iterable[Mapping[str, Any]], wanted: Index) -> Mapping[str, Any] | None:
    return next((one for one in there if one["IndexName"] == wanted.name), None)


def _check_make(table: str, found: Mapping[str, Any], wanted: Index) -> None:
    definition = wanted.definition()
    if found["KeySchema"] != definition["KeySchema"]:
        raise StoreForeign(f"index {wanted.name} of table {table} has other keys than {wanted.pk} and {wanted.sk}")
    if wanted.whole and found["Projection"]["ProjectionType"] != "ALL":
        raise StoreForeign(f"index {wanted.name} of table {table} does not hold whole rows (projection ALL)")


def _state(index: Mapping[str, Any]) -> str:
    status = str(index.get("IndexStatus"))
    return f"{status}, backfilling" if index.get("Backfilling") else status
