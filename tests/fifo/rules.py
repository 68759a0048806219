"""What SQS takes in a request; anything else is refused. Pure.

Source: the SQS API reference (SendMessage, SendMessageBatch, ReceiveMessage, ChangeMessageVisibility) and the quotas
pages of the SQS developer guide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.fifo.errors import FifoError, invalid_parameter

MAX_BATCH = 10
MAX_VISIBILITY_S = 43_200
MAX_WAIT_S = 20
MAX_ATTRIBUTES = 10

_ID = re.compile(r"[!-~]{1,128}\Z")
_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}\Z")
_NOT_IN_BODIES = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ATTRIBUTE_NAME = re.compile(r"(?!\.)(?!.*\.\.)(?!(?i:aws\.|amazon\.))[A-Za-z0-9_.-]{1,256}(?<!\.)\Z")
_ATTRIBUTE_TYPE = re.compile(r"(String|Number|Binary)(\.[^.]{1,240})?\Z")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?\Z")

SEND_KEYS = frozenset(
    {"MessageBody", "MessageGroupId", "MessageDeduplicationId", "MessageAttributes", "MessageSystemAttributes"}
)


def check_keys(operation: str, given: Mapping[str, Any], *, required: Sequence[str], allowed: Sequence[str]) -> None:
    """As the SDK does before it sends anything: a missing or unknown parameter is the caller's mistake."""
    missing = [key for key in required if given.get(key) is None]
    unknown = given.keys() - {*required, *allowed}
    if missing or unknown:
        raise TypeError(f"{operation}: missing {missing}, unknown {sorted(unknown)}")


def check_group(entry: Mapping[str, Any]) -> None:
    """Every message of a FIFO queue has a group and a deduplication id."""
    if entry.get("MessageGroupId") is None:
        raise FifoError("MissingParameter", "The request must contain the parameter MessageGroupId.")
    if entry.get("MessageDeduplicationId") is None:
        raise FifoError(
            "InvalidParameterValue",
            "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided "
            "explicitly",
        )
    if entry.get("DelaySeconds") is not None:
        reason = "The request include parameter that is not valid for this queue type."
        raise invalid_parameter("DelaySeconds", entry["DelaySeconds"], reason)


def check_ids(entry: Mapping[str, Any]) -> None:
    """1 to 128 of letters, digits and punctuation."""
    for name in ("MessageGroupId", "MessageDeduplicationId"):
        if not _ID.match(entry[name]):
            reason = f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
            raise invalid_parameter(name, entry[name], reason)


def check_message(entry: Mapping[str, Any], max_bytes: int) -> None:
    """Body and attributes: the characters of XML 1.0, something in it, and not too large."""
    body = entry["MessageBody"]
    if not body:
        raise FifoError("MissingParameter", "The request must contain the parameter MessageBody.")
    if _NOT_IN_BODIES.search(body):
        raise FifoError("InvalidMessageContents", "The message contains characters outside the allowed set.")
    _check_attributes(entry.get("MessageAttributes") or {})
    if size_of(entry) > max_bytes:
        reason = f"One or more parameters are invalid. Reason: Message must be shorter than {max_bytes} bytes."
        raise FifoError("InvalidParameterValue", reason)


def size_of(entry: Mapping[str, Any]) -> int:
    """Bytes of body and attributes, which count together."""
    attributes: Mapping[str, Any] = entry.get("MessageAttributes") or {}
    size = len(entry["MessageBody"].encode("utf-8", "surrogatepass"))
    for name, value in attributes.items():
        size += len(name.encode()) + len(value["DataType"].encode())
        size += len(value.get("BinaryValue", b"")) + len(value.get("StringValue", "").encode("utf-8", "surrogatepass"))
    return size


def check_entries(entries: Sequence[Mapping[str, Any]]) -> None:
    """What makes SQS refuse a batch as a whole."""
    if not entries:
        raise FifoError("EmptyBatchRequest", "There should be at least one entry in the request.")
    if len(entries) > MAX_BATCH:
        raise FifoError(
            "TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are {MAX_BATCH}. You have sent {len(entries)}.",
        )
    names = [entry["Id"] for entry in entries]
    for name in names:
        if not _ENTRY_ID.match(name):
            raise FifoError(
                "InvalidBatchEntryId",
                "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
                "It can be at most 80 letters long.",
            )
    for name in names:
        if names.count(name) > 1:
            raise FifoError("BatchEntryIdsNotDistinct", f"Id {name} repeated.")


def check_range(name: str, value: int, low: int, high: int) -> None:
    """A number of seconds or messages that is out of range is refused, never cut."""
    if type(value) is not int or not low <= value <= high:
        raise invalid_parameter(name, value, f"Must be between {low} and {high}, if provided.")


def chosen(attributes: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
    """The message attributes that a receive asks for: by name, by prefix (``x.*``), or all."""
    return {name: value for name, value in attributes.items() if any(_is_wanted(name, one) for one in wanted)}


def _is_wanted(name: str, pattern: str) -> bool:
    if pattern in {"All", ".*"}:
        return True
    return name.startswith(pattern[:-2]) if pattern.endswith(".*") else name == pattern


def _check_attributes(attributes: Mapping[str, Any]) -> None:
    if len(attributes) > MAX_ATTRIBUTES:
        reason = f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum [{MAX_ATTRIBUTES}]."
        raise FifoError("InvalidParameterValue", reason)
    for name, value in attributes.items():
        kind = _ATTRIBUTE_TYPE.match(value.get("DataType", ""))
        text = value.get("StringValue")
        if not _ATTRIBUTE_NAME.match(name):
            raise FifoError("InvalidParameterValue", f"The message attribute name '{name}' is invalid.")
        if kind is None:
            raise FifoError("InvalidParameterValue", f"The type of message attribute '{name}' is invalid.")
        if kind[1] == "Binary":
            continue
        if not text:
            raise FifoError("InvalidParameterValue", f"The message attribute '{name}' must contain a non-empty value.")
        if _NOT_IN_BODIES.search(text):
            raise FifoError("InvalidParameterValue", f"Invalid binary character in message attribute '{name}'.")
        if kind[1] == "Number" and not _NUMBER.match(text):
            raise FifoError("InvalidParameterValue", f"Can't cast the value of message attribute '{name}' to a number.")
