"""The stream on SQS, and how it is opened: clients with short time limits publish, others read."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from afterturn.aws.names import Names
from afterturn.aws.session import Access, open_client, open_session
from afterturn.clock import Clock, to_millis
from afterturn.errors import StreamUnavailable
from afterturn.event import TurnSettled
from afterturn.stream.port import MAX_RECEIVES, DeadLetter, DeadLetterKey, Delivery, Depth, Queue, Receipt
from afterturn.stream.sqs import client as sqs
from afterturn.stream.sqs import dead_letters, records
from afterturn.stream.sqs.client import QueueUrls, SqsClient, translate_errors
from afterturn.stream.sqs.dead_letters import DeadLetterQueue
from afterturn.stream.sqs.records import Handle

LONG_POLL = timedelta(seconds=20)

_PUBLISHING: dict[str, Any] = {"connect_timeout": 1, "read_timeout": 2, "attempts": 1}
"""For the emitter, whose caller waits. Retrying once is the settler's decision."""

_READING: dict[str, Any] = {"connect_timeout": 3, "read_timeout": 30, "attempts": 3}
"""For the bridge: a long poll takes up to 20 seconds."""


async def find_queues(access: Access, names: Names, *, session: Any = None) -> QueueUrls:
    """The queues of a lane. Raises StreamUnavailable, with advice, if one is missing."""
    async with open_client("sqs", replace(access, **_READING), session) as client:

        async def url(name: str) -> str:
            with translate_errors(name):
                return str((await client.get_queue_url(QueueName=name))["QueueUrl"])

        return QueueUrls(
            main=await url(names.main),
            retry=await url(names.retry),
            main_dead=await url(names.main_dead),
            retry_dead=await url(names.retry_dead),
        )


@asynccontextmanager
async def open_publisher(
    access: Access, queues: QueueUrls, clock: Clock, *, session: Any = None
) -> AsyncIterator[SqsPublisher]:
    """The emitter's half. Raises MissingExtra if the driver is not installed."""
    async with open_client("sqs", replace(access, **_PUBLISHING), session) as sender:
        yield SqsPublisher(sender, queues, clock)


@asynccontextmanager
async def open_stream(
    access: Access, queues: QueueUrls, clock: Clock, *, wait: timedelta = LONG_POLL, session: Any = None
) -> AsyncIterator[SqsStream]:
    """All of the stream. ``wait``: how long a receive waits for a first record. Raises MissingExtra."""
    session = session or open_session(access)
    async with (
        open_client("sqs", replace(access, **_PUBLISHING), session) as sender,
        open_client("sqs", replace(access, **_READING), session) as reader,
    ):
        yield SqsStream(reader, queues, clock, sender=sender, wait=wait)


class SqsPublisher:
    """Publishes events. ``timeout``: seconds after which a publish fails, whatever the driver does."""

    def __init__(self, client: SqsClient, queues: QueueUrls, clock: Clock, *, timeout: float = 4) -> None:
        self._client = client
        self._queues = queues
        self._clock = clock
        self._timeout = timeout

    async def publish(self, event: TurnSettled, *, consumer: str | None = None, emission: str | None = None) -> None:
        """Append an event; see the port. SQS remembers an emission for five minutes."""
        url = self._queues.live(Queue.MAIN if consumer is None else Queue.RETRY)
        message = records.outgoing(event, consumer, emission, to_millis(self._clock()))
        with translate_errors(url):
            async with asyncio.timeout(self._timeout):
                await self._client.send_message(QueueUrl=url, **message)


class SqsStream(SqsPublisher):
    """A stream; the port documents the methods.

    ``wait``: how long a receive waits for a first record. ``sender``: another client for publishing, with shorter time
    limits. A receive returns at most ten records of a group, because a group waits for its records in flight.
    """

    def __init__(
        self,
        client: SqsClient,
        queues: QueueUrls,
        clock: Clock,
        *,
        sender: SqsClient | None = None,
        wait: timedelta = timedelta(0),
    ) -> None:
        super().__init__(sender or client, queues, clock)
        self._reader = client
        self._wait_s = int(wait.total_seconds())
        self._dead_letters = {queue: DeadLetterQueue(client, queues, queue) for queue in Queue}

    async def receive(self, queue: Queue, *, limit: int, visibility: timedelta) -> Sequence[Delivery]:
        deliveries: list[Delivery] = []
        while len(deliveries) < limit:
            requested = min(sqs.MAX_ENTRIES, limit - len(deliveries))
            received_at = to_millis(self._clock())
            try:
                messages = await dead_letters.receive(
                    self._reader,
                    self._queues.live(queue),
                    limit=requested,
                    visibility_s=_seconds(visibility),
                    wait_s=0 if deliveries else self._wait_s,
                )
            except StreamUnavailable:
                if not deliveries:
                    raise
                break
            for message in messages:
                delivery = records.delivery(queue, message, received_at)
                if delivery.receives <= MAX_RECEIVES or not await self._give_up(delivery):
                    deliveries.append(delivery)
            if len(messages) < requested:
                break
        return deliveries

    async def ack(self, receipts: Sequence[Receipt]) -> None:
        for url, group in self._by_queue(receipts).items():
            await sqs.delete(self._reader, url, [Handle.of(receipt).receipt for receipt in group])

    async def release(self, receipts: Sequence[Receipt], *, after: timedelta) -> None:
        now = to_millis(self._clock())
        for url, group in self._by_queue(receipts).items():
            changes = [(Handle.of(receipt).receipt, records.after_receive(receipt, after, now)) for receipt in group]
            await sqs.change_visibility(self._reader, url, changes)

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        await self._dead_letters[delivery.receipt.queue].add(delivery, reason)

    async def dead_letters(self, *, after: DeadLetterKey | None = None, limit: int) -> Sequence[DeadLetter]:
        """Receives all of them to find a position: SQS has no other way to read messages."""
        read = limit if after is None else sys.maxsize
        ordered = [entry for queue in Queue for entry in await self._dead_letters[queue].list(read)]
        ordered.sort(key=lambda entry: (entry[0].died_at, entry[0].queue, entry[1]))
        letters = [letter for letter, _ in ordered]
        return (letters if after is None else _beyond(letters, after))[:limit]

    async def redrive(self, ids: Sequence[str]) -> int:
        moved: set[str] = set()
        for queue in Queue:
            if remaining := set(ids) - moved:
                moved |= await self._dead_letters[queue].redrive(remaining)
        return len(moved)

    async def depth(self) -> Depth:
        """As SQS reports it, up to a minute late. SQS does not report the age of a message; CloudWatch does."""
        queues = self._queues
        urls = (queues.main, queues.retry, queues.main_dead, queues.retry_dead)
        counts = await asyncio.gather(*(dead_letters.count(self._reader, url) for url in urls))
        return Depth(main=counts[0], retry=counts[1], dead_letters=counts[2] + counts[3], oldest=None)

    def deliveries(self, event: Mapping[str, Any]) -> list[tuple[str, Delivery]]:
        """The records of a Lambda event, each with the id by which Lambda knows it.

        Raises ValueError for an event that is not of these queues: another lane's, or no SQS event at all.
        """
        event_records = event.get("Records") if isinstance(event, Mapping) else None
        if not isinstance(event_records, list):
            raise ValueError("the event is not one of SQS: it has no Records")
        now = to_millis(self._clock())
        names = {sqs.queue_name(self._queues.live(queue)): queue for queue in Queue}
        deliveries = []
        for record in event_records:
            source = str(record.get("eventSourceARN", "")).rpartition(":")[2]
            if source not in names:
                raise ValueError(f"queue {source!r} is not one of this bridge ({', '.join(names)})")
            message = records.invoked(record)
            deliveries.append((message.id, records.delivery(names[source], message, now)))
        return deliveries

    async def _give_up(self, delivery: Delivery) -> bool:
        """Dead-letter a record that the queue's redrive policy should have moved: it may be missing or allow more."""
        try:
            await self.dead_letter(delivery, reason=records.GIVEN_UP_REASON)
        except StreamUnavailable:
            return False
        return True

    def _by_queue(self, receipts: Sequence[Receipt]) -> dict[str, list[Receipt]]:
        by_url: dict[str, list[Receipt]] = {}
        for receipt in receipts:
            by_url.setdefault(self._queues.live(receipt.queue), []).append(receipt)
        return by_url


def _seconds(visibility: timedelta) -> int:
    """SQS counts whole seconds, up to twelve hours."""
    return min(43_200, -(-visibility // timedelta(seconds=1)))


def _beyond(letters: Sequence[DeadLetter], after: DeadLetterKey) -> Sequence[DeadLetter]:
    """Those after a position. If its dead letter is gone, those of the same time may repeat, so that none is missed."""
    for position, letter in enumerate(letters):
        if letter.id == after.id:
            return letters[position + 1 :]
    return [letter for letter in letters if letter.died_at >= after.died_at]
