"""One FIFO queue: order and blocking by group, deduplication, visibility, receive counts, the way to the dead letters.

Source: the SQS developer guide on FIFO delivery logic, exactly-once processing, visibility timeouts and dead letters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.fifo.errors import FifoError, invalid_parameter
from tests.fifo.rules import MAX_VISIBILITY_S, chosen

DEDUPLICATION_MS = 300_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Quotas of SQS, to be made small in tests."""

    message_bytes: int = 1_048_576
    in_flight: int = 120_000
    look_ahead: int = 120_000
    retention_s: int = 345_600


@dataclass(slots=True)
class _Message:
    id: str
    body: str
    group: str
    deduplication_id: str
    attributes: Mapping[str, Any]
    sent_at: int
    sequence: int
    receives: int = 0
    first_received_at: int = 0
    received_at: int = 0
    visible_at: int = 0
    handle: str = ""
    deleted: bool = False

    def in_flight(self, now: int) -> bool:
        return self.visible_at > now


@dataclass(frozen=True, slots=True)
class _Attempt:
    at: int
    taken: tuple[tuple[_Message, str, int], ...]
    visibility_ms: int


@dataclass(slots=True)
class FifoQueue:
    """All times in whole milliseconds since 1970. ``dead``: where a message goes after ``max_receives``."""

    name: str
    visibility_s: int = 30
    dead: FifoQueue | None = None
    max_receives: int = 0
    limits: Limits = field(default_factory=Limits)
    _messages: dict[int, _Message] = field(default_factory=dict)
    _remembered: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    _handles: dict[str, _Message] = field(default_factory=dict)
    _attempts: dict[str, _Attempt] = field(default_factory=dict)
    _made: int = 0

    def send(self, entry: Mapping[str, Any], now: int) -> dict[str, Any]:
        """Append a message, unless its deduplication id was taken within five minutes; both answer the same.

        The memory outlives the message: it counts from the first send, also after a delete.
        """
        key = entry["MessageDeduplicationId"]
        sent_at, message_id, sequence = self._remembered.get(key, (-DEDUPLICATION_MS, "", 0))
        if now - sent_at >= DEDUPLICATION_MS:
            sequence = self._next()
            message_id = _uuid(f"{self.name}/{sequence}")
            self._remembered[key] = (now, message_id, sequence)
            self._append(
                _Message(
                    id=message_id,
                    body=entry["MessageBody"],
                    group=entry["MessageGroupId"],
                    deduplication_id=key,
                    attributes=dict(entry.get("MessageAttributes") or {}),
                    sent_at=now,
                    sequence=sequence,
                )
            )
        digest = hashlib.md5(entry["MessageBody"].encode(), usedforsecurity=False).hexdigest()
        return {"MessageId": message_id, "MD5OfMessageBody": digest, "SequenceNumber": f"{sequence:020d}"}

    def receive(self, limit: int, visibility_s: int | None, attempt: str | None, now: int) -> list[_Message]:
        """The next messages: nothing of a group that has any message in flight, in order within each group.

        A message that was received ``max_receives`` times moves to the dead letters instead, and does not block.
        """
        self._expire(now)
        visibility_ms = 1000 * (self.visibility_s if visibility_s is None else visibility_s)
        if attempt is not None and (again := self._again(attempt, now)) is not None:
            return again
        room = self.limits.in_flight - sum(message.in_flight(now) for message in self._messages.values())
        taken: list[_Message] = []
        for message in self._available(now):
            if len(taken) >= min(limit, room):
                break
            if self.dead is not None and message.receives >= self.max_receives:
                self._move(message, now)
                continue
            self._take(message, visibility_ms, now)
            taken.append(message)
        if attempt is not None:
            kept = tuple((message, message.handle, message.visible_at) for message in taken)
            self._attempts[attempt] = _Attempt(now, kept, visibility_ms)
        return taken

    def delete(self, handle: str, now: int) -> None:
        """Forget a message; again is fine. An expired receipt handle is refused, because this is a FIFO queue."""
        message = self._handles.get(handle)
        if message is None:
            raise FifoError("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
        if message.deleted and message.handle == handle:
            return
        if message.handle != handle or not message.in_flight(now):
            raise invalid_parameter("ReceiptHandle", handle, "The receipt handle has expired.")
        message.deleted = True
        self._messages.pop(message.sequence, None)

    def change_visibility(self, handle: str, seconds: int, now: int) -> None:
        """Let a message stay invisible for so long from now, but at most twelve hours from its receive."""
        message = self._handles.get(handle)
        if message is None:
            raise FifoError("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
        if message.deleted or message.handle != handle or not message.in_flight(now):
            reason = "Message does not exist or is not available for visibility timeout change."
            raise invalid_parameter("ReceiptHandle", handle, reason)
        if now + 1000 * seconds > message.received_at + 1000 * MAX_VISIBILITY_S:
            reason = f"Total VisibilityTimeout for the message is beyond the limit [{MAX_VISIBILITY_S} seconds]"
            raise invalid_parameter("VisibilityTimeout", seconds, reason)
        message.visible_at = now + 1000 * seconds

    def counts(self, now: int) -> tuple[int, int]:
        """How many messages are visible, and how many in flight."""
        self._expire(now)
        flying = sum(message.in_flight(now) for message in self._messages.values())
        return len(self._messages) - flying, flying

    def oldest(self) -> int | None:
        """When the oldest message was sent: what CloudWatch tells as ``ApproximateAgeOfOldestMessage``."""
        return min((message.sent_at for message in self._messages.values()), default=None)

    def _available(self, now: int) -> Iterator[_Message]:
        """What a receive may take. SQS looks no further than at the first 120,000 messages of a queue."""
        seen = list(self._messages.values())[: self.limits.look_ahead]
        blocked = {message.group for message in self._messages.values() if message.in_flight(now)}
        return (message for message in seen if message.group not in blocked)

    def _take(self, message: _Message, visibility_ms: int, now: int) -> None:
        message.receives += 1
        message.first_received_at = message.first_received_at or now
        message.received_at = now
        message.visible_at = now + visibility_ms
        message.handle = f"{self.name}:{message.id}:{message.receives}"
        self._handles[message.handle] = message

    def _again(self, attempt: str, now: int) -> list[_Message] | None:
        """The same messages for the same attempt within five minutes, if none of them was touched since."""
        known = self._attempts.get(attempt)
        if known is None or now - known.at >= DEDUPLICATION_MS:
            return None
        for message, handle, visible_at in known.taken:
            if message.deleted or message.handle != handle or message.visible_at != visible_at:
                return None
            if not message.in_flight(now):
                return None
        for message, _, _ in known.taken:
            message.visible_at = now + known.visibility_ms
        kept = tuple((message, message.handle, message.visible_at) for message, _, _ in known.taken)
        self._attempts[attempt] = replace(known, taken=kept)
        return [message for message, _, _ in known.taken]

    def _move(self, message: _Message, now: int) -> None:
        """To the dead letters: the message id stays and becomes the deduplication id; the time of sending is new."""
        assert self.dead is not None
        del self._messages[message.sequence]
        message.deleted = True
        moved = replace(
            message,
            deduplication_id=message.id,
            sent_at=now,
            sequence=self.dead._next(),
            visible_at=0,
            handle="",
            deleted=False,
        )
        self.dead._remembered[message.id] = (now, message.id, moved.sequence)
        self.dead._append(moved)

    def _append(self, message: _Message) -> None:
        self._messages[message.sequence] = message

    def _expire(self, now: int) -> None:
        for message in list(self._messages.values()):
            if now - message.sent_at >= 1000 * self.limits.retention_s:
                del self._messages[message.sequence]
                message.deleted = True

    def _next(self) -> int:
        self._made += 1
        return self._made


def told(message: _Message, system: Sequence[str], custom: Sequence[str]) -> dict[str, Any]:
    """A message as ``ReceiveMessage`` answers it; attributes only where they were asked for."""
    attributes = {
        "SenderId": "AIDAEXAMPLE",
        "SentTimestamp": str(message.sent_at),
        "ApproximateReceiveCount": str(message.receives),
        "ApproximateFirstReceiveTimestamp": str(message.first_received_at),
        "SequenceNumber": f"{message.sequence:020d}",
        "MessageDeduplicationId": message.deduplication_id,
        "MessageGroupId": message.group,
    }
    answer: dict[str, Any] = {
        "MessageId": message.id,
        "ReceiptHandle": message.handle,
        "MD5OfBody": hashlib.md5(message.body.encode(), usedforsecurity=False).hexdigest(),
        "Body": message.body,
    }
    if wanted := {name: value for name, value in attributes.items() if "All" in system or name in system}:
        answer["Attributes"] = wanted
    if found := chosen(message.attributes, custom):
        answer["MessageAttributes"] = found
    return answer


def _uuid(seed: str) -> str:
    digest = hashlib.sha256(seed.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))
