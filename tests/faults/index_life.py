"""A table with a past: rows of today's writer, rows of an older one without keys, and rows that no tool can place."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from tests.contract.samples import T0, at, message, turn
from tests.emulator import provision
from tests.unit.aws.strict import StrictDynamo

from afterturn.aws.account import Account, open_account
from afterturn.aws.errors import Backoff
from afterturn.aws.names import Names
from afterturn.aws.session import Access
from afterturn.aws.stack import Patience
from afterturn.aws.table import ALL_INDEXES, INDEXES, Index, table_definition
from afterturn.clock import to_text
from afterturn.store.dynamodb import DynamoStore, keys
from afterturn.store.dynamodb.backfill import layout
from afterturn.store.dynamodb.index_keys import IndexTarget
from afterturn.store.dynamodb.layout import TableLayouts
from afterturn.store.dynamodb.requests import from_item, to_item
from afterturn.store.dynamodb.table import Table
from afterturn.store.dynamodb.verify import Rechecks
from afterturn.store.port import Range

DEV = Names.of("dev")
TABLE = DEV.table
BROKEN: dict[str, Any] = {
    "broken-none": {},
    "broken-empty": {"lastMessageAt": {"S": ""}},
    "broken-null": {"lastMessageAt": {"NULL": True}},
    "broken-number": {"lastMessageAt": {"N": "1772366405"}},
    "broken-date": {"lastMessageAt": {"S": "2026-03-01"}},
}
"""F41: what nobody can place in time, as attribute values."""

KEYS = [key for index in INDEXES for key in (index.pk, index.sk)]
_BATCH = 25

SOON = Rechecks(pauses=(0, 0.05, 0.2))
QUICK = Patience(timeout=5, every=0.02)


@asynccontextmanager
async def strict_account(access: Access, session: Any) -> AsyncIterator[Account]:
    """An account whose requests to the table are checked as AWS would check them."""
    async with open_account(access, session=session) as account:
        StrictDynamo(table_definition(TABLE, ALL_INDEXES)).watch(account.dynamodb)
        yield account


async def rows_of(client: Any) -> dict[str, dict[str, Any]]:
    """Every conversation's item, by id."""
    found: dict[str, dict[str, Any]] = {}
    pages = client.get_paginator("scan").paginate(TableName=TABLE, ConsistentRead=True)
    async for page in pages:
        for item in map(from_item, page["Items"]):
            if item["SK"] == keys.META:
                found[item["id"]] = item
    return found


async def read_all(store: DynamoStore) -> set[str]:
    """One read of the recency index, as an inbox without an end would do it."""
    found = await store.recency(Range(), limit=100_000)
    assert found.exhausted
    ids = [one.id for one in found.rows]
    assert len(set(ids)) == len(ids)
    return set(ids)


async def of(table: Table, index: Any) -> IndexTarget:
    return IndexTarget.of(index, await layout(table))


async def make_table(account: Account, *without: Index) -> Table:
    await provision(account, DEV, **{index.parameter: "off" for index in without})
    return Table(account.dynamodb, TABLE, Backoff(base=0.001, cap=0.02, chance=random.Random(7)))


def store_on(table: Table, max_age: timedelta = timedelta(seconds=0.1)) -> DynamoStore:
    """One that follows the table's layout, and looks at it far more often than it would."""
    return DynamoStore(table, layout_source=TableLayouts(table, max_age=max_age))


def old_time(number: int) -> datetime:
    return T0 - timedelta(days=300) + timedelta(hours=number)


def old_row(number: int, *, keyed: bool) -> dict[str, Any]:
    """As an older writer left it: a conversation that is read as well as any other, with or without its keys."""
    name = f"old-{number:05}"
    pk, sk = keys.meta(name)
    plain = {
        "PK": pk,
        "SK": sk,
        "kind": "conversation",
        "id": name,
        "channel": "sms",
        "participants": [f"+1555{number:07}"],
        "propertyId": f"p{number % 40}",
        "createdAt": to_text(old_time(number)),
        "lastMessageAt": to_text(old_time(number)),
    }
    if keyed:
        recency = keys.recency(old_time(number), name)
        plain |= {
            "GSI1PK": keys.phone(plain["participants"][0]),
            "GSI1SK": pk,
            "GSI3PK": keys.CONVERSATIONS,
            "GSI3SK": name,
            "GSI5PK": "CONV_RECENCY",
            "GSI5SK": recency,
            "GSI6PK": keys.of_property(f"p{number % 40}"),
            "GSI6SK": recency,
        }
    return to_item(plain)


def broken_rows() -> Iterator[dict[str, Any]]:
    for name, attributes in BROKEN.items():
        pk, sk = keys.meta(name)
        yield {**to_item({"PK": pk, "SK": sk, "id": name, "channel": "sms"}), **attributes}


async def fill(client: Any, items: list[dict[str, Any]]) -> None:
    async def put(batch: list[dict[str, Any]]) -> None:
        await client.batch_write_item(RequestItems={TABLE: [{"PutRequest": {"Item": item}} for item in batch]})

    for start in range(0, len(items), _BATCH * 8):
        batches = [items[begin : begin + _BATCH] for begin in range(start, min(start + _BATCH * 8, len(items)), _BATCH)]
        await asyncio.gather(*map(put, batches))


class Writers:
    """Live turns in old and new conversations, one after the other, until they are told to stop.

    ``settled``: what they were told is in. ``touched``: the conversation of each of the ``number`` turns, with the one
    that is under way.
    """

    def __init__(self, store: DynamoStore, old: list[str], seed: int) -> None:
        self.settled: dict[str, datetime] = {}
        self._store = store
        self._old = old
        self._chance = random.Random(seed)
        self.number = 0
        self.touched: list[str] = []
        self._stop = asyncio.Event()

    async def run(self, pause: float = 0.02) -> None:
        while not self._stop.is_set():
            await self.settle_one()
            await asyncio.sleep(pause)

    async def settle_one(self) -> None:
        self.number += 1
        is_new = self._chance.random() < 0.3
        name = f"new-{self.number:05}" if is_new else self._chance.choice(self._old)
        self.touched.append(name)
        now = at(self.number)
        given = turn(name, message(f"live-{self.number}", self.number))
        done = await self._store.settle(given, now=now, emitter="worker")
        self.settled[name] = done.event.occurred_at

    def stop(self) -> None:
        self._stop.set()


class CreatingIndex:
    """What an emulator does not show: an index that is still made while its table is ACTIVE.

    After the change set that creates it, so many looks find it CREATING and backfilling, and it cannot be queried.
    """

    def __init__(self, looks: int = 3) -> None:
        self.seen = 0
        self.updates = 0
        self.is_under_way = asyncio.Event()
        self._looks = looks
        self._index: str | None = None
        self._planned: str | None = None

    def befall(self, account: Account) -> None:
        stacks = account.cloudformation.meta.events
        stacks.register("before-parameter-build.cloudformation.CreateChangeSet", self._plan)
        stacks.register("after-call.cloudformation.ExecuteChangeSet", self._begin)
        table = account.dynamodb.meta.events
        table.register("after-call.dynamodb.DescribeTable", self._tell)
        table.register("before-parameter-build.dynamodb.Query", self._note)
        table.register("before-call.dynamodb.Query", self._refuse)

    def _plan(self, params: dict[str, Any], **_: Any) -> None:
        set_ = {each["ParameterKey"] for each in params["Parameters"] if "ParameterValue" in each}
        (self._planned,) = (index.name for index in ALL_INDEXES if index.parameter in set_)

    def _begin(self, **_: Any) -> None:
        self._index = self._planned
        self.updates += 1

    def _tell(self, parsed: dict[str, Any], **_: Any) -> None:
        if self._index is not None and self.seen < self._looks:
            self.seen += 1
            self.is_under_way.set()
            for index in parsed["Table"]["GlobalSecondaryIndexes"]:
                if index["IndexName"] == self._index:
                    index |= {"IndexStatus": "CREATING", "Backfilling": True}

    def _note(self, params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["queried"] = params.get("IndexName")

    def _refuse(self, context: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]] | None:
        if self._index is None or context["queried"] != self._index or self.seen >= self._looks:
            return None
        words = f"Cannot read from backfilling global secondary index: {self._index}"
        answer = {"Error": {"Code": "ValidationException", "Message": words}, "ResponseMetadata": {}}
        return SimpleNamespace(status_code=400, headers={}), answer
