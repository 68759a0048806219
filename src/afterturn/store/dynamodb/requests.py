"""Requests to the table as data, their expressions, and plain values as DynamoDB's attribute values and back.

Every attribute name is replaced by a placeholder, because of hyphens, dots, colons and DynamoDB's reserved words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from afterturn.aws.table import Index
from afterturn.store.dynamodb import keys
from afterturn.store.dynamodb.keys import Key


class ExpressionTerms:
    """The names and values of one request's expressions; the same name or value has one placeholder."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, Any] = {}

    def name(self, *path: str) -> str:
        """A document path, step by step."""
        return ".".join(self._names.setdefault(step, f"#n{len(self._names)}") for step in path)

    def value(self, value: Any) -> str:
        for placeholder, known in self._values.items():
            if type(known) is type(value) and known == value:
                return placeholder
        placeholder = f":v{len(self._values)}"
        self._values[placeholder] = value
        return placeholder

    def params(self) -> dict[str, Any]:
        params: dict[str, Any] = {}
        if self._names:
            params["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in self._names.items()}
        if self._values:
            params["ExpressionAttributeValues"] = {name: to_value(value) for name, value in self._values.items()}
        return params


Condition = Callable[[ExpressionTerms], str]


def exists(*path: str) -> Condition:
    return lambda terms: f"attribute_exists({terms.name(*path)})"


def missing(*path: str) -> Condition:
    return lambda terms: f"attribute_not_exists({terms.name(*path)})"


def equals(*path: str, value: Any) -> Condition:
    return lambda terms: f"{terms.name(*path)} = {terms.value(value)}"


def below(*path: str, value: Any) -> Condition:
    return lambda terms: f"{terms.name(*path)} < {terms.value(value)}"


def unchanged(*path: str, value: Any) -> Condition:
    """The attribute is as it was read, possibly missing."""
    return missing(*path) if value is None else equals(*path, value=value)


def all_of(*conditions: Condition) -> Condition:
    return lambda terms: " AND ".join(condition(terms) for condition in conditions)


def any_of(*conditions: Condition) -> Condition:
    return lambda terms: f"({' OR '.join(condition(terms) for condition in conditions)})"


IS_NEW = missing("PK")
IS_THERE = exists("PK")


class WriteVerb(StrEnum):
    PUT = "Put"
    UPDATE = "Update"
    DELETE = "Delete"


@dataclass(frozen=True, slots=True)
class WriteAction:
    """One write of one item, alone or in a transaction.

    ``item``: the item of a put. ``sets``: attributes to write; None removes one. ``adds``: numbers to add.
    """

    verb: WriteVerb
    key: Key
    item: Attributes = field(default_factory=dict)
    sets: Mapping[str, Any] = field(default_factory=dict)
    adds: Mapping[str, int] = field(default_factory=dict)
    condition: Condition | None = None

    def params(self, table: str) -> dict[str, Any]:
        terms = ExpressionTerms()
        params: dict[str, Any] = {"TableName": table}
        if self.verb is WriteVerb.PUT:
            params["Item"] = {**key_item(self.key), **_item(self.item)}
        else:
            params["Key"] = key_item(self.key)
        if self.verb is WriteVerb.UPDATE:
            params["UpdateExpression"] = self._update(terms)
        if self.condition is not None:
            params["ConditionExpression"] = self.condition(terms)
        return params | terms.params()

    def _update(self, terms: ExpressionTerms) -> str:
        sets = [f"{terms.name(name)} = {terms.value(value)}" for name, value in self.sets.items() if value is not None]
        sets += [
            f"{terms.name(name)} = if_not_exists({terms.name(name)}, {terms.value(0)}) + {terms.value(number)}"
            for name, number in self.adds.items()
        ]
        gone = [terms.name(name) for name, value in self.sets.items() if value is None]
        clauses = [f"SET {', '.join(sets)}"] if sets else []
        if gone:
            clauses.append(f"REMOVE {', '.join(gone)}")
        return " ".join(clauses)


def put(key: Key, item: Attributes, condition: Condition | None = None) -> WriteAction:
    return WriteAction(WriteVerb.PUT, key, item=item, condition=condition)


def update(
    key: Key, sets: Mapping[str, Any], condition: Condition | None = None, adds: Mapping[str, int] | None = None
) -> WriteAction:
    return WriteAction(WriteVerb.UPDATE, key, sets=sets, adds=adds or {}, condition=condition)


def delete(key: Key, condition: Condition | None = None) -> WriteAction:
    return WriteAction(WriteVerb.DELETE, key, condition=condition)


@dataclass(frozen=True, slots=True)
class Query:
    """Items of one partition, in the order of their sort keys.

    ``within`` bounds the sort key, both ends inclusive; ``since`` is its lower end alone, ``above`` and ``below``
    exclude their bound. DynamoDB takes one of these. ``only`` is a filter over attributes that are no key: it narrows
    the answer, not the read.
    """

    partition: str
    index: Index | None = None
    within: tuple[str, str] | None = None
    since: str | None = None
    above: str | None = None
    below: str | None = None
    newest_first: bool = False
    only: Condition | None = None
    names: Sequence[str] = ()

    def params(self, table: str) -> dict[str, Any]:
        terms = ExpressionTerms()
        pk, sk = (self.index.pk, self.index.sk) if self.index else ("PK", "SK")
        condition = equals(pk, value=self.partition)(terms)
        if bound := self._bound(terms, sk):
            condition += f" AND {bound}"
        params: dict[str, Any] = {
            "TableName": table,
            "KeyConditionExpression": condition,
            "ScanIndexForward": not self.newest_first,
        }
        if self.index:
            params["IndexName"] = self.index.name
        else:
            params["ConsistentRead"] = True
        if self.only is not None:
            params["FilterExpression"] = self.only(terms)
        if self.names:
            params["ProjectionExpression"] = ", ".join(terms.name(name) for name in self.names)
        return params | terms.params()

    def _bound(self, terms: ExpressionTerms, sk: str) -> str:
        if self.within is not None:
            return f"{terms.name(sk)} BETWEEN {terms.value(self.within[0])} AND {terms.value(self.within[1])}"
        for bound, sign in ((self.since, ">="), (self.above, ">"), (self.below, "<")):
            if bound is not None:
                return f"{terms.name(sk)} {sign} {terms.value(bound)}"
        return ""


def all_starting(prefix: str) -> tuple[str, str]:
    """Bounds of a query for every sort key that begins with a prefix, which ends in ``#``; ``$`` is next to it."""
    return prefix, prefix[:-1] + "$"


def key_item(key: Key) -> dict[str, Any]:
    return {"PK": to_value(key[0]), "SK": to_value(key[1])}


def _item(plain: Attributes) -> dict[str, Any]:
    return {name: to_value(value) for name, value in plain.items() if value is not None}


Attributes = dict[str, Any]
"""An item in plain values: str, int, bool, list and dict. None stands for an attribute that is not there."""

MAX_ITEM_BYTES = 400 * 1024
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
MAX_TRANSACTION_ITEMS = 100


def to_value(value: Any) -> dict[str, Any]:
    """One attribute value. Raises InvalidRecord for text that cannot be encoded."""
    if isinstance(value, str):
        if not value.isascii():
            keys.encoded(value)
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, Mapping):
        return {"M": to_item(value)}
    return {"L": [to_value(item) for item in value]}


def to_item(plain: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: to_value(value) for name, value in plain.items() if value is not None}


def from_value(value: Mapping[str, Any]) -> Any:
    """A plain value; kinds that afterturn does not write come back as they are, or as None."""
    kind, content = next(iter(value.items()))
    if kind == "N":
        return int(content) if content.lstrip("-").isdecimal() else float(content)
    if kind == "M":
        return from_item(content)
    if kind == "L":
        return [from_value(item) for item in content]
    return None if kind == "NULL" else content


def from_item(item: Mapping[str, Any]) -> Attributes:
    return {name: from_value(value) for name, value in item.items()}


def item_bytes(plain: Mapping[str, Any]) -> int:
    """The size of an item as DynamoDB counts it: names and values in UTF-8, three bytes and one an element for lists
    and maps. (Developer guide, "DynamoDB item sizes and formats".)"""
    return sum(_text_bytes(name) + _value_bytes(value) for name, value in plain.items() if value is not None)


def _value_bytes(value: Any) -> int:
    if isinstance(value, str):
        return _text_bytes(value)
    if isinstance(value, bool):
        return 1
    if isinstance(value, int):
        return (len(str(abs(value))) + 1) // 2 + 1 + (value < 0)
    if isinstance(value, Mapping):
        return 3 + len(value) + item_bytes(value)
    return 3 + sum(1 + _value_bytes(item) for item in value)


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(keys.encoded(text))
