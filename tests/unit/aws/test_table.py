"""The table's definition, what is checked of a table, and how long is waited."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from afterturn.aws.errors import Backoff
from afterturn.aws.table import INDEXES, RECENCY_B, check_description, table_definition
from afterturn.errors import StoreBusy, StoreForeign
from afterturn.store.dynamodb.requests import from_item, item_bytes, to_item


def described() -> dict[str, Any]:
    """As DescribeTable tells of a sound table."""
    found = copy.deepcopy(table_definition("conversations"))
    found["TableStatus"] = "ACTIVE"
    for index in found["GlobalSecondaryIndexes"]:
        index["IndexStatus"] = "ACTIVE"
    return found


def test_the_indexes_are_those_of_the_contract() -> None:
    """Names, keys and projections are known to other programs; GSI2 is not needed and GSI4 is reserved."""
    definition = table_definition("t1")
    told = {
        index["IndexName"]: (index["KeySchema"][0]["AttributeName"], index["Projection"]["ProjectionType"])
        for index in definition["GlobalSecondaryIndexes"]
    }
    assert told == {
        "phone-index": ("GSI1PK", "KEYS_ONLY"),
        "entityType-createdAt-index": ("GSI3PK", "KEYS_ONLY"),
        "conv-recency-index": ("GSI5PK", "ALL"),
        "property-recency-index": ("GSI6PK", "ALL"),
        "work-order-index": ("GSI7PK", "ALL"),
    }
    names = [one["AttributeName"] for one in definition["AttributeDefinitions"]]
    assert len(names) == len(set(names)) == 12


def test_a_sound_table_is_taken() -> None:
    check_description(described())


def test_an_index_that_is_filled_while_the_table_is_active_is_not_ready() -> None:
    """F40: the table's state says nothing of the index."""
    for change in ({"IndexStatus": "CREATING"}, {"IndexStatus": "ACTIVE", "Backfilling": True}):
        found = described()
        found["GlobalSecondaryIndexes"][2] |= change
        with pytest.raises(StoreBusy, match="conv-recency-index"):
            check_description(found)


def test_a_table_of_another_kind_is_refused() -> None:
    other = described() | {"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}
    with pytest.raises(StoreForeign, match="not afterturn's"):
        check_description(other)
    with pytest.raises(StoreForeign, match="conv-recency-index-b"):
        check_description(described(), (*INDEXES, RECENCY_B))
    narrow = described()
    narrow["GlobalSecondaryIndexes"][2]["Projection"]["ProjectionType"] = "KEYS_ONLY"
    with pytest.raises(StoreForeign, match="whole rows"):
        check_description(narrow)
    strange = described()
    strange["GlobalSecondaryIndexes"][2]["KeySchema"][1]["AttributeName"] = "lastMessageAt"
    with pytest.raises(StoreForeign, match="other keys"):
        check_description(strange)
    with pytest.raises(StoreBusy, match="CREATING"):
        check_description(described() | {"TableStatus": "CREATING"})


async def test_waits_are_jittered_bounded_and_seeded() -> None:
    async def waits(seed: int) -> list[float]:
        slept: list[float] = []

        async def sleep(seconds: float) -> None:
            slept.append(seconds)

        backoff = Backoff(base=0.1, cap=1, chance=random.Random(seed), sleep=sleep)
        for attempt in range(100):
            await backoff.pause(attempt)
        return slept

    first = await waits(1)
    assert first == await waits(1) != await waits(2)
    assert all(0 <= wait <= min(1, 0.1 * 2**attempt) for attempt, wait in enumerate(first))
    assert max(first) > 0.9


def test_values_come_back_as_they_were() -> None:
    plain = {
        "s": "é",
        "empty": "",
        "n": -12,
        "yes": True,
        "no": False,
        "list": ["a", 1, {"m": []}],
        "map": {"x": {"y": ""}},
    }
    assert from_item(to_item(plain | {"none": None})) == plain


@pytest.mark.parametrize(
    ("plain", "size"),
    [
        ({"a": "xyz"}, 4),
        ({"é": "é"}, 4),
        ({"a": True}, 2),
        ({"a": ["b"]}, 1 + 3 + 1 + 1),
        ({"a": {"b": "c"}}, 1 + 3 + 1 + 2),
        ({"a": None}, 0),
    ],
)
def test_sizes_are_counted_as_dynamodb_counts_them(plain: dict[str, Any], size: int) -> None:
    assert item_bytes(plain) == size
