"""F40: an index is waited for itself, one at a time, and a wait can be given up and resumed."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from afterturn.aws import stack
from afterturn.aws.indexes import IndexAction, IndexProgress, TableIndexes, find_index, index_states
from afterturn.aws.names import Names
from afterturn.aws.stack import Patience, TimedOut
from afterturn.aws.table import ALL_INDEXES, INDEXES, RECENCY, RECENCY_B, WORK_ORDER, Index, is_ready, table_definition
from afterturn.errors import NotFound, StoreBusy, StoreError, StoreForeign

DEV = Names.of("dev")


class Time:
    """Seconds that pass only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def patience(self, timeout: float = 100) -> Patience:
        return Patience(timeout, every=5, clock=lambda: self.now, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


class FakeAws:
    """A table as AWS makes an index for it: the table is ACTIVE again long before the index is.

    ``changes``: the parameters of each update of the stack. An update ends before the index is ready.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *missing: Index, seconds: float = 15) -> None:
        definition = table_definition(DEV.table, [each for each in INDEXES if each not in missing])
        self.table: dict[str, Any] = {**copy.deepcopy(definition), "TableStatus": "ACTIVE", "ItemCount": 0}
        for index in self.table["GlobalSecondaryIndexes"]:
            index["IndexStatus"] = "ACTIVE"
        self.changes: list[Mapping[str, str]] = []
        self.time = Time()
        self._seconds = seconds
        self._ready_at: float | None = None
        monkeypatch.setattr(stack, "change", self.change)

    def indexes(self, timeout: float = 100) -> TableIndexes:
        account: Any = SimpleNamespace(dynamodb=self)
        return TableIndexes(account, DEV, self.time.patience(timeout))

    async def describe_table(self, **_: Any) -> dict[str, Any]:
        if self._ready_at is not None and self.time.now >= self._ready_at:
            self.table["GlobalSecondaryIndexes"][-1] |= {"IndexStatus": "ACTIVE", "Backfilling": False}
        return {"Table": copy.deepcopy(self.table)}

    async def change(self, account: Any, names: Names, settings: Mapping[str, str], patience: Any, **_: Any) -> None:
        self.changes.append(settings)
        (parameter,) = settings
        index = next(each for each in ALL_INDEXES if each.parameter == parameter)
        if settings[parameter] == "on":
            self.begin(index)
        else:
            existing = self.table["GlobalSecondaryIndexes"]
            existing[:] = [each for each in existing if each["IndexName"] != index.name]

    def begin(self, index: Index) -> None:
        found = {**index.definition(), "IndexStatus": "CREATING", "Backfilling": True}
        self.table["GlobalSecondaryIndexes"].append(found)
        self._ready_at = self.time.now + self._seconds


async def test_the_index_is_waited_for_and_not_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    aws, seen = FakeAws(monkeypatch, RECENCY), list[IndexProgress]()
    assert await aws.indexes().add(RECENCY, seen.append) is IndexAction.CREATE
    assert {(each.status, each.backfilling) for each in seen} == {("CREATING", True)}
    assert aws.time.now >= 15
    assert aws.changes == [{"RecencyIndex": "on"}], "one parameter, so one index"


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ({"IndexStatus": "ACTIVE", "Backfilling": True}, False),
        ({"IndexStatus": "CREATING"}, False),
        ({"IndexStatus": "UPDATING", "Backfilling": False}, True),
        ({"IndexName": "made with its table, on the emulator"}, True),
    ],
)
def test_an_index_is_ready_when_it_is_active_and_no_longer_backfilling(index: dict[str, Any], expected: bool) -> None:
    assert is_ready(index) is expected


async def test_run_again_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    aws = FakeAws(monkeypatch)
    assert await aws.indexes().add(RECENCY) is IndexAction.NOTHING
    assert aws.changes == []


async def test_a_wait_that_was_given_up_is_resumed_without_another_update(monkeypatch: pytest.MonkeyPatch) -> None:
    aws = FakeAws(monkeypatch, RECENCY, seconds=150)
    with pytest.raises(TimedOut, match=r"CREATING, backfilling after 20 s.*run the same command again"):
        await aws.indexes(timeout=20).add(RECENCY)
    assert await aws.indexes(timeout=1_000).add(RECENCY) is IndexAction.WAIT
    assert len(aws.changes) == 1
    assert issubclass(TimedOut, StoreError), "so the command exits 4"


async def test_while_another_index_is_made_none_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    aws = FakeAws(monkeypatch, RECENCY, WORK_ORDER)
    aws.begin(WORK_ORDER)
    with pytest.raises(StoreBusy, match=r"work-order-index .* is CREATING, backfilling.*one index at a time"):
        await aws.indexes().add(RECENCY)
    other = FakeAws(monkeypatch, RECENCY)
    other.table["TableStatus"] = "UPDATING"
    with pytest.raises(StoreBusy, match="UPDATING"):
        await other.indexes().add(RECENCY)
    assert (aws.changes, other.changes) == ([], [])


async def test_what_is_in_the_way_is_named_and_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for change, error, problem in (
        ({"KeySchema": []}, StoreForeign, "other keys"),
        ({"Projection": {"ProjectionType": "KEYS_ONLY"}}, StoreForeign, "whole rows"),
        ({"IndexStatus": "DELETING"}, StoreBusy, "being deleted"),
    ):
        aws = FakeAws(monkeypatch)
        aws.table["GlobalSecondaryIndexes"][2] |= change
        with pytest.raises(error, match=problem):
            await aws.indexes().add(RECENCY)
        assert aws.changes == []


async def test_an_index_is_removed_once_and_removing_none_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    aws = FakeAws(monkeypatch)
    await aws.indexes().add(RECENCY_B)
    await aws.indexes().remove(RECENCY_B)
    await aws.indexes().remove(RECENCY_B)
    assert aws.changes == [{"RecencyIndexB": "on"}, {"RecencyIndexB": "off"}]


def test_the_list_shows_each_index_that_is_needed_and_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    table = FakeAws(monkeypatch, WORK_ORDER).table
    phone, created, recency, *_ = table["GlobalSecondaryIndexes"]
    phone["KeySchema"] = []
    created["ItemCount"] = 12
    recency |= {"IndexStatus": "CREATING", "Backfilling": True}
    table["GlobalSecondaryIndexes"].append({"IndexName": "theirs", "Projection": {"ProjectionType": "INCLUDE"}})
    states = {each.name: each for each in index_states(table)}
    assert "has other keys" in states.pop("phone-index").state
    assert [(each.name, each.state, each.holds, each.items) for each in states.values()] == [
        ("entityType-createdAt-index", "ready", "keys", 12),
        ("conv-recency-index", "CREATING, backfilling", "whole rows", None),
        ("property-recency-index", "ready", "whole rows", None),
        ("work-order-index", "missing", "whole rows", None),
        ("conv-recency-index-b", "not needed", "whole rows", None),
        ("theirs", "not afterturn's", "some", None),
    ]


def test_an_index_of_another_name_is_not_known() -> None:
    with pytest.raises(NotFound, match="conv-recency-index-b"):
        find_index("recency")
    assert find_index("conv-recency-index") is RECENCY
