"""The SQS stream over the strict FIFO model."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.fifo import FifoService, Limits

from afterturn.clock import EPOCH, Clock
from afterturn.stream.port import MAX_RECEIVES, Depth, Queue
from afterturn.stream.sqs import QueueUrls, SqsStream


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
