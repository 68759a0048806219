"""The whole stream over SQS."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from afterturn.aws.names import Names
from afterturn.aws.session import Access, open_client, open_session
from afterturn.clock import Clock, to_millis
from afterturn.errors import StreamUnavailable
from afterturn.event import TurnSettled
from afterturn.stream.port import MAX_RECEIVES, DeadLetter, DeadLetterKey, Delivery, Depth, Queue, Receipt
from afterturn.stream.sqs import client, dead_letters, records
from afterturn.stream.sqs.client import PUBLISHING, READING, ClientTimeouts, QueueUrls, SqsClient, translate_errors
from afterturn.stream.sqs.dead_letters import DeadLetterQueue
from afterturn.stream.sqs.records import GIVEN_UP, Handle, SqsMessage, outgoing

LONG_POLL = timedelta(seconds=20)


async def find_queues(access: Access, names: Names, *, session: Any = None) -> QueueUrls:
    """The queues of a lane. Raises StreamUnavailable for one that is missing, and says how it is made."""
    async with open_client("sqs", _with(access, READING), session) as client:

        async def url(name: str) -> str:
            with translate_errors(name):
                answer = await client.get_queue_url(QueueName=name)
            return str(answer["QueueUrl"])

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
    """The emitter's half. Raises MissingExtra where the driver is not installed."""
    async with open_client("sqs", _with(access, PUBLISHING), session) as sender:
        yield SqsPublisher(sender, queues, clock)


@asynccontextmanager
async def open_stream(
    access: Access, queues: QueueUrls, clock: Clock, *, wait: timedelta = LONG_POLL, session: Any = None
) -> AsyncIterator[SqsStream]:
    """All of it; ``wait``: how long a receive waits for a first record. Raises MissingExtra like the other one."""
    session = session or open_session(access)
    async with (
        open_client("sqs", _with(access, PUBLISHING), session) as sender,
        open_client("sqs", _with(access, READING), session) as reader,
    ):
        yield SqsStream(reader, queues, clock, sender=sender, wait=wait)


def _with(access: Access, patience: ClientTimeouts) -> Access:
    return replace(
        access,
        connect_timeout=patience.connect_timeout,
        read_timeout=patience.read_timeout,
        attempts=patience.attempts,
    )


class SqsPublisher:
    """Publishes events. ``patience``: seconds after which an answer is no longer waited for, however it is delayed."""

    def __init__(self, client: SqsClient, queues: QueueUrls, clock: Clock, *, patience: float = 4) -> None:
        self._client = client
        self._queues = queues
        self._clock = clock
        self._patience = patience

    async def publish(self, event: TurnSettled, *, consumer: str | None = None, emission: str | None = None) -> None:
        """Append an event; see the port. SQS remembers an emission for five minutes."""
        url = self._queues.live(Queue.MAIN if consumer is None else Queue.RETRY)
        message = outgoing(event, consumer, emission, to_millis(self._clock()))
        with translate_errors(url):
            async with asyncio.timeout(self._patience):
                await self._client.send_message(QueueUrl=url, **message)


Oldest = Callable[[str], Awaitable[datetime | None]]
"""Since when the oldest message of a queue waits. SQS itself does not tell; CloudWatch does."""


async def _unknown(_: str) -> datetime | None:
    return None


class SqsStream(SqsPublisher):
    """A stream; see the port for what each verb promises.

    ``wait``: how long a receive waits for a first record. ``sender``: another client for the publishing half, with
    shorter time limits. A receive brings at most ten records of one group, because a group that has some in flight
    waits for them.
    """

    def __init__(
        self,
        client: SqsClient,
        queues: QueueUrls,
        clock: Clock,
        *,
        sender: SqsClient | None = None,
        wait: timedelta = timedelta(0),
        oldest: Oldest = _unknown,
    ) -> None:
        super().__init__(sender or client, queues, clock)
        self._reader = client
        self._wait_s = int(wait.total_seconds())
        self._oldest = oldest
        self._letters = {queue: DeadLetterQueue(client, queues, queue) for queue in Queue}

    async def receive(self, queue: Queue, *, limit: int, visibility: timedelta) -> Sequence[Delivery]:
        found: list[Delivery] = []
        while len(found) < limit:
            asked = min(client.MAX_ENTRIES, limit - len(found))
            received_at = to_millis(self._clock())
            try:
                messages = await dead_letters.receive(
                    self._reader,
                    self._queues.live(queue),
                    limit=asked,
                    visibility_s=_seconds(visibility),
                    wait_s=0 if found else self._wait_s,
                )
            except StreamUnavailable:
                if not found:
                    raise
                break
            for message in messages:
                given = records.delivery(queue, message, received_at)
                if given.receives <= MAX_RECEIVES or not await self._give_up(given):
                    found.append(given)
            if len(messages) < asked:
                break
        return found

    async def ack(self, receipts: Sequence[Receipt]) -> None:
        for url, mine in self._by_queue(receipts).items():
            await client.delete(self._reader, url, [Handle.of(receipt).receipt for receipt in mine])

    async def release(self, receipts: Sequence[Receipt], *, after: timedelta) -> None:
        now = to_millis(self._clock())
        for url, mine in self._by_queue(receipts).items():
            changes = [(Handle.of(one).receipt, records.after_receive(one, after, now)) for one in mine]
            await client.change_visibility(self._reader, url, changes)

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        await self._letters[delivery.receipt.queue].add(delivery, reason)

    async def dead_letters(self, *, after: DeadLetterKey | None = None, limit: int) -> Sequence[DeadLetter]:
        """Beyond a place all of them are looked at: SQS shows no message but by receiving it."""
        read = limit if after is None else sys.maxsize
        found = [one for queue in Queue for one in await self._letters[queue].list(read)]
        found.sort(key=lambda one: (one[0].died_at, one[0].queue, one[1]))
        known = [letter for letter, _ in found]
        return (known if after is None else _beyond(known, after))[:limit]

    async def redrive(self, ids: Sequence[str]) -> int:
        moved: set[str] = set()
        for queue in Queue:
            if left := set(ids) - moved:
                moved |= await self._letters[queue].redrive(left)
        return len(moved)

    async def depth(self) -> Depth:
        """What SQS tells of its queues, with up to a minute's delay."""
        queues = self._queues
        urls = (queues.main, queues.retry, queues.main_dead, queues.retry_dead)
        counts = await asyncio.gather(*(dead_letters.count(self._reader, url) for url in urls))
        since = [at for at in [await self._oldest(url) for url in urls[:2]] if at is not None]
        return Depth(
            main=counts[0], retry=counts[1], dead_letters=counts[2] + counts[3], oldest=min(since, default=None)
        )

    def deliveries(self, event: Mapping[str, Any]) -> list[tuple[str, Delivery]]:
        """The records of a Lambda event, each with the id by which Lambda knows it.

        Raises ValueError for an event that is not one of these queues: another lane's, or no SQS event at all.
        """
        now = to_millis(self._clock())
        return [(message.id, records.delivery(queue, message, now)) for queue, message in self._invoked(event)]

    def _invoked(self, event: Mapping[str, Any]) -> list[tuple[Queue, SqsMessage]]:
        found = event.get("Records") if isinstance(event, Mapping) else None
        if not isinstance(found, list):
            raise ValueError("the event is not one of SQS: it has no Records")
        names = {self._queues.live(queue).rpartition("/")[2]: queue for queue in Queue}
        messages = []
        for record in found:
            source = str(record.get("eventSourceARN", "")).rpartition(":")[2]
            if source not in names:
                raise ValueError(f"queue {source!r} is not one of this bridge ({', '.join(names)})")
            messages.append((names[source], records.invoked(record)))
        return messages

    async def _give_up(self, delivery: Delivery) -> bool:
        """Bury what the redrive policy of its queue should have moved (it may be missing, or allow more receives)."""
        try:
            await self.dead_letter(delivery, reason=GIVEN_UP)
        except StreamUnavailable:
            return False
        return True

    def _by_queue(self, receipts: Sequence[Receipt]) -> dict[str, list[Receipt]]:
        found: dict[str, list[Receipt]] = {}
        for receipt in receipts:
            found.setdefault(self._queues.live(receipt.queue), []).append(receipt)
        return found


def _seconds(visibility: timedelta) -> int:
    """SQS counts whole seconds, up to twelve hours."""
    return min(43_200, -(-visibility // timedelta(seconds=1)))


def _beyond(found: Sequence[DeadLetter], after: DeadLetterKey) -> Sequence[DeadLetter]:
    """Those beyond a place. Where its letter is gone, those of its very time may come again: none is left out."""
    for place, one in enumerate(found):
        if one.id == after.id:
            return found[place + 1 :]
    return [one for one in found if one.died_at >= after.died_at]
