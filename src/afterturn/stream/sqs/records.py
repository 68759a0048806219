"""Records as SQS keeps them: what is sent, and what a received message holds. Pure.

Besides the body a message carries attributes: ``publishedAt`` (milliseconds since 1970, because SQS changes its own
time when it moves a message to a dead letter queue), ``conversation`` and ``consumer`` (in the retry queue, and if the
group had to be hashed). A dead letter carries further ones that begin with ``deadLetter``.
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

GIVEN_UP_REASON = f"received {MAX_RECEIVES} times without success"

SYSTEM_ATTRIBUTES = ["ApproximateReceiveCount", "MessageGroupId", "SentTimestamp", "SequenceNumber"]
CUSTOM_ATTRIBUTES = ["All"]

_END_OF_TIME = 253_402_300_799_999
"""Milliseconds from 1970 to the end of the year 9999."""


@dataclass(frozen=True, slots=True)
class SqsMessage:
    """A message as it was received, by a request or a Lambda event. ``group``: its message group; empty: none."""

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
    """What a receipt holds of its message."""

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
    return {
        "MessageBody": event.to_json(),
        "MessageGroupId": group,
        "MessageDeduplicationId": deduplication_id(event.event_id, consumer, emission),
        "MessageAttributes": _attributes(
            publishedAt=now,
            conversation=event.conversation_id if group != event.conversation_id else None,
            consumer=consumer,
        ),
    }


def received(response: Mapping[str, Any]) -> SqsMessage:
    """A message from the response of ReceiveMessage."""
    custom = response.get("MessageAttributes") or {}
    return _message(
        response["MessageId"],
        response["ReceiptHandle"],
        response["Body"],
        response.get("Attributes") or {},
        {name: value["StringValue"] for name, value in custom.items() if "StringValue" in value},
    )


def invoked(record: Mapping[str, Any]) -> SqsMessage:
    """A message from a record of a Lambda event, which spells the keys differently.

    Raises ValueError for a record without an id, which no response could name.
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
    """A message as the bridge receives it."""
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


def dead_letter_message(delivery: Delivery, reason: str) -> dict[str, Any]:
    """The parameters of SendMessage that make a dead letter of a delivery.

    Each has a group of its own, so that a list is complete: SQS delivers no more of a group while some of it is in
    flight. The deduplication id is new at every receive, so a record that was redriven can become a dead letter again.
    """
    handle = Handle.of(delivery.receipt)
    return _dead_letter_message(
        handle.message_id,
        delivery.body,
        f"{handle.message_id}/{delivery.receives}",
        publishedAt=handle.published_at,
        deadLetterReason=reason,
        deadLetterReceives=delivery.receives,
        deadLetterGroup=handle.group or None,
        conversation=handle.conversation or None,
        consumer=delivery.consumer,
    )


def regrouped(message: SqsMessage) -> dict[str, Any]:
    """The parameters of SendMessage that give a dead letter moved by SQS a group of its own."""
    return _dead_letter_message(
        message.id,
        message.body,
        f"{message.id}/{message.receives}",
        publishedAt=message.published_at,
        deadLetterReason=GIVEN_UP_REASON,
        deadLetterReceives=MAX_RECEIVES,
        deadLetterAt=message.sent_at,
        deadLetterOrder=message.sequence,
        deadLetterGroup=message.group or None,
        conversation=message.conversation or None,
        consumer=message.consumer,
    )


def dead_letter_id(message: SqsMessage) -> str:
    """The id of a dead letter: that of the original message, whoever moved it."""
    return message.attributes.get("deadLetterId") or message.id


def died_at(message: SqsMessage) -> int:
    """When it became a dead letter. SQS sets the sent time anew when it moves a message."""
    return _whole(message.attributes.get("deadLetterAt"), message.sent_at)


def order_of(message: SqsMessage) -> int:
    """The order among dead letters of the same time."""
    return _whole(message.attributes.get("deadLetterOrder"), message.sequence)


def is_regrouped(message: SqsMessage) -> bool:
    """Whether a dead letter has a group of its own."""
    return "deadLetterId" in message.attributes


def dead_letter(queue: Queue, message: SqsMessage) -> DeadLetter:
    """A dead letter as it is listed. SQS itself moves without a reason, after MAX_RECEIVES receives."""
    attributes = message.attributes
    return DeadLetter(
        id=dead_letter_id(message),
        queue=queue,
        group=message.conversation,
        body=message.body,
        reason=attributes.get("deadLetterReason") or GIVEN_UP_REASON,
        receives=_whole(attributes.get("deadLetterReceives"), MAX_RECEIVES),
        published_at=_time(message.published_at),
        died_at=_time(died_at(message)),
        consumer=message.consumer,
    )


def redriven(message: SqsMessage, emission: str) -> dict[str, Any]:
    """The parameters of SendMessage that redrive a dead letter: its group and body, and a new deduplication id."""
    group = message.attributes.get("deadLetterGroup", "")
    return {
        "MessageBody": message.body,
        "MessageGroupId": group if is_legal(group) else message.group,
        "MessageDeduplicationId": legal_id(f"{emission}/{dead_letter_id(message)}"),
        "MessageAttributes": _attributes(
            publishedAt=message.published_at,
            conversation=message.attributes.get("conversation") or None,
            consumer=message.consumer or None,
        ),
    }


def size_of(entry: Mapping[str, Any]) -> int:
    """An upper bound of a message's size as SQS counts it: body and attributes in bytes."""
    attributes = entry["MessageAttributes"].items()
    return len(entry["MessageBody"].encode()) + sum(
        len(name) + len(value["DataType"]) + len(value["StringValue"].encode()) for name, value in attributes
    )


def after_receive(receipt: Receipt, after: timedelta, now: int) -> int:
    """Seconds for ChangeMessageVisibility: rounded up, and at most what is left of the twelve hours of a receive."""
    seconds = -(-after // timedelta(seconds=1))
    held = -(-(now - Handle.of(receipt).received_at) // 1000)
    return max(0, min(seconds, 43_200 - held - (5 if held else 0)))


def _dead_letter_message(origin: str, body: str, deduplication: str, **attributes: str | int | None) -> dict[str, Any]:
    return {
        "MessageBody": body,
        "MessageGroupId": legal_id(f"dead-letter/{origin}"),
        "MessageDeduplicationId": legal_id(deduplication),
        "MessageAttributes": _attributes(deadLetterId=origin, **attributes),
    }


def _attributes(**values: str | int | None) -> dict[str, dict[str, str]]:
    """Message attributes; None leaves one out."""
    return {
        name: {"DataType": "String" if isinstance(value, str) else "Number", "StringValue": str(value)}
        for name, value in values.items()
        if value is not None
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


def _whole(text: str | None, otherwise: int) -> int:
    """A number in a message, which anybody may have written; no number of SQS is longer than a sequence number."""
    return int(text) if text is not None and len(text) <= 20 and text.isascii() and text.isdigit() else otherwise


def _time(millis: int) -> datetime:
    return EPOCH + timedelta(milliseconds=min(millis, _END_OF_TIME))


_LEGAL = re.compile(r"[!-~]{1,128}\Z")
_MARK = "~"


def legal_id(text: str) -> str:
    """An id that SQS accepts, different for different texts; a text that is accepted stays as it is.

    A text that is too long or has other characters becomes ``~`` and its SHA-256. So does a text that begins with
    ``~``, so that no text equals another one's hash.

    >>> legal_id("c1")
    'c1'
    """
    if _LEGAL.match(text) and not text.startswith(_MARK):
        return text
    return _MARK + hashlib.sha256(text.encode()).hexdigest()


def is_legal(text: str) -> bool:
    """Whether SQS accepts it as it is."""
    return _LEGAL.match(text) is not None


def group_id(conversation_id: str, consumer: str | None) -> str:
    """The message group: the conversation; in the retry queue, consumer and conversation.

    Unambiguous, because a consumer's name has no slash.
    """
    return legal_id(conversation_id if consumer is None else f"{consumer}/{conversation_id}")


def deduplication_id(event_id: str, consumer: str | None, emission: str | None) -> str:
    """The same when a send is retried, and a new one for every emission of an event.

    Unambiguous: neither consumer nor emission has a slash or a colon, and an event id begins with ``turn:``.
    """
    return legal_id("/".join(part for part in (consumer, emission, event_id) if part is not None))
