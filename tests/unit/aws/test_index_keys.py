"""Which keys a row should have, for every index, and how they are written. F22 and F41."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.aws.strict import StrictDynamo

from afterturn.aws.table import (
    ENTITY,
    INDEXES,
    PHONE,
    PROPERTY_RECENCY,
    RECENCY,
    RECENCY_B,
    WORK_ORDER,
    table_definition,
)
from afterturn.model import Channel, ConversationMeta, Status, Urgency, WorkOrder
from afterturn.store.dynamodb import index_keys, keys, rows
from afterturn.store.dynamodb.index_keys import IndexKeys, IndexTarget, expected_keys
from afterturn.store.dynamodb.layout import RecencyLayouts, SlotLayout
from afterturn.store.dynamodb.plans import plan_create
from afterturn.store.dynamodb.requests import from_item

LAYOUTS = RecencyLayouts()
STRICT = StrictDynamo(table_definition("t", (*INDEXES, RECENCY_B)))
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def row(conversation_id: str = "c1", **attributes: Any) -> dict[str, Any]:
    pk, sk = keys.meta(conversation_id)
    return {"PK": pk, "SK": sk, "id": conversation_id, **attributes}


def of(index: Any, layouts: RecencyLayouts = LAYOUTS) -> IndexTarget:
    return IndexTarget.of(index, layouts)


@pytest.mark.parametrize("index", [PHONE, ENTITY, RECENCY, PROPERTY_RECENCY])
@pytest.mark.parametrize("slot_layout", ["single", "monthly", "sharded:7"])
def test_a_row_of_the_writer_is_right_as_it_is(index: Any, slot_layout: str) -> None:
    """The tool and the writer agree on every key, so a backfill after a rollout changes nothing."""
    layouts = RecencyLayouts(SlotLayout.parse(slot_layout), (SlotLayout.parse(slot_layout),))
    given = ConversationMeta(
        id='odd "id" #1', channel=Channel.SMS, property_id="p#1", participants=("+15550100", "+15550101")
    )
    (action,) = plan_create(given, layouts, now=NOW).actions
    item = {"PK": action.key[0], "SK": action.key[1], **action.item}
    assert expected_keys(item, of(index, layouts)).is_met_by(item)
    bare = {name: value for name, value in item.items() if not name.startswith("GSI")}
    assert expected_keys(bare, of(index, layouts)) == expected_keys(item, of(index, layouts))
    assert not expected_keys(bare, of(index, layouts)).is_met_by(bare)


def test_a_work_order_of_the_writer_is_right_as_it_is() -> None:
    order = WorkOrder(
        id="w1",
        conversation_id="c1",
        property_id=None,
        category="leak",
        urgency=Urgency.EMERGENCY,
        message_id="m1",
        opened_at=NOW,
        status=Status.OPEN,
    )
    pk, sk = keys.work_order("c1", "w1")
    item = {"PK": pk, "SK": sk, **rows.work_order_item(order)}
    assert expected_keys(item, of(WORK_ORDER)).is_met_by(item)
    assert expected_keys({"PK": pk, "SK": sk}, of(WORK_ORDER)).problem == "is no whole work order"


def test_the_newest_time_that_makes_sense_places_a_row() -> None:
    older = "2026-01-01T00:00:00.000000Z"
    assert expected_keys(row(createdAt=older), of(RECENCY)).keys["GSI5SK"] == f"{older}#c1"
    told = expected_keys(row(createdAt=older, lastMessageAt="2026-02-01T01:00:00+01:00"), of(RECENCY))
    assert told.keys == {"GSI5PK": "CONV_RECENCY", "GSI5SK": "2026-02-01T00:00:00.000000Z#c1"}
    assert expected_keys(row(createdAt=older, lastMessageAt=""), of(RECENCY)).keys["GSI5SK"] == f"{older}#c1"


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({}, "no lastMessageAt, no createdAt"),
        ({"lastMessageAt": ""}, "lastMessageAt is empty, no createdAt"),
        ({"lastMessageAt": None}, "lastMessageAt is null, no createdAt"),
        ({"lastMessageAt": 1772366405}, "lastMessageAt is a number, no createdAt"),
        ({"lastMessageAt": 1772366405.5}, "lastMessageAt is a number, no createdAt"),
        ({"lastMessageAt": "2026-03-01"}, "lastMessageAt is no time, no createdAt"),
        ({"lastMessageAt": ["x"], "createdAt": {}}, "lastMessageAt is a list, createdAt is a map"),
    ],
)
def test_a_row_without_a_time_is_named_with_the_reason_and_without_its_content(
    attributes: dict[str, Any], why: str
) -> None:
    for index in (RECENCY, PROPERTY_RECENCY):
        assert expected_keys(row(**attributes), of(index)) == IndexKeys(problem=f"carries no time: {why}")


def test_a_row_that_is_no_conversation_of_ours_is_named() -> None:
    assert expected_keys({"PK": "CONV#c1", "SK": "META"}, of(RECENCY)).problem == "has no id"
    assert expected_keys(row() | {"id": 7}, of(ENTITY)).problem == "has no id"
    assert expected_keys(row() | {"id": "c2"}, of(ENTITY)).problem == "has an id that is not that of its key"
    assert expected_keys(row(participants="+1555"), of(PHONE)).problem == "has participants that are none"
    told = expected_keys(row(createdAt="2026-01-01T00:00:00Z", propertyId=7), of(PROPERTY_RECENCY))
    assert told.problem == "has no property that can be one: propertyId is a number"


def test_a_conversation_without_participants_is_rightly_absent_from_the_phone_index() -> None:
    told = expected_keys(row(), of(PHONE))
    assert not told.is_indexed
    assert told.is_met_by(row())
    assert not told.is_met_by(row(GSI1PK="PHONE#x", GSI1SK="CONV#c1"))


def test_a_slot_that_is_not_written_should_have_no_rows() -> None:
    told = expected_keys(row(createdAt="2026-01-01T00:00:00Z", GSI8PK="x", GSI8SK="y"), of(RECENCY_B))
    assert told == IndexKeys({"GSI8PK": None, "GSI8SK": None})
    assert told.is_met_by(row())
    assert str(of(RECENCY_B)) == "conv-recency-index-b (not written)"
    assert str(of(RECENCY)) == "conv-recency-index (single)"


def test_only_key_attributes_are_written_and_only_to_the_row_that_was_read() -> None:
    item = row(createdAt="2026-01-01T00:00:00.000000Z", rev=3, GSI5SK=7, lastMessageAt=None, participants=["+1555"])
    told = expected_keys(item, of(RECENCY))
    assert told.problem is None
    params = index_keys.stamp_keys(item, of(RECENCY), told.keys).params("t")
    STRICT.check("UpdateItem", params)
    names, values = params["ExpressionAttributeNames"], from_item(params["ExpressionAttributeValues"])

    def spelled(expression: str) -> str:
        for placeholder, name in sorted(names.items(), reverse=True):
            expression = expression.replace(placeholder, name)
        for placeholder, value in sorted(values.items(), reverse=True):
            expression = expression.replace(placeholder, repr(value))
        return expression

    assert (
        spelled(params["UpdateExpression"]) == "SET GSI5PK = 'CONV_RECENCY', GSI5SK = '2026-01-01T00:00:00.000000Z#c1'"
    )
    assert spelled(params["ConditionExpression"]).split(" AND ") == [
        "attribute_exists(PK)",
        "id = 'c1'",
        "rev = 3",
        "createdAt = '2026-01-01T00:00:00.000000Z'",
        "attribute_type(lastMessageAt, 'NULL')",
        "attribute_not_exists(propertyId)",
        "attribute_exists(participants)",
        "attribute_not_exists(GSI5PK)",
        "GSI5SK = 7",
    ]


def test_the_month_of_a_row_is_on_record_before_the_row() -> None:
    monthly = SlotLayout.parse("b/monthly")
    target = of(RECENCY_B, RecencyLayouts(SlotLayout(), (SlotLayout(), monthly)))
    told = expected_keys(row(createdAt="2026-02-03T00:00:00Z"), target)
    note = index_keys.month(told.keys, target)
    assert note is not None
    assert note.key == keys.month("2026-02")
    assert index_keys.month(told.keys, of(RECENCY)) is None


def test_a_report_names_a_row_by_its_id_or_else_by_its_key() -> None:
    assert index_keys.name_of(row("c9")) == "c9"
    assert index_keys.name_of({"PK": "CONV#x", "SK": "META"}) == "CONV#x / META"
