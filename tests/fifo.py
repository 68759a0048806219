"""An SQS FIFO service in this process, as strict as the real one, on a clock that is set by hand.

It answers the calls that the SQS stream makes, in the shapes of botocore, so the stream runs unchanged over it.
Emulators are laxer: they accept illegal ids, expired receipt handles and out-of-range timeouts. Faults are put in front
of it with ``testing.faulty`` (throttling, an answer that is lost after the effect) and with :func:`partial_failures`.

Sources: the SQS API reference (SendMessage, SendMessageBatch, ReceiveMessage, ChangeMessageVisibility) and the SQS
developer guide on FIFO delivery logic, exactly-once processing, visibility timeouts, dead letters and quotas.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from afterturn.clock import EPOCH, Clock, to_millis
from afterturn.stream.port import MAX_RECEIVES, Depth, Queue
from afterturn.stream.sqs import QueueUrls, SqsStream

DEDUPLICATION_MS = 300_000
MAX_BATCH = 10
MAX_VISIBILITY_S = 43_200
MAX_ATTRIBUTES = 10

_SENT = ("MessageGroupId", "MessageDeduplicationId", "MessageAttributes", "MessageSystemAttributes", "DelaySeconds")
_RECEIVED = (
    *("AttributeNames", "MessageAttributeNames", "MessageSystemAttributeNames", "ReceiveRequestAttemptId"),
    *("MaxNumberOfMessages", "VisibilityTimeout", "WaitTimeSeconds"),
)
_PARAMETERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "SendMessage": (("MessageBody",), _SENT),
    "ReceiveMessage": ((), _RECEIVED),
    "DeleteMessage": (("ReceiptHandle",), ()),
    "ChangeMessageVisibility": (("ReceiptHandle", "VisibilityTimeout"), ()),
    "GetQueueAttributes": ((), ("AttributeNames",)),
}
"""The required and the optional parameters of each operation, besides the queue's URL or a batch entry's id."""
_RANGES = {
    "MaxNumberOfMessages": (1, MAX_BATCH),
    "VisibilityTimeout": (0, MAX_VISIBILITY_S),
    "WaitTimeSeconds": (0, 20),
}

_ID = re.compile(r"[!-~]{1,128}\Z")
_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}\Z")
_NOT_IN_BODIES = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ATTRIBUTE_NAME = re.compile(r"(?!\.)(?!.*\.\.)(?!(?i:aws\.|amazon\.))[A-Za-z0-9_.-]{1,256}(?<!\.)\Z")
_ATTRIBUTE_TYPE = re.compile(r"(String|Number|Binary)(\.[^.]{1,240})?\Z")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?\Z")

_PREFIXED = {
    *("BatchEntryIdsNotDistinct", "BatchRequestTooLong", "EmptyBatchRequest", "InvalidBatchEntryId"),
    *("NonExistentQueue", "TooManyEntriesInBatchRequest"),
}


class FifoError(Exception):
    """A refused call. ``response`` holds ``Error.Code`` and ``Error.Message``, as botocore's ``ClientError`` does."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(f"An error occurred ({code}): {message}")
        full = f"AWS.SimpleQueueService.{code}" if code in _PREFIXED else code
        self.code = code
        self.message = message
        self.response: dict[str, Any] = {
            "Error": {"Code": full, "Message": message, "Type": "Sender" if status < 500 else "Receiver"},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


def throttled() -> FifoError:
    """The error of a throttled call."""
    return FifoError("RequestThrottled", "The request was denied due to request throttling.")


def unreachable() -> OSError:
    """The error of a service that cannot be reached, or whose answer is lost."""
    return ConnectionError("the connection was closed before an answer came")


def _invalid_parameter(name: str, value: object, reason: str) -> FifoError:
    """The error of a parameter value that SQS does not accept."""
    return FifoError("InvalidParameterValue", f"Value {value} for parameter {name} is invalid. Reason: {reason}")


@dataclass(frozen=True, slots=True)
class Limits:
    """Quotas of SQS, which tests make small."""

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
    """One FIFO queue. All times are whole milliseconds since 1970; ``dead``: the dead-letter queue."""

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
            raise _invalid_parameter("ReceiptHandle", handle, "The receipt handle has expired.")
        message.deleted = True
        self._messages.pop(message.sequence, None)

    def change_visibility(self, handle: str, seconds: int, now: int) -> None:
        """Let a message stay invisible for so long from now, but at most twelve hours from its receive."""
        message = self._handles.get(handle)
        if message is None:
            raise FifoError("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
        if message.deleted or message.handle != handle or not message.in_flight(now):
            reason = "Message does not exist or is not available for visibility timeout change."
            raise _invalid_parameter("ReceiptHandle", handle, reason)
        if now + 1000 * seconds > message.received_at + 1000 * MAX_VISIBILITY_S:
            reason = f"Total VisibilityTimeout for the message is beyond the limit [{MAX_VISIBILITY_S} seconds]"
            raise _invalid_parameter("VisibilityTimeout", seconds, reason)
        message.visible_at = now + 1000 * seconds

    def counts(self, now: int) -> tuple[int, int]:
        """How many messages are visible, and how many in flight."""
        self._expire(now)
        in_flight_count = sum(message.in_flight(now) for message in self._messages.values())
        return len(self._messages) - in_flight_count, in_flight_count

    def oldest(self) -> int | None:
        """When the oldest message was sent: as in CloudWatch's ``ApproximateAgeOfOldestMessage``."""
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


def _message_response(message: _Message, system: Sequence[str], custom: Sequence[str]) -> dict[str, Any]:
    """A message in a ``ReceiveMessage`` answer, with the attributes that were asked for."""
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
    if requested := {name: value for name, value in attributes.items() if "All" in system or name in system}:
        answer["Attributes"] = requested
    if requested := {name: value for name, value in message.attributes.items() if _is_requested(name, custom)}:
        answer["MessageAttributes"] = requested
    return answer


def _is_requested(name: str, patterns: Sequence[str]) -> bool:
    """Whether a receive asks for a message attribute: by name, by prefix (``x.*``), or all."""
    return any(
        pattern in {"All", ".*", name} or (pattern.endswith(".*") and name.startswith(pattern[:-2]))
        for pattern in patterns
    )


def _uuid(seed: str) -> str:
    digest = hashlib.sha256(seed.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def _check_parameters(operation: str, given: Mapping[str, Any], key: str) -> None:
    """As the SDK does before it sends anything: a missing or unknown parameter is the caller's mistake."""
    required, optional = _PARAMETERS[operation]
    missing = [name for name in (key, *required) if given.get(name) is None]
    unknown = given.keys() - {key, *required, *optional}
    if missing or unknown:
        raise TypeError(f"{operation}: missing {missing}, unknown {sorted(unknown)}")


def _check_ranges(given: Mapping[str, Any]) -> None:
    """A number of seconds or messages that is out of range is refused, never cut."""
    for name, (low, high) in _RANGES.items():
        value = given.get(name)
        if value is not None and (type(value) is not int or not low <= value <= high):
            raise _invalid_parameter(name, value, f"Must be between {low} and {high}, if provided.")


def _check_ids(entry: Mapping[str, Any]) -> None:
    """Every message of a FIFO queue has a group and a deduplication id: 1 to 128 letters, digits and punctuation."""
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
        raise _invalid_parameter("DelaySeconds", entry["DelaySeconds"], reason)
    for name in ("MessageGroupId", "MessageDeduplicationId"):
        if not _ID.match(entry[name]):
            reason = f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
            raise _invalid_parameter(name, entry[name], reason)


def _check_message(entry: Mapping[str, Any], max_bytes: int) -> None:
    """Body and attributes: the characters of XML 1.0, not empty, and not too large."""
    body = entry["MessageBody"]
    if not body:
        raise FifoError("MissingParameter", "The request must contain the parameter MessageBody.")
    if _NOT_IN_BODIES.search(body):
        raise FifoError("InvalidMessageContents", "The message contains characters outside the allowed set.")
    _check_attributes(entry.get("MessageAttributes") or {})
    if _size_of(entry) > max_bytes:
        reason = f"One or more parameters are invalid. Reason: Message must be shorter than {max_bytes} bytes."
        raise FifoError("InvalidParameterValue", reason)


def _size_of(entry: Mapping[str, Any]) -> int:
    """Bytes of body and attributes, which count together."""
    attributes: Mapping[str, Any] = entry.get("MessageAttributes") or {}
    size = len(entry["MessageBody"].encode("utf-8", "surrogatepass"))
    for name, value in attributes.items():
        size += len(name.encode()) + len(value["DataType"].encode())
        size += len(value.get("BinaryValue", b"")) + len(value.get("StringValue", "").encode("utf-8", "surrogatepass"))
    return size


def _check_entries(entries: Sequence[Mapping[str, Any]]) -> None:
    """Refuses what makes SQS refuse a batch as a whole."""
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


Partial = Callable[[str, str], bool]
"""Whether an entry of a batch fails on the side of the service; takes the operation and the entry's id."""

_HOST = "https://sqs.example.test/000000000000/"


def partial_failures(seed: int, share: float) -> Partial:
    """A share of the entries of every batch fails on the side of the service, without effect."""
    chance = random.Random(seed)
    return lambda operation, entry: chance.random() < share


class FifoService:
    """Queues and their client. A long poll does not wait: time only passes when the clock is set.

    ``partial`` decides which entries of batches fail on the side of the service.
    """

    def __init__(self, clock: Clock, *, partial: Partial = lambda operation, entry: False) -> None:
        self._clock = clock
        self._partial = partial
        self._queues: dict[str, FifoQueue] = {}

    def create(self, name: str, *, dead: str | None = None, max_receives: int = 5, limits: Limits | None = None) -> str:
        """Create a queue and return its URL; ``dead`` is the URL of the queue for its dead letters."""
        if not name.endswith(".fifo"):
            raise ValueError(f"{name!r}: the name of a FIFO queue ends with .fifo")
        dead_queue = None if dead is None else self._queue(dead)
        self._queues[_HOST + name] = FifoQueue(
            name, dead=dead_queue, max_receives=max_receives, limits=limits or Limits()
        )
        return _HOST + name

    def queue(self, url: str) -> FifoQueue:
        """The queue itself, for a test that looks behind the API."""
        return self._queue(url)

    async def send_message(self, **given: Any) -> dict[str, Any]:
        return self._send(self._checked("SendMessage", given), given)

    async def send_message_batch(self, **given: Any) -> dict[str, Any]:
        """Missing and illegal ids refuse the whole call; a message that is not accepted fails alone."""
        queue, entries = self._entries("SendMessage", given)
        for entry in entries:
            _check_ids(entry)
        total = sum(_size_of(entry) for entry in entries)
        if total > queue.limits.message_bytes:
            raise FifoError(
                "BatchRequestTooLong",
                f"Batch requests cannot be longer than {queue.limits.message_bytes} bytes; you have sent {total}.",
            )
        return self._each("SendMessageBatch", queue, entries, self._send)

    async def receive_message(self, **given: Any) -> dict[str, Any]:
        queue = self._checked("ReceiveMessage", given)
        _check_ranges(given)
        messages = queue.receive(
            given.get("MaxNumberOfMessages", 1),
            given.get("VisibilityTimeout"),
            given.get("ReceiveRequestAttemptId"),
            self._now(),
        )
        system = [*given.get("AttributeNames", ()), *given.get("MessageSystemAttributeNames", ())]
        custom = given.get("MessageAttributeNames", ())
        return {"Messages": [_message_response(message, system, custom) for message in messages]} if messages else {}

    async def delete_message(self, **given: Any) -> dict[str, Any]:
        return self._delete(self._checked("DeleteMessage", given), given)

    async def delete_message_batch(self, **given: Any) -> dict[str, Any]:
        return self._each("DeleteMessageBatch", *self._entries("DeleteMessage", given), self._delete)

    async def change_message_visibility(self, **given: Any) -> dict[str, Any]:
        return self._change(self._checked("ChangeMessageVisibility", given), given)

    async def change_message_visibility_batch(self, **given: Any) -> dict[str, Any]:
        operation = "ChangeMessageVisibility"
        return self._each(f"{operation}Batch", *self._entries(operation, given), self._change)

    async def get_queue_attributes(self, **given: Any) -> dict[str, Any]:
        queue = self._checked("GetQueueAttributes", given)
        visible, in_flight = queue.counts(self._now())
        attributes = {
            "ApproximateNumberOfMessages": str(visible),
            "ApproximateNumberOfMessagesNotVisible": str(in_flight),
            "ApproximateNumberOfMessagesDelayed": "0",
            "ContentBasedDeduplication": "false",
            "FifoQueue": "true",
            "MaximumMessageSize": str(queue.limits.message_bytes),
            "MessageRetentionPeriod": str(queue.limits.retention_s),
            "QueueArn": _arn(queue),
            "VisibilityTimeout": str(queue.visibility_s),
        }
        if queue.dead is not None:
            policy = {"deadLetterTargetArn": _arn(queue.dead), "maxReceiveCount": queue.max_receives}
            attributes["RedrivePolicy"] = json.dumps(policy)
        names = given.get("AttributeNames", ())
        if unknown := set(names) - attributes.keys() - {"All", "RedrivePolicy"}:
            raise FifoError("InvalidAttributeName", f"Unknown Attribute {', '.join(sorted(unknown))}.")
        requested = {name: value for name, value in attributes.items() if "All" in names or name in names}
        return {"Attributes": requested} if requested else {}

    def _send(self, queue: FifoQueue, entry: Mapping[str, Any]) -> dict[str, Any]:
        _check_ids(entry)
        _check_message(entry, queue.limits.message_bytes)
        return queue.send(entry, self._now())

    def _delete(self, queue: FifoQueue, entry: Mapping[str, Any]) -> dict[str, Any]:
        queue.delete(entry["ReceiptHandle"], self._now())
        return {}

    def _change(self, queue: FifoQueue, entry: Mapping[str, Any]) -> dict[str, Any]:
        _check_ranges(entry)
        queue.change_visibility(entry["ReceiptHandle"], entry["VisibilityTimeout"], self._now())
        return {}

    def _checked(self, operation: str, given: Mapping[str, Any]) -> FifoQueue:
        _check_parameters(operation, given, "QueueUrl")
        return self._queue(given["QueueUrl"])

    def _entries(self, operation: str, given: Mapping[str, Any]) -> tuple[FifoQueue, Sequence[Mapping[str, Any]]]:
        """The queue and the entries of a batch of operations."""
        if given.keys() != {"QueueUrl", "Entries"}:
            raise TypeError(f"{operation}Batch: takes QueueUrl and Entries, not {sorted(given)}")
        for entry in given["Entries"]:
            _check_parameters(operation, entry, "Id")
        _check_entries(given["Entries"])
        return self._queue(given["QueueUrl"]), given["Entries"]

    def _each(
        self,
        operation: str,
        queue: FifoQueue,
        entries: Sequence[Mapping[str, Any]],
        act: Callable[[FifoQueue, Mapping[str, Any]], dict[str, Any]],
    ) -> dict[str, Any]:
        """Act on each entry; the answer, not an error, names those that failed."""
        answer: dict[str, list[dict[str, Any]]] = {}
        for entry in entries:
            try:
                if self._partial(operation, entry["Id"]):
                    raise FifoError("InternalError", "An internal error occurred.", status=500)
                answer.setdefault("Successful", []).append({"Id": entry["Id"], **act(queue, entry)})
            except FifoError as error:
                answer.setdefault("Failed", []).append(_failure(entry["Id"], error))
        return answer

    def _queue(self, url: str) -> FifoQueue:
        try:
            return self._queues[url]
        except KeyError:
            raise FifoError("NonExistentQueue", "The specified queue does not exist.") from None

    def _now(self) -> int:
        return to_millis(self._clock())


def _failure(entry: str, error: FifoError) -> dict[str, Any]:
    expired = "receipt handle" in error.message.lower() or "ReceiptHandle" in error.message
    return {
        "Id": entry,
        "Code": "ReceiptHandleIsInvalid" if expired else error.code,
        "Message": error.message,
        "SenderFault": error.response["ResponseMetadata"]["HTTPStatusCode"] < 500,
    }


def _arn(queue: FifoQueue) -> str:
    return f"arn:aws:sqs:us-east-1:000000000000:{queue.name}"


def create_queues(service: FifoService, *, max_receives: int = MAX_RECEIVES, limits: Limits | None = None) -> QueueUrls:
    """The four queues of a lane."""

    def create(name: str) -> tuple[str, str]:
        dead = service.create(f"{name}-dead.fifo", limits=limits)
        return service.create(f"{name}.fifo", dead=dead, max_receives=max_receives, limits=limits), dead

    main, main_dead = create("events")
    retry, retry_dead = create("retry")
    return QueueUrls(main, retry, main_dead, retry_dead)


class ModelStream(SqsStream):
    """With the age of the oldest message, which SQS itself does not report."""

    def __init__(self, service: FifoService, client: Any, queues: QueueUrls, clock: Clock) -> None:
        super().__init__(client, queues, clock)
        self._service = service

    async def depth(self) -> Depth:
        sent = [self._service.queue(self._queues.live(queue)).oldest() for queue in Queue]
        oldest = min((at for at in sent if at is not None), default=None)
        since = None if oldest is None else EPOCH + timedelta(milliseconds=oldest)
        return replace(await super().depth(), oldest=since)


def fifo_stream(service: FifoService, clock: Clock, *, client: Any = None, **queues: Any) -> SqsStream:
    """A stream on new queues; ``client``: the service with faults in front of it."""
    return ModelStream(service, client or service, create_queues(service, **queues), clock)
