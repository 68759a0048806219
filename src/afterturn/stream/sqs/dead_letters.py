"""The dead letters of one queue: buried, listed without losing any, and redriven.

SQS can only show a message by receiving it, and hands out no more of a group while some of it is in flight. A letter
that afterturn buried has a group of its own, so it hides nothing. One that SQS itself moved has not; where such letters
hide others, they are rehoused: sent again with a group of their own, then deleted.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Sequence

from afterturn import telemetry
from afterturn.errors import StreamUnavailable
from afterturn.stream.port import DeadLetter, Delivery, Queue
from afterturn.stream.sqs import client, records
from afterturn.stream.sqs.client import QueueUrls, SqsClient, queue_name, translate_errors
from afterturn.stream.sqs.records import Handle, SqsMessage

_ROUND = 500
"""Letters that are held at a time."""

_SCAN_S = 120
"""How long a look takes at most; a process that dies meanwhile hides the letters for no longer."""


class DeadLetterQueue:
    """The dead letters of ``queue``."""

    def __init__(self, client: SqsClient, queues: QueueUrls, queue: Queue) -> None:
        self._client = client
        self._queue = queue
        self._live = queues.live(queue)
        self._dead = queues.dead(queue)

    async def add(self, delivery: Delivery, reason: str) -> None:
        """Make a dead letter of a delivery, unless its receipt has expired; it is deleted only afterwards."""
        receipt = Handle.of(delivery.receipt).receipt
        if not await client.holds(self._client, self._live, receipt, _SCAN_S):
            return
        with translate_errors(self._dead):
            await self._client.send_message(QueueUrl=self._dead, **records.dead_letter_message(delivery, reason))
        await client.delete(self._client, self._live, [receipt])

    async def list(self, limit: int) -> list[tuple[DeadLetter, int]]:
        """The oldest letters, each with its place among those that died at the same time."""
        async with _Scan(self._client, self._dead) as look:
            found: dict[str, tuple[DeadLetter, int]] = {}
            while len(found) < limit and (batch := await look.more()):
                for message in batch:
                    letter = records.dead_letter(self._queue, message)
                    found.setdefault(letter.id, (letter, records.order_of(message)))
        return list(found.values())

    async def redrive(self, ids: Collection[str]) -> set[str]:
        """Put letters back into their queue, oldest first; returns the ids of those that SQS accepted.

        A letter is deleted only then, so whatever fails half-way leaves it here, or delivers it twice.
        """
        moved: set[str] = set()
        while len(moved) < len(ids):
            more = await self._redrive_some(set(ids) - moved)
            if not more:
                break
            moved |= more
        return moved

    async def _redrive_some(self, ids: Collection[str]) -> set[str]:
        async with _Scan(self._client, self._dead) as look:
            wanted: list[SqsMessage] = []
            while len(wanted) < _ROUND and (batch := await look.more()):
                wanted += [one for one in batch if records.dead_letter_id(one) in ids]
            wanted.sort(key=lambda one: (records.died_at(one), records.order_of(one)))
            moved: set[str] = set()
            originals = list({records.dead_letter_id(one): one for one in reversed(wanted)}.values())[::-1]
            for begin in range(0, len(originals), client.MAX_ENTRIES):
                chunk = originals[begin : begin + client.MAX_ENTRIES]
                emission = uuid.uuid4().hex
                accepted = await client.send(
                    self._client, self._live, [records.redriven(one, emission) for one in chunk]
                )
                now = {records.dead_letter_id(chunk[position]) for position in accepted}
                await look.delete([one for one in wanted if records.dead_letter_id(one) in now])
                moved |= now
        return moved


class _Scan:
    """A pass over the letters. What it took and did not delete is visible again afterwards."""

    def __init__(self, client: SqsClient, url: str) -> None:
        self._client = client
        self._url = url
        self._seen: set[str] = set()
        self._held: dict[str, SqsMessage] = {}

    async def __aenter__(self) -> _Scan:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await client.change_visibility(self._client, self._url, [(one.handle, 0) for one in self._held.values()])
        except StreamUnavailable:
            telemetry.log("dead_letters_held", level=logging.WARNING, queue=queue_name(self._url), delay_s=_SCAN_S)

    async def more(self) -> Sequence[SqsMessage]:
        """The next letters that this pass has not seen; none at the end."""
        while True:
            batch = await receive(self._client, self._url, limit=client.MAX_ENTRIES, visibility_s=_SCAN_S)
            self._held |= {one.id: one for one in batch}
            if fresh := [one for one in batch if one.id not in self._seen]:
                self._seen |= {one.id for one in fresh}
                return fresh
            if batch or not await self._regroup():
                return ()

    async def delete(self, messages: Sequence[SqsMessage]) -> None:
        await client.delete(self._client, self._url, [one.handle for one in messages])
        for one in messages:
            self._held.pop(one.id, None)

    async def _regroup(self) -> bool:
        """Give the held letters that hide others groups of their own; whether there were any."""
        moved = [one for one in self._held.values() if not records.is_regrouped(one)]
        if not moved or await count(self._client, self._url) <= len(self._held):
            return False
        accepted = await client.send(self._client, self._url, [records.regrouped(one) for one in moved])
        await self.delete([moved[position] for position in sorted(accepted)])
        return bool(accepted)


async def receive(client: SqsClient, url: str, *, limit: int, visibility_s: int, wait_s: int = 0) -> list[SqsMessage]:
    """One ReceiveMessage. An answer that is lost is asked for again by the driver, under the same attempt id."""
    with translate_errors(url):
        answer = await client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=limit,
            VisibilityTimeout=visibility_s,
            WaitTimeSeconds=wait_s,
            ReceiveRequestAttemptId=uuid.uuid4().hex,
            MessageSystemAttributeNames=records.SYSTEM_ATTRIBUTES,
            MessageAttributeNames=records.CUSTOM_ATTRIBUTES,
        )
    return [records.received(one) for one in answer.get("Messages") or ()]


async def count(client: SqsClient, url: str) -> int:
    """How many messages a queue holds, those in flight included. SQS tells it with up to a minute's delay."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    with translate_errors(url):
        answer = await client.get_queue_attributes(QueueUrl=url, AttributeNames=names)
    return sum(int((answer.get("Attributes") or {}).get(name, 0)) for name in names)
