"""Records stay invisible for as long as the engine takes, and not a moment longer than they have to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from tests.contract.samples import T0
from tests.contract.stream import publish
from tests.fifo import FifoService, fifo_stream

from afterturn.bridge.bridge import Bridge
from afterturn.errors import EngineUnavailable, StreamUnavailable
from afterturn.reactions.port import Signal, SignalResult
from afterturn.stream.port import Queue, Receipt
from afterturn.stream.sqs import SqsStream
from afterturn.testing import ManualClock

VISIBILITY = timedelta(seconds=0.06)


class SlowEngine:
    """An engine that takes until it is let go."""

    def __init__(self, error: Exception | None = None) -> None:
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        self._error = error

    async def ready(self) -> None:
        pass

    async def signal(self, signals: Sequence[Signal], receipts: Sequence[Receipt]) -> SignalResult:
        self.begun.set()
        await self.go.wait()
        if self._error is not None:
            raise self._error
        return SignalResult()


class WatchedStream(SqsStream):
    """Counts the extensions, and may fail them."""

    failing = False

    def watch(self) -> WatchedStream:
        self.extended = asyncio.Semaphore(0)
        self.released: list[timedelta] = []
        return self

    async def release(self, receipts: Sequence[Receipt], *, after: timedelta) -> None:
        self.released.append(after)
        self.extended.release()
        if self.failing:
            raise StreamUnavailable("no answer")
        await super().release(receipts, after=after)


@pytest.fixture
def stream() -> WatchedStream:
    clock = ManualClock(T0)
    service = FifoService(clock)
    return WatchedStream(service, fifo_stream(service, clock)._queues, clock).watch()


@pytest.mark.parametrize("failing", [False, True])
async def test_records_are_kept_while_the_engine_takes_its_time(stream: WatchedStream, failing: bool) -> None:
    """Also where an extension fails: the next one may not."""
    stream.failing = failing
    engine = SlowEngine()
    await publish(stream, "a@1", "b@1")
    pumping = asyncio.create_task(Bridge(stream, engine, ["topics"], visibility=VISIBILITY).pump(Queue.MAIN, limit=10))
    for _ in range(3):
        await stream.extended.acquire()
    engine.go.set()
    assert await pumping == 2
    assert set(stream.released) == {VISIBILITY}
    told = len(stream.released)
    await asyncio.sleep(VISIBILITY.total_seconds())
    assert len(stream.released) == told
    assert (await stream.depth()).main == 0


async def test_the_back_off_has_the_last_word(stream: WatchedStream) -> None:
    engine = SlowEngine(EngineUnavailable("no answer"))
    await publish(stream, "a@1")
    pumping = asyncio.create_task(Bridge(stream, engine, ["topics"], visibility=VISIBILITY).pump(Queue.MAIN, limit=10))
    await stream.extended.acquire()
    engine.go.set()
    with pytest.raises(EngineUnavailable):
        await pumping
    assert stream.released[-1] == timedelta(seconds=5)


async def test_a_lambda_function_leaves_visibility_to_its_mapping(stream: WatchedStream) -> None:
    engine = SlowEngine()
    await publish(stream, "a@1")
    batch = await stream.receive(Queue.MAIN, limit=10, visibility=timedelta(seconds=180))
    delivering = asyncio.create_task(Bridge(stream, engine, ["topics"], visibility=VISIBILITY).deliver(batch))
    await engine.begun.wait()
    await asyncio.sleep(VISIBILITY.total_seconds())
    engine.go.set()
    outcome = await delivering
    assert (len(outcome.done), outcome.failed, stream.released) == (1, (), [])
