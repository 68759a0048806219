"""Streams with clients of their own: patient ones to read, impatient ones to publish."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from afterturn.aws.names import Names
from afterturn.aws.session import Access, open_client, open_session
from afterturn.clock import Clock
from afterturn.stream.sqs.client import PUBLISHING, READING, ClientTimeouts, QueueUrls, translate_errors
from afterturn.stream.sqs.publisher import SqsPublisher
from afterturn.stream.sqs.stream import SqsStream

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
