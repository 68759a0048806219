"""Which key attributes a row should have for an index, and how they are written without undoing anything. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from afterturn.aws.table import ENTITY, PHONE, PROPERTY_RECENCY, RECENCY, RECENCY_B, WORK_ORDER, Index
from afterturn.model import check_id
from afterturn.store.dynamodb import keys, rows
from afterturn.store.dynamodb.keys import Key
from afterturn.store.dynamodb.layout import LayoutKind, RecencyLayouts, Slot, SlotLayout
from afterturn.store.dynamodb.requests import (
    IS_THERE,
    Condition,
    WriteAction,
    all_of,
    equals,
    exists,
    missing,
    put,
    update,
)

_CONVERSATION = ("id", "rev", "createdAt", "lastMessageAt", "propertyId", "participants")
_ORDER = ("id", "conversationId", "propertyId", "category", "urgency", "messageId", "openedAt", "status")


@dataclass(frozen=True, slots=True)
class IndexTarget:
    """An index. ``slot_layout``: of a recency index, the layout of its rows; None if it is not written."""

    index: Index
    slot_layout: SlotLayout | None = None

    @classmethod
    def of(cls, index: Index, layouts: RecencyLayouts) -> IndexTarget:
        slot = {RECENCY: Slot.A, RECENCY_B: Slot.B}.get(index)
        return cls(index, next((each for each in layouts.write if each.slot is slot), None))

    def __str__(self) -> str:
        if self.index not in (RECENCY, RECENCY_B):
            return self.index.name
        return f"{self.index.name} ({self.slot_layout.layout if self.slot_layout else 'not written'})"

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes of a row to read."""
        return ("PK", "SK", *self.inputs, self.index.pk, self.index.sk)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The attributes from which the keys are derived."""
        return _ORDER if self.index is WORK_ORDER else _CONVERSATION

    @property
    def rows(self) -> Condition:
        """Which items of the table are rows of this index."""
        if self.index is WORK_ORDER:
            return lambda terms: f"begins_with({terms.name('SK')}, {terms.value(keys.WORK_ORDERS)})"
        return all_of(
            equals("SK", value=keys.META),
            lambda terms: f"begins_with({terms.name('PK')}, {terms.value('CONV#')})",
        )


@dataclass(frozen=True, slots=True)
class IndexKeys:
    """The key attributes of a row; None: it should not have one. ``problem``: why they are unknown."""

    keys: Mapping[str, str | None] = field(default_factory=dict)
    problem: str | None = None

    @property
    def is_indexed(self) -> bool:
        return self.problem is None and all(value is not None for value in self.keys.values())

    def is_met_by(self, item: Mapping[str, Any]) -> bool:
        return all(
            item.get(name) == value and (value is not None or name not in item) for name, value in self.keys.items()
        )


def expected_keys(item: Mapping[str, Any], target: IndexTarget) -> IndexKeys:
    """The keys that a row should have. Keys that cannot be derived are reported, never guessed."""
    if target.index is WORK_ORDER:
        return _order_keys(item)
    conversation_id = item.get("id")
    if not _is_id(conversation_id):
        return IndexKeys(problem="has no id")
    assert isinstance(conversation_id, str)
    if keys.meta(conversation_id) != key_of(item):
        return IndexKeys(problem="has an id that is not that of its key")
    if target.index is ENTITY:
        return IndexKeys({ENTITY.pk: keys.CONVERSATIONS, ENTITY.sk: conversation_id})
    if target.index is PHONE:
        return _phone_keys(item, conversation_id)
    return _recency_keys(item, conversation_id, target)


def stamp_keys(item: Mapping[str, Any], target: IndexTarget, keys_: Mapping[str, str | None]) -> WriteAction:
    """Write the key attributes only, on the condition that the row exists and is as it was read.

    So a write that came in between is not undone, and a row that was deleted does not come back.
    """
    unchanged = [_as_read(item, name) for name in (*target.inputs, target.index.pk, target.index.sk)]
    return update(key_of(item), dict(keys_), all_of(IS_THERE, *unchanged))


def month(item_keys: Mapping[str, str | None], target: IndexTarget) -> WriteAction | None:
    """The record of the month that a row of layout ``monthly`` is in; it has to be there before the row is."""
    if target.slot_layout is None or target.slot_layout.layout.kind is not LayoutKind.MONTHLY:
        return None
    name = str(item_keys[target.index.sk])[:7]
    return put(keys.month(name), {"kind": "recency month"})


def key_of(item: Mapping[str, Any]) -> Key:
    return item["PK"], item["SK"]


def name_of(item: Mapping[str, Any]) -> str:
    """How a report names a row: by its id, or by its key."""
    row_id = item.get("id")
    return row_id if isinstance(row_id, str) and row_id else f"{item['PK']} / {item['SK']}"


def _order_keys(item: Mapping[str, Any]) -> IndexKeys:
    try:
        return IndexKeys(
            {name: value for name, value in rows.urgency_attributes(rows.work_order(item)).items() if name != "urgency"}
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return IndexKeys(problem="is no whole work order")


def _phone_keys(item: Mapping[str, Any], conversation_id: str) -> IndexKeys:
    """A conversation without participants is rightly absent from this index."""
    participants = item.get("participants")
    if not participants:
        return IndexKeys({PHONE.pk: None, PHONE.sk: None})
    first = participants[0] if isinstance(participants, list) else None
    if not isinstance(first, str) or not first:
        return IndexKeys(problem="has participants that are none")
    return IndexKeys({PHONE.pk: keys.phone(first), PHONE.sk: keys.conversation(conversation_id)})


def _recency_keys(item: Mapping[str, Any], conversation_id: str, target: IndexTarget) -> IndexKeys:
    at = rows.time_or_none(item.get("lastMessageAt")) or rows.time_or_none(item.get("createdAt"))
    if target.index is not PROPERTY_RECENCY and target.slot_layout is None:
        return IndexKeys({target.index.pk: None, target.index.sk: None})
    if at is None:
        return IndexKeys(problem=f"carries no time: {_describe(item, 'lastMessageAt')}, {_describe(item, 'createdAt')}")
    if target.slot_layout is not None:
        return IndexKeys(dict(target.slot_layout.keys(at, conversation_id)))
    property_id = item.get("propertyId")
    if property_id is not None and not _is_id(property_id):
        return IndexKeys(problem=f"has no property that can be one: {_describe(item, 'propertyId')}")
    return IndexKeys(
        {PROPERTY_RECENCY.pk: keys.of_property(property_id), PROPERTY_RECENCY.sk: keys.recency(at, conversation_id)}
    )


def _as_read(item: Mapping[str, Any], name: str) -> Condition:
    if name not in item:
        return missing(name)
    value = item[name]
    if isinstance(value, str | bool | int):
        return equals(name, value=value)
    if value is None:
        return lambda terms: f"attribute_type({terms.name(name)}, {terms.value('NULL')})"
    return exists(name)


def _is_id(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(check_id(value))
    except ValueError:
        return False


def _describe(item: Mapping[str, Any], name: str) -> str:
    """The type of an attribute, without its value."""
    if name not in item:
        return f"no {name}"
    value = item[name]
    if isinstance(value, str):
        return f"{name} is no time" if value else f"{name} is empty"
    kind = {type(None): "null", bool: "a flag", int: "a number", float: "a number", list: "a list", dict: "a map"}
    return f"{name} is {kind.get(type(value), 'of another kind')}"
