"""The strict check refuses what DynamoDB refuses."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.aws.strict import Refused, StrictDynamo

from afterturn.aws.table import table_definition

STRICT = StrictDynamo(table_definition("t1"))
KEY = {"PK": {"S": "p"}, "SK": {"S": "s"}}
N1 = {"N": "1"}


def update(expression: str, names: dict[str, str], values: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    found = {"Key": KEY, "UpdateExpression": expression, "ExpressionAttributeNames": names, **more}
    return found | ({} if values is None else {"ExpressionAttributeValues": values})


def query(condition: str, values: dict[str, Any], names: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    found = {"KeyConditionExpression": condition, "ExpressionAttributeValues": values}
    return found | {"ExpressionAttributeNames": names or {"#p": "PK", "#s": "SK"}, **more}


def put(**item: Any) -> dict[str, Any]:
    return {"Put": {"Item": {**KEY, **item}}}


A, B = {"S": "a"}, {"S": "b"}
GSI5 = {"#p": "GSI5PK", "#s": "GSI5SK"}
NAMES = {"#a": "a", "#b": "b", "#c": "c", "#d": "d"}
FILTERED = {"#p": "PK", "#s": "SK", "#t": "t"}


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("PutItem", {"Item": {"PK": {"S": ""}, "SK": A}}),
        ("PutItem", {"Item": {"PK": A, "SK": N1}}),
        ("PutItem", {"Item": {"PK": A}}),
        ("PutItem", {"Item": {"PK": A, "SK": {"S": "x" * 1025}}}),
        ("PutItem", {"Item": {**KEY, "GSI5PK": {"S": ""}}}),
        ("PutItem", {"Item": {**KEY, "GSI5SK": N1}}),
        ("PutItem", {"Item": {**KEY, "GSI5SK": {"NULL": True}}}),
        ("PutItem", {"Item": {**KEY, "text": {"S": "x" * 409_600}}}),
        ("PutItem", {"Item": KEY, "ConditionExpression": "attribute_not_exists(PK)"}),
        ("UpdateItem", update("SET #a = :v, #a.#b = :v", {"#a": "a", "#b": "b"}, {":v": N1})),
        ("UpdateItem", update("SET #a = :v REMOVE #a", {"#a": "a"}, {":v": N1})),
        ("UpdateItem", update("SET #a = :v SET #b = :v", {"#a": "a", "#b": "b"}, {":v": N1})),
        ("UpdateItem", update("SET #a = :v", {"#a": "SK"}, {":v": A})),
        ("UpdateItem", update("SET #a = :v", {"#a": "GSI6SK"}, {":v": {"S": ""}})),
        ("UpdateItem", update("SET #a = :v", {"#a": "a", "#b": "b"}, {":v": N1})),
        ("UpdateItem", update("SET #a = :v", {"#a": "a"}, {":v": N1, ":w": N1})),
        ("UpdateItem", update("SET #a = :w", {"#a": "a"}, {":v": N1})),
        ("UpdateItem", update("REMOVE #a", {"#a": "a"}, {})),
        ("UpdateItem", update("SET status = :v", {}, {":v": N1})),
        ("Query", query("#p <> :a", {":a": A}, {"#p": "PK"})),
        ("Query", query("#p = :a AND #s <> :b", {":a": A, ":b": B})),
        ("Query", query("#p = :a AND #s > :b AND #s < :c", {":a": A, ":b": B, ":c": B})),
        ("Query", query("#p = :a AND #s > :b", {":a": A, ":b": {"S": ""}})),
        ("Query", query("#p = :a AND #s BETWEEN :b AND :a", {":a": A, ":b": B})),
        ("Query", query("#s = :a", {":a": A}, {"#s": "SK"})),
        ("Query", query("#p = :a", {":a": A}, {"#p": "PK"}, IndexName="conv-recency-index")),
        ("Query", query("#p = :a", {":a": A}, {"#p": "GSI2PK"}, IndexName="conversationId-index")),
        ("Query", query("#p = :a", {":a": A}, {"#p": "GSI5PK"}, IndexName="conv-recency-index", ConsistentRead=True)),
        ("Query", query("#p = :a", {":a": A}, GSI5, IndexName="conv-recency-index", FilterExpression="#s > :a")),
        ("Query", query("#p = :a", {":a": A}, {"#p": "PK"}, Limit=0)),
        ("Query", query("#p = :a", {":a": A}, {"#p": "GSI5PK"}, IndexName="conv-recency-index", ExclusiveStartKey=KEY)),
        ("BatchGetItem", {"RequestItems": {"t1": {"Keys": [KEY, dict(KEY)]}}}),
        ("BatchGetItem", {"RequestItems": {"t1": {"Keys": [{"PK": A, "SK": {"S": str(n)}} for n in range(101)]}}}),
        ("TransactWriteItems", {"TransactItems": []}),
        ("TransactWriteItems", {"TransactItems": [put(), {"Delete": {"Key": KEY}}]}),
        ("TransactWriteItems", {"TransactItems": [put(SK={"S": str(n)}) for n in range(101)]}),
        ("TransactWriteItems", {"TransactItems": [put(SK={"S": str(n)}, t={"S": "x" * 400_000}) for n in range(11)]}),
        ("TransactWriteItems", {"TransactItems": [put()], "ClientRequestToken": "x" * 37}),
    ],
)
def test_what_aws_refuses_is_refused(operation: str, params: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        STRICT.check(operation, params)


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("PutItem", {"Item": {**KEY, "text": {"S": ""}, "GSI5PK": A}}),
        ("UpdateItem", update("SET #a.#b = :v, #a.#c = :v REMOVE #d", NAMES, {":v": N1})),
        ("Query", query("#p = :a AND #s BETWEEN :a AND :b", {":a": A, ":b": B}, FILTERED, FilterExpression="#t > :a")),
        ("TransactWriteItems", {"TransactItems": [put(SK={"S": str(n)}) for n in range(100)]}),
    ],
)
def test_what_aws_takes_is_taken(operation: str, params: dict[str, Any]) -> None:
    STRICT.check(operation, params)
