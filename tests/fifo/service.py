"""The calls of an SQS client, answered by queues in this process."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.fifo.errors import FifoError
from tests.fifo.queue import FifoQueue, Limits, told
from tests.fifo.rules import (
    MAX_BATCH,
    MAX_VISIBILITY_S,
    MAX_WAIT_S,
    SEND_KEYS,
    check_entries,
    check_group,
    check_ids,
    check_keys,
    check_message,
    check_range,
    size_of,
)

from afterturn.clock import Clock, to_millis

Partial = Callable[[str, str], bool]
"""Whether an entry of a batch fails by itself: asked with the operation and the entry's id."""

_RECEIVE_KEYS = (
    "AttributeNames",
    "MaxNumberOfMessages",
    "MessageAttributeNames",
    "MessageSystemAttributeNames",
    "ReceiveRequestAttemptId",
    "VisibilityTimeout",
    "WaitTimeSeconds",
)
_HOST = "https://sqs.example.test/000000000000/"


def partial_failures(seed: int, share: float) -> Partial:
    """A share of the entries of every batch fails on the side of the service, without effect."""
    chance = random.Random(seed)
    return lambda operation, entry: chance.random() < share


class FifoService:
    """Queues and the client of them. A long poll does not wait: time only passes when the clock is set.

    ``partial`` decides which entries of batches fail by themselves.
    """

    def __init__(self, clock: Clock, *, partial: Partial = lambda operation, entry: False) -> None:
        self._clock = clock
        self._partial = partial
        self._queues: dict[str, FifoQueue] = {}

    def create(self, name: str, *, dead: str | None = None, max_receives: int = 5, limits: Limits | None = None) -> str:
        """A queue, and its URL; ``dead`` is the URL of the queue for its dead letters."""
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
        check_keys("SendMessage", given, required=("QueueUrl", "MessageBody"), allowed=(*SEND_KEYS, "DelaySeconds"))
        queue = self._queue(given["QueueUrl"])
        check_group(given)
        check_ids(given)
        check_message(given, queue.limits.message_bytes)
        return queue.send(given, self._now())

    async def send_message_batch(self, **given: Any) -> dict[str, Any]:
        """Missing and illegal ids refuse the whole call; a message that is not taken fails alone."""
        check_keys("SendMessageBatch", given, required=("QueueUrl", "Entries"), allowed=())
        queue = self._queue(given["QueueUrl"])
        entries = given["Entries"]
        for entry in entries:
            check_keys("SendMessageBatch", entry, required=("Id", "MessageBody"), allowed=(*SEND_KEYS, "DelaySeconds"))
        check_entries(entries)
        for entry in entries:
            check_group(entry)
            check_ids(entry)
        total = sum(size_of(entry) for entry in entries)
        if total > queue.limits.message_bytes:
            raise FifoError(
                "BatchRequestTooLong",
                f"Batch requests cannot be longer than {queue.limits.message_bytes} bytes; you have sent {total}.",
            )

        def send(entry: Mapping[str, Any]) -> dict[str, Any]:
            check_message(entry, queue.limits.message_bytes)
            return queue.send(entry, self._now())

        return self._each("SendMessageBatch", entries, send)

    async def receive_message(self, **given: Any) -> dict[str, Any]:
        check_keys("ReceiveMessage", given, required=("QueueUrl",), allowed=_RECEIVE_KEYS)
        queue = self._queue(given["QueueUrl"])
        limit = given.get("MaxNumberOfMessages", 1)
        check_range("MaxNumberOfMessages", limit, 1, MAX_BATCH)
        check_range("WaitTimeSeconds", given.get("WaitTimeSeconds", 0), 0, MAX_WAIT_S)
        visibility = given.get("VisibilityTimeout")
        if visibility is not None:
            check_range("VisibilityTimeout", visibility, 0, MAX_VISIBILITY_S)
        taken = queue.receive(limit, visibility, given.get("ReceiveRequestAttemptId"), self._now())
        system = [*given.get("AttributeNames", ()), *given.get("MessageSystemAttributeNames", ())]
        custom = given.get("MessageAttributeNames", ())
        messages = [told(message, system, custom) for message in taken]
        return {"Messages": messages} if messages else {}

    async def delete_message(self, **given: Any) -> dict[str, Any]:
        check_keys("DeleteMessage", given, required=("QueueUrl", "ReceiptHandle"), allowed=())
        self._queue(given["QueueUrl"]).delete(given["ReceiptHandle"], self._now())
        return {}

    async def delete_message_batch(self, **given: Any) -> dict[str, Any]:
        check_keys("DeleteMessageBatch", given, required=("QueueUrl", "Entries"), allowed=())
        queue = self._queue(given["QueueUrl"])
        for entry in given["Entries"]:
            check_keys("DeleteMessageBatch", entry, required=("Id", "ReceiptHandle"), allowed=())
        check_entries(given["Entries"])

        def delete(entry: Mapping[str, Any]) -> dict[str, Any]:
            queue.delete(entry["ReceiptHandle"], self._now())
            return {}

        return self._each("DeleteMessageBatch", given["Entries"], delete)

    async def change_message_visibility(self, **given: Any) -> dict[str, Any]:
        required = ("QueueUrl", "ReceiptHandle", "VisibilityTimeout")
        check_keys("ChangeMessageVisibility", given, required=required, allowed=())
        queue = self._queue(given["QueueUrl"])
        check_range("VisibilityTimeout", given["VisibilityTimeout"], 0, MAX_VISIBILITY_S)
        queue.change_visibility(given["ReceiptHandle"], given["VisibilityTimeout"], self._now())
        return {}

    async def change_message_visibility_batch(self, **given: Any) -> dict[str, Any]:
        check_keys("ChangeMessageVisibilityBatch", given, required=("QueueUrl", "Entries"), allowed=())
        queue = self._queue(given["QueueUrl"])
        for entry in given["Entries"]:
            required = ("Id", "ReceiptHandle", "VisibilityTimeout")
            check_keys("ChangeMessageVisibilityBatch", entry, required=required, allowed=())
        check_entries(given["Entries"])

        def change(entry: Mapping[str, Any]) -> dict[str, Any]:
            check_range("VisibilityTimeout", entry["VisibilityTimeout"], 0, MAX_VISIBILITY_S)
            queue.change_visibility(entry["ReceiptHandle"], entry["VisibilityTimeout"], self._now())
            return {}

        return self._each("ChangeMessageVisibilityBatch", given["Entries"], change)

    async def get_queue_attributes(self, **given: Any) -> dict[str, Any]:
        check_keys("GetQueueAttributes", given, required=("QueueUrl",), allowed=("AttributeNames",))
        queue = self._queue(given["QueueUrl"])
        visible, flying = queue.counts(self._now())
        attributes = {
            "ApproximateNumberOfMessages": str(visible),
            "ApproximateNumberOfMessagesNotVisible": str(flying),
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
        found = {name: value for name, value in attributes.items() if "All" in names or name in names}
        return {"Attributes": found} if found else {}

    def _each(
        self,
        operation: str,
        entries: Sequence[Mapping[str, Any]],
        act: Callable[[Mapping[str, Any]], dict[str, Any]],
    ) -> dict[str, Any]:
        """Act on each entry; which of them failed stands in the answer, not in an error."""
        answer: dict[str, list[dict[str, Any]]] = {}
        for entry in entries:
            try:
                if self._partial(operation, entry["Id"]):
                    raise FifoError("InternalError", "An internal error occurred.", status=500)
                answer.setdefault("Successful", []).append({"Id": entry["Id"], **act(entry)})
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
