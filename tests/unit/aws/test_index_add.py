"""F40: an index is waited for itself, one at a time, and a wait can be given up and taken up again."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from afterturn.aws.table import INDEXES, RECENCY, RECENCY_B, WORK_ORDER, table_definition
from afterturn.errors import NotFound, StoreBusy, StoreError, StoreForeign
from afterturn.operations import indexes
from afterturn.operations.indexes import Act, Patience, Progress, TimedOut

TABLE = "afterturn-dev"


class Fake:
    """A table as AWS makes an index for it: the table is ACTIVE again long before the index is."""

    def __init__(self, *missing: Any, builds: int = 3) -> None:
        definition = table_definition(TABLE, [one for one in INDEXES if one not in missing])
        self.table: dict[str, Any] = {
            **copy.deepcopy(definition),
            "TableStatus": "ACTIVE",
            "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
            "ItemCount": 0,
        }
        for index in self.table["GlobalSecondaryIndexes"]:
            index["IndexStatus"] = "ACTIVE"
        self.updates: list[dict[str, Any]] = []
        self._builds = builds
        self._left = 0

    async def describe_table(self, **given: Any) -> dict[str, Any]:
        told = copy.deepcopy(self.table)
        if self._left:
            self._left -= 1
            if not self._left:
                index = self.table["GlobalSecondaryIndexes"][-1]
                index["IndexStatus"] = "ACTIVE"
                index.pop("Backfilling", None)
        return {"Table": told}

    async def update_table(self, **given: Any) -> None:
        self.updates.append(given)
        for update in given["GlobalSecondaryIndexUpdates"]:
            if "Create" in update:
                self.begin(update["Create"])
            else:
                there = self.table["GlobalSecondaryIndexes"]
                there[:] = [one for one in there if one["IndexName"] != update["Delete"]["IndexName"]]

    def begin(self, definition: dict[str, Any]) -> None:
        self.table["GlobalSecondaryIndexes"].append({**definition, "IndexStatus": "CREATING", "Backfilling": True})
        self._left = self._builds


def test_the_list_tells_each_index_that_is_needed_and_any_other() -> None:
    table = Fake(WORK_ORDER).table
    first, recency, *_ = (one for one in table["GlobalSecondaryIndexes"] if one["IndexName"] != "phone-index")
    first["ItemCount"] = 12
    recency |= {"IndexStatus": "CREATING", "Backfilling": True}
    phone = next(one for one in table["GlobalSecondaryIndexes"] if one["IndexName"] == "phone-index")
    phone["KeySchema"] = []
    table["GlobalSecondaryIndexes"].append({"IndexName": "theirs", "Projection": {"ProjectionType": "INCLUDE"}})
    found = {one.name: one for one in indexes.standings(table)}
    assert "has other keys" in found.pop("phone-index").state
    assert [(one.name, one.state, one.holds, one.items) for one in found.values()] == [
        ("entityType-createdAt-index", "ready", "keys", 12),
        ("conv-recency-index", "CREATING, backfilling", "whole rows", None),
        ("property-recency-index", "ready", "whole rows", None),
        ("work-order-index", "missing", "whole rows", None),
        ("conv-recency-index-b", "not needed", "whole rows", None),
        ("theirs", "not afterturn's", "some", None),
    ]


class Time:
    """Seconds that pass only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def patience(self, timeout: float = 100) -> Patience:
        return Patience(timeout, every=5, clock=lambda: self.now, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_the_index_is_waited_for_and_not_the_table() -> None:
    aws, time, told = Fake(RECENCY), Time(), list[Progress]()
    assert await indexes.add(aws, TABLE, RECENCY, time.patience(), told.append) is Act.CREATE
    assert [(one.status, one.backfilling) for one in told] == [("CREATING", True)] * 3 + [("ACTIVE", False)]
    assert time.now == 15


async def test_an_index_that_is_active_but_still_backfilling_is_not_ready() -> None:
    assert not indexes.is_ready({"IndexStatus": "ACTIVE", "Backfilling": True})
    assert not indexes.is_ready({"IndexStatus": "CREATING"})
    assert indexes.is_ready({"IndexStatus": "UPDATING", "Backfilling": False})


async def test_one_update_makes_one_index() -> None:
    aws = Fake(RECENCY)
    await indexes.add(aws, TABLE, RECENCY, Time().patience())
    (update,) = aws.updates
    assert update["GlobalSecondaryIndexUpdates"] == [{"Create": RECENCY.definition()}]
    assert {one["AttributeName"] for one in update["AttributeDefinitions"]} == {"PK", "SK", "GSI5PK", "GSI5SK"}


async def test_done_again_it_does_nothing() -> None:
    aws = Fake()
    assert await indexes.add(aws, TABLE, RECENCY, Time().patience()) is Act.NOTHING
    assert aws.updates == []


async def test_a_wait_that_was_cut_off_is_taken_up_without_making_the_index_again() -> None:
    aws, time = Fake(RECENCY, builds=30), Time()
    with pytest.raises(TimedOut, match=r"CREATING, backfilling after 20 s.*run the same command again"):
        await indexes.add(aws, TABLE, RECENCY, time.patience(timeout=20))
    assert await indexes.add(aws, TABLE, RECENCY, time.patience(timeout=1_000)) is Act.WAIT
    assert len(aws.updates) == 1


async def test_while_another_index_is_made_none_is_begun() -> None:
    aws = Fake(RECENCY, WORK_ORDER)
    aws.begin(WORK_ORDER.definition())
    with pytest.raises(StoreBusy, match=r"work-order-index .* is CREATING, backfilling.*one index at a time"):
        await indexes.add(aws, TABLE, RECENCY, Time().patience())
    assert aws.updates == []
    aws = Fake(RECENCY)
    aws.table["TableStatus"] = "UPDATING"
    with pytest.raises(StoreBusy, match="UPDATING"):
        await indexes.add(aws, TABLE, RECENCY, Time().patience())


async def test_what_is_in_the_way_is_named_and_left_alone() -> None:
    other = Fake()
    other.table["GlobalSecondaryIndexes"][2]["KeySchema"][1]["AttributeName"] = "createdAt"
    with pytest.raises(StoreForeign, match="other keys"):
        await indexes.add(other, TABLE, RECENCY, Time().patience())
    narrow = Fake()
    narrow.table["GlobalSecondaryIndexes"][2]["Projection"] = {"ProjectionType": "KEYS_ONLY"}
    with pytest.raises(StoreForeign, match="whole rows"):
        await indexes.add(narrow, TABLE, RECENCY, Time().patience())
    numbers = Fake(RECENCY)
    numbers.table["AttributeDefinitions"].append({"AttributeName": "GSI5SK", "AttributeType": "N"})
    numbers.table["AttributeDefinitions"] = [
        one for one in numbers.table["AttributeDefinitions"] if one != {"AttributeName": "GSI5SK", "AttributeType": "S"}
    ]
    with pytest.raises(StoreForeign, match="GSI5SK as N"):
        await indexes.add(numbers, TABLE, RECENCY, Time().patience())
    gone = Fake()
    gone.table["GlobalSecondaryIndexes"][2]["IndexStatus"] = "DELETING"
    with pytest.raises(StoreBusy, match="being deleted"):
        await indexes.add(gone, TABLE, RECENCY, Time().patience())
    assert [one.updates for one in (other, narrow, numbers, gone)] == [[], [], [], []]


async def test_a_table_with_provisioned_capacity_gives_its_own_to_the_index() -> None:
    aws = Fake(RECENCY)
    aws.table["BillingModeSummary"] = {"BillingMode": "PROVISIONED"}
    aws.table["ProvisionedThroughput"] = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 7, "NumberOfDecreasesToday": 0}
    await indexes.add(aws, TABLE, RECENCY, Time().patience())
    assert aws.updates[0]["GlobalSecondaryIndexUpdates"][0]["Create"]["ProvisionedThroughput"] == {
        "ReadCapacityUnits": 5,
        "WriteCapacityUnits": 7,
    }


async def test_an_index_is_removed_once_and_removing_none_is_no_error() -> None:
    aws = Fake()
    await indexes.add(aws, TABLE, RECENCY_B, Time().patience())
    await indexes.remove(aws, TABLE, RECENCY_B, Time().patience())
    await indexes.remove(aws, TABLE, RECENCY_B, Time().patience())
    assert [next(iter(one["GlobalSecondaryIndexUpdates"][0])) for one in aws.updates] == ["Create", "Delete"]


def test_an_index_of_another_name_is_not_known() -> None:
    with pytest.raises(NotFound, match="conv-recency-index-b"):
        indexes.named("recency")
    assert indexes.named("conv-recency-index") is RECENCY


def test_running_out_of_time_is_an_error_of_the_store() -> None:
    """So the command exits 4."""
    assert issubclass(TimedOut, StoreError)
