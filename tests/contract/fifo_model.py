"""The SQS stream over the strict FIFO model."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.fifo import FifoService, Limits

from afterturn.clock import EPOCH, Clock
from afterturn.stream.port import MAX_RECEIVES
from afterturn.stream.sqs import QueueUrls, SqsStream


def create_queues(service: FifoService, *, max_receives: int = MAX_RECEIVES, limits: Limits | None = None) -> QueueUrls:
    """The four queues of a lane."""

    def create(name: str) -> tuple[str, str]:
        dead = service.create(f"{name}-dead.fifo", limits=limits)
        return service.create(f"{name}.fifo", dead=dead, max_receives=max_receives, limits=limits), dead

    main, main_dead = create("events")
    retry, retry_dead = create("retry")
    return QueueUrls(main, retry, main_dead, retry_dead)


def fifo_stream(service: FifoService, clock: Clock, *, client: Any = None, **queues: Any) -> SqsStream:
    """A stream on new queues; ``client``: the service with faults in front of it."""

    async def oldest(url: str) -> datetime | None:
        sent_at = service.queue(url).oldest()
        return None if sent_at is None else EPOCH + timedelta(milliseconds=sent_at)

    return SqsStream(client or service, create_queues(service, **queues), clock, oldest=oldest)
