"""Records as SQS keeps them: what is sent, and what a received message says. Pure.

Besides the body a message carries attributes: ``publishedAt`` (milliseconds since 1970; SQS sets its own time anew when
it moves a message to the dead letters), ``conversation`` and ``consumer`` (direct queue, and where the group had to be
hashed). A dead letter carries further ones that begin with ``letter``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from afterturn.clock import EPOCH
from afterturn.event import TurnSettled
from afterturn.stream.port import MAX_RECEIVES, DeadLetter, Delivery, Queue, Receipt

GIVEN_UP = f"received {MAX_RECEIVES} times without success"

SYSTEM_ATTRIBUTES = ["ApproximateReceiveCount", "MessageGroupId", "SentTimestamp", "SequenceNumber"]
CUSTOM_ATTRIBUTES = ["All"]

_END_OF_TIME = 253_402_300_799_999
"""Milliseconds from 1970 to the end of the year 9999."""


@dataclass(frozen=True, slots=True)
class SqsMessage:
    """A message as it was received, whichever way. ``group`` is the one of SQS; empty where there was none."""

    id: str
    handle: str
    body: str
    group: str
    receives: int
    sent_at: int
    sequence: int
    attributes: Mapping[str, str]

    @property
    def consumer(self) -> str | None:
        return self.attributes.get("consumer")

    @property
    def conversation(self) -> str:
        return self.attributes.get("conversation") or self.group

    @property
    def published_at(self) -> int:
        return _whole(self.attributes.get("publishedAt"), self.sent_at)


@dataclass(frozen=True, slots=True)
class Handle:
    """What a receipt has to remember of its message."""

    message_id: str
    receipt: str
    group: str
    conversation: str
    published_at: int
    received_at: int

    def to_text(self) -> str:
        return json.dumps(
            [self.message_id, self.receipt, self.group, self.conversation, self.published_at, self.received_at]
        )

    @classmethod
    def of(cls, receipt: Receipt) -> Handle:
        return cls(*json.loads(receipt.handle))


def outgoing(event: TurnSettled, consumer: str | None, emission: str | None, now: int) -> dict[str, Any]:
    """The parameters of SendMessage for an event."""
    group = group_id(event.conversation_id, consumer)
    attributes = {"publishedAt": _number(now)}
    if group != event.conversation_id:
        attributes["conversation"] = _string(event.conversation_id)
    if consumer is not None:
        attributes["consumer"] = _string(consumer)
    return {
        "MessageBody": event.to_json(),
        "MessageGroupId": group,
        "MessageDeduplicationId": deduplication_id(event.event_id, consumer, emission),
        "MessageAttributes": attributes,
    }


def received(answer: Mapping[str, Any]) -> SqsMessage:
    """A message from the answer of ReceiveMessage."""
    custom = answer.get("MessageAttributes") or {}
    return _message(
        answer["MessageId"],
        answer["ReceiptHandle"],
        answer["Body"],
        answer.get("Attributes") or {},
        {name: value["StringValue"] for name, value in custom.items() if "StringValue" in value},
    )


def invoked(record: Mapping[str, Any]) -> SqsMessage:
    """A message from a record of a Lambda event, which spells the keys its own way.

    Raises ValueError where the record cannot even be named in an answer.
    """
    custom = record.get("messageAttributes") or {}
    body = record.get("body")
    message_id = record.get("messageId")
    if not isinstance(message_id, str) or not message_id:
        raise ValueError("a record without messageId is not one of SQS")
    return _message(
        message_id,
        str(record.get("receiptHandle", "")),
        body if isinstance(body, str) else "",
        record.get("attributes") or {},
        {name: value["stringValue"] for name, value in custom.items() if "stringValue" in value},
    )


def delivery(queue: Queue, message: SqsMessage, received_at: int) -> Delivery:
    """A message as the bridge sees it."""
    handle = Handle(
        message_id=message.id,
        receipt=message.handle,
        group=message.group,
        conversation=message.conversation,
        published_at=message.published_at,
        received_at=received_at,
    )
    return Delivery(
        receipt=Receipt(queue, handle.to_text()),
        group=message.conversation,
        body=message.body,
        receives=message.receives,
        consumer=message.consumer,
    )


def dead_letter_message(given: Delivery, reason: str) -> dict[str, Any]:
    """The parameters of SendMessage that make a dead letter of a delivery.

    Its group is its own, so that a listing is not held up: SQS hands out no more of a group while some of it is in
    flight. The deduplication id is new at every receive: buried again, it is a letter again.
    """
    handle = Handle.of(given.receipt)
    return _dead_letter_message(
        handle.message_id,
        given.body,
        {
            "publishedAt": _number(handle.published_at),
            "letterReason": _string(reason),
            "letterReceives": _number(given.receives),
        },
        conversation=handle.conversation,
        consumer=given.consumer,
        group=handle.group,
        deduplication=f"{handle.message_id}/{given.receives}",
    )


def regrouped(message: SqsMessage) -> dict[str, Any]:
    """The parameters of SendMessage that give a letter which SQS moved a group of its own."""
    return _dead_letter_message(
        message.id,
        message.body,
        {
            "publishedAt": _number(message.published_at),
            "letterReason": _string(GIVEN_UP),
            "letterReceives": _number(MAX_RECEIVES),
            "letterDiedAt": _number(message.sent_at),
            "letterPlace": _number(message.sequence),
        },
        conversation=message.conversation,
        consumer=message.consumer,
        group=message.group,
        deduplication=f"{message.id}/{message.receives}",
    )


def dead_letter_id(message: SqsMessage) -> str:
    """The id of a dead letter: that of the message which died, whoever moved it here."""
    return message.attributes.get("letterId") or message.id


def died_at(message: SqsMessage) -> int:
    """When a letter died. SQS tells anew when a message was sent when it moves it here."""
    return _whole(message.attributes.get("letterDiedAt"), message.sent_at)


def order_of(message: SqsMessage) -> int:
    """The order of letters that died at the same time."""
    return _whole(message.attributes.get("letterPlace"), message.sequence)


def is_regrouped(message: SqsMessage) -> bool:
    """Whether a letter has a group of its own."""
    return "letterId" in message.attributes


def dead_letter(queue: Queue, message: SqsMessage) -> DeadLetter:
    """A letter as it is listed. SQS itself moves without a reason, after MAX_RECEIVES receives."""
    attributes = message.attributes
    return DeadLetter(
        id=dead_letter_id(message),
        queue=queue,
        group=message.conversation,
        body=message.body,
        reason=attributes.get("letterReason") or GIVEN_UP,
        receives=_whole(attributes.get("letterReceives"), MAX_RECEIVES),
        published_at=_time(message.published_at),
        died_at=_time(died_at(message)),
        consumer=message.consumer,
    )


def redriven(message: SqsMessage, emission: str) -> dict[str, Any]:
    """The parameters of SendMessage that put a letter back: its group and body, and a deduplication id never used."""
    attributes = {"publishedAt": _number(message.published_at)}
    for name in ("conversation", "consumer"):
        if value := message.attributes.get(name):
            attributes[name] = _string(value)
    group = message.attributes.get("letterGroup", "")
    if not is_legal(group):  # none, or a stranger's
        group = message.group
    return {
        "MessageBody": message.body,
        "MessageGroupId": group,
        "MessageDeduplicationId": legal_id(f"{emission}/{dead_letter_id(message)}"),
        "MessageAttributes": attributes,
    }


def size_of(entry: Mapping[str, Any]) -> int:
    """An upper bound of what SQS counts of a message: body and attributes in bytes."""
    attributes = entry["MessageAttributes"].items()
    return len(entry["MessageBody"].encode()) + sum(
        len(name) + len(value["DataType"]) + len(value["StringValue"].encode()) for name, value in attributes
    )


def after_receive(receipt: Receipt, after: timedelta, now: int) -> int:
    """Seconds for ChangeMessageVisibility: rounded up, and no more than what is left of twelve hours."""
    seconds = -(-after // timedelta(seconds=1))
    held = -(-(now - Handle.of(receipt).received_at) // 1000)
    return max(0, min(seconds, 43_200 - held - (5 if held else 0)))


def _dead_letter_message(
    origin: str,
    body: str,
    attributes: dict[str, Any],
    *,
    conversation: str,
    consumer: str | None,
    group: str,
    deduplication: str,
) -> dict[str, Any]:
    attributes["letterId"] = _string(origin)
    if group:
        attributes["letterGroup"] = _string(group)
    if conversation:
        attributes["conversation"] = _string(conversation)
    if consumer is not None:
        attributes["consumer"] = _string(consumer)
    return {
        "MessageBody": body,
        "MessageGroupId": legal_id(f"letter/{origin}"),
        "MessageDeduplicationId": legal_id(deduplication),
        "MessageAttributes": attributes,
    }


def _message(
    message_id: str, handle: str, body: str, system: Mapping[str, str], attributes: Mapping[str, str]
) -> SqsMessage:
    return SqsMessage(
        id=message_id,
        handle=handle,
        body=body,
        group=system.get("MessageGroupId") or "",
        receives=_whole(system.get("ApproximateReceiveCount"), 1),
        sent_at=_whole(system.get("SentTimestamp"), 0),
        sequence=_whole(system.get("SequenceNumber"), 0),
        attributes=attributes,
    )


def _string(text: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": text}


def _number(value: int) -> dict[str, str]:
    return {"DataType": "Number", "StringValue": str(value)}


def _whole(text: str | None, otherwise: int) -> int:
    """A number out of a message that anybody may have written; none of SQS is longer than a sequence number."""
    return int(text) if text is not None and len(text) <= 20 and text.isascii() and text.isdigit() else otherwise


def _time(millis: int) -> datetime:
    return EPOCH + timedelta(milliseconds=min(millis, _END_OF_TIME))


_LEGAL = re.compile(r"[!-~]{1,128}\Z")
_MARK = "~"


def legal_id(text: str) -> str:
    """A legal id for any text, another one for every other text; a legal text stays as it is.

    What is too long or holds other characters becomes ``~`` and its SHA-256. A text that begins with ``~`` becomes one,
    too, so that no text is taken for another one's hash.

    >>> legal_id("c1")
    'c1'
    """
    if _LEGAL.match(text) and not text.startswith(_MARK):
        return text
    return _MARK + hashlib.sha256(text.encode()).hexdigest()


def is_legal(text: str) -> bool:
    """Whether SQS takes it as it is."""
    return _LEGAL.match(text) is not None


def group_id(conversation_id: str, consumer: str | None) -> str:
    """The message group: the conversation; in the direct queue, consumer and conversation.

    Unambiguous, because the name of a consumer holds no slash.
    """
    return legal_id(conversation_id if consumer is None else f"{consumer}/{conversation_id}")


def deduplication_id(event_id: str, consumer: str | None, emission: str | None) -> str:
    """The same for the same send tried again, and another one for every emission of an event.

    Unambiguous: neither consumer nor emission holds a slash or a colon, and an event id begins with ``turn:``.
    """
    return legal_id("/".join(part for part in (consumer, emission, event_id) if part is not None))
