"""The emitter's half: one SendMessage."""

from __future__ import annotations

import asyncio

from afterturn.clock import Clock, to_millis
from afterturn.event import TurnSettled
from afterturn.stream.port import Queue
from afterturn.stream.sqs.client import QueueUrls, SqsClient, translate_errors
from afterturn.stream.sqs.records import outgoing


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
