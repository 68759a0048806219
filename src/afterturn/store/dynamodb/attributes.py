"""Plain values as DynamoDB's attribute values and back, and how large they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afterturn.errors import InvalidRecord

Plain = dict[str, Any]
"""An item in plain values: str, int, bool, list and dict. None stands for an attribute that is not there."""

MAX_ITEM_BYTES = 400 * 1024
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
MAX_TRANSACTION_ITEMS = 100


def to_value(value: Any) -> dict[str, Any]:
    """One attribute value. Raises InvalidRecord for text that cannot be encoded."""
    if isinstance(value, str):
        return {"S": value if value.isascii() else encodable(value)}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, Mapping):
        return {"M": to_item(value)}
    return {"L": [to_value(one) for one in value]}


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
        return [from_value(one) for one in content]
    return None if kind == "NULL" else content


def from_item(item: Mapping[str, Any]) -> Plain:
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
    return 3 + sum(1 + _value_bytes(one) for one in value)


def _text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(encodable(text).encode())


def encodable(text: str) -> str:
    """The text; raises InvalidRecord where it cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = f"has a lone surrogate at character {error.start}, which no encoding can hold"
        raise InvalidRecord("", problem) from None
    return text
