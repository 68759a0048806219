"""The dead letters of one queue: added, listed completely, and redriven.

SQS shows a message only by receiving it, and delivers no more of a group while some of it is in flight. A dead letter
that afterturn made has a group of its own, so it hides no other. One that SQS itself moved has not; if such dead
letters hide others, they are regrouped: sent again with a group of their own, then deleted.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Sequence

from afterturn import telemetry
from afterturn.errors import StreamUnavailable
from afterturn.stream.port import DeadLetter, Delivery, Queue
from afterturn.stream.sqs import client as sqs
from afterturn.stream.sqs import records
from afterturn.stream.sqs.client import QueueUrls, SqsClient, queue_name, translate_errors
from afterturn.stream.sqs.records import Handle, SqsMessage

_MAX_HELD = 500
"""Dead letters that one pass redrives."""

_SCAN_S = 120
"""How long a pass takes at most; a process that dies meanwhile hides the dead letters for no longer."""


class DeadLetterQueue:
    """The dead letters of ``queue``."""

    def __init__(self, client: SqsClient, queues: QueueUrls, queue: Queue) -> None:
        self._client = client
        self._queue = queue
        self._live = queues.live(queue)
        self._dead = queues.dead(queue)

    async def add(self, delivery: Delivery, reason: str) -> None:
        """Make a dead letter of a delivery unless its receipt has expired; then delete the record."""
        receipt = Handle.of(delivery.receipt).receipt
        if not await sqs.holds(self._client, self._live, receipt, _SCAN_S):
            return
        with translate_errors(self._dead):
            await self._client.send_message(QueueUrl=self._dead, **records.dead_letter_message(delivery, reason))
        await sqs.delete(self._client, self._live, [receipt])

    async def list(self, limit: int) -> list[tuple[DeadLetter, int]]:
        """The oldest dead letters, each with its order among those of the same time."""
        async with _Scan(self._client, self._dead) as scan:
            dead_letters: dict[str, tuple[DeadLetter, int]] = {}
            while len(dead_letters) < limit and (batch := await scan.more()):
                for message in batch:
                    dead_letter = records.dead_letter(self._queue, message)
                    dead_letters.setdefault(dead_letter.id, (dead_letter, records.order_of(message)))
        return list(dead_letters.values())

    async def redrive(self, ids: Collection[str]) -> set[str]:
        """Send dead letters to their queue again, oldest first; returns the ids of those that SQS accepted.

        A dead letter is deleted only then. So after an error half-way it is still here, or it is delivered twice.
        """
        moved: set[str] = set()
        while len(moved) < len(ids):
            more = await self._redrive_some(set(ids) - moved)
            if not more:
                break
            moved |= more
        return moved

    async def _redrive_some(self, ids: Collection[str]) -> set[str]:
        async with _Scan(self._client, self._dead) as scan:
            messages: list[SqsMessage] = []
            while len(messages) < _MAX_HELD and (batch := await scan.more()):
                messages += [message for message in batch if records.dead_letter_id(message) in ids]
            messages.sort(key=lambda message: (records.died_at(message), records.order_of(message)))
            by_id: dict[str, list[SqsMessage]] = {}
            for message in messages:
                by_id.setdefault(records.dead_letter_id(message), []).append(message)
            moved: set[str] = set()
            dead_letter_ids = list(by_id)
            for begin in range(0, len(dead_letter_ids), sqs.MAX_ENTRIES):
                chunk = dead_letter_ids[begin : begin + sqs.MAX_ENTRIES]
                emission = uuid.uuid4().hex
                redriven = [records.redriven(by_id[dead_letter_id][0], emission) for dead_letter_id in chunk]
                accepted = [chunk[position] for position in await sqs.send(self._client, self._live, redriven)]
                await scan.delete([message for dead_letter_id in accepted for message in by_id[dead_letter_id]])
                moved |= set(accepted)
        return moved


class _Scan:
    """A pass over the dead letters. Those that it received and did not delete are visible again afterwards."""

    def __init__(self, client: SqsClient, url: str) -> None:
        self._client = client
        self._url = url
        self._seen: set[str] = set()
        self._held: dict[str, SqsMessage] = {}

    async def __aenter__(self) -> _Scan:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            changes = [(message.handle, 0) for message in self._held.values()]
            await sqs.change_visibility(self._client, self._url, changes)
        except StreamUnavailable:
            telemetry.log("dead_letters_held", level=logging.WARNING, queue=queue_name(self._url), delay_s=_SCAN_S)

    async def more(self) -> Sequence[SqsMessage]:
        """The next dead letters that this pass has not seen; none at the end."""
        while True:
            batch = await receive(self._client, self._url, limit=sqs.MAX_ENTRIES, visibility_s=_SCAN_S)
            self._held |= {message.id: message for message in batch}
            if fresh := [message for message in batch if message.id not in self._seen]:
                self._seen |= {message.id for message in fresh}
                return fresh
            if batch or not await self._regroup():
                return ()

    async def delete(self, messages: Sequence[SqsMessage]) -> None:
        await sqs.delete(self._client, self._url, [message.handle for message in messages])
        for message in messages:
            self._held.pop(message.id, None)

    async def _regroup(self) -> bool:
        """Give the held dead letters that hide others groups of their own. Returns whether there were any."""
        moved = [message for message in self._held.values() if not records.is_regrouped(message)]
        if not moved or await count(self._client, self._url) <= len(self._held):
            return False
        accepted = await sqs.send(self._client, self._url, [records.regrouped(message) for message in moved])
        await self.delete([moved[position] for position in sorted(accepted)])
        return bool(accepted)


async def receive(client: SqsClient, url: str, *, limit: int, visibility_s: int, wait_s: int = 0) -> list[SqsMessage]:
    """One ReceiveMessage. The driver repeats it under the same attempt id if the response is lost."""
    with translate_errors(url):
        response = await client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=limit,
            VisibilityTimeout=visibility_s,
            WaitTimeSeconds=wait_s,
            ReceiveRequestAttemptId=uuid.uuid4().hex,
            MessageSystemAttributeNames=records.SYSTEM_ATTRIBUTES,
            MessageAttributeNames=records.CUSTOM_ATTRIBUTES,
        )
    return [records.received(message) for message in response.get("Messages") or ()]


async def count(client: SqsClient, url: str) -> int:
    """The number of messages in a queue, including those in flight; SQS reports it up to a minute late."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    with translate_errors(url):
        response = await client.get_queue_attributes(QueueUrl=url, AttributeNames=names)
    return sum(int((response.get("Attributes") or {}).get(name, 0)) for name in names)
