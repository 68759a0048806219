"""The bridge: handles batches of stream records, and the loops that receive them."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from afterturn import telemetry
from afterturn.bridge.plan import BatchPlan, backoff, held_up, plan_batch
from afterturn.errors import AfterturnError, EngineUnavailable, StoreError, StreamUnavailable
from afterturn.event import TurnSettled
from afterturn.reactions.port import RefusedSignal, Signaler
from afterturn.stream.port import Delivery, Queue, Receipt, Stream


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a batch.

    ``done``: receipts to acknowledge (empty if the engine has acknowledged them). ``failed``: deliveries that were
    released for another receive. ``down``: the error of an engine that does not answer.
    """

    done: tuple[Receipt, ...]
    failed: tuple[Delivery, ...]
    down: EngineUnavailable | None = None


@dataclass(frozen=True, slots=True)
class ReceiveOptions:
    """How a bridge receives from a stream.

    ``batch``: records per receive. ``long_polls``: concurrent receives on the main queue, for a stream whose receives
    wait for records; 0 for a stream that answers at once and wakes the bridge when something is published. ``rest``:
    seconds to wait after a batch that was not full, so that records published one by one share a batch.
    """

    batch: int = 200
    long_polls: int = 0
    rest: float = 0.0


OnOutage = Callable[[AfterturnError], None]

IN_PROCESS = ReceiveOptions(rest=0.05)
"""For a stream in this process."""


class Bridge:
    """Reads both queues and signals consumers by name.

    ``visibility``: how soon the batch of a crashed bridge is handed out again; handling a batch takes milliseconds.
    ``unknown_consumers``: groups of the retry queue whose consumer this bridge does not know.
    """

    def __init__(self, stream: Stream, engine: Signaler, consumers: Collection[str], *, visibility: timedelta) -> None:
        self._stream = stream
        self._engine = engine
        self._consumers = consumers
        self._visibility = visibility
        self.unknown_consumers: set[tuple[str | None, str]] = set()
        self._down = False
        self._outage = Outage()
        self._loops = itertools.count()

    async def run(
        self, stop: asyncio.Event, wake: asyncio.Event, options: ReceiveOptions = IN_PROCESS, *, poll: float
    ) -> None:
        """Read both queues until stopped. ``poll``: seconds between two receives if nothing wakes the bridge."""
        if not options.long_polls:
            await self._receive(stop, wake, tuple(Queue), options, poll)
            return
        async with asyncio.TaskGroup() as group:
            for queue in (*[Queue.MAIN] * options.long_polls, Queue.RETRY):
                group.create_task(self._receive(stop, asyncio.Event(), (queue,), options, poll))

    async def pump(self, queue: Queue, *, limit: int, on_outage: OnOutage | None = None) -> int:
        """Receive one batch, signal every consumer of its events, and acknowledge the records that are done.

        Returns the number of records. Raises EngineUnavailable after releasing the batch; ``on_outage`` is called
        before.
        """
        batch = await self._stream.receive(queue, limit=limit, visibility=self._visibility)
        if batch:
            outcome = await self.deliver(batch, visibility=self._visibility, on_outage=on_outage)
            if outcome.done:
                await self._stream.ack(outcome.done)
            if outcome.down is not None:
                raise outcome.down
        return len(batch)

    async def deliver(
        self, batch: Sequence[Delivery], *, visibility: timedelta | None = None, on_outage: OnOutage | None = None
    ) -> BatchResult:
        """Signal every consumer of every event; returns what may be acknowledged: nothing before it is safe elsewhere.

        Only an invalid record goes to the dead letters. If a consumer refuses, the event is deferred to the retry
        queue for that consumer, and the record is done. A record that fails is released, together with the records
        behind it in its group. ``visibility``: while the engine works, records are kept invisible for this long at a
        time. ``on_outage`` is called with the error of an engine that does not answer, before records are released.
        """
        plan = plan_batch(batch, self._consumers)
        not_moved = [delivery for delivery, reason in plan.invalid if not await self._dead_letter(delivery, reason)]
        failed = held_up(batch, not_moved)
        if failed:
            invalid = {delivery for delivery, _ in plan.invalid}
            rest = [delivery for delivery in batch if delivery not in invalid and delivery not in failed]
            plan = plan_batch(rest, self._consumers)
            await self._release(failed, error="dead_letters_unavailable")
        self.unknown_consumers |= {(delivery.consumer, delivery.group) for delivery in plan.unknown_consumer}
        await self._release(plan.unknown_consumer, error="unknown_consumer")
        failed += plan.unknown_consumer
        valid = [delivery for delivery, _ in plan.valid]
        receipts = [delivery.receipt for delivery in valid]
        try:
            async with self._kept_invisible(receipts, visibility):
                result = await self._engine.signal(plan.signals, receipts)
        except EngineUnavailable as error:
            if on_outage is not None:
                on_outage(error)
            await self._release(valid, error=type(error).__name__)
            return BatchResult(done=(), failed=(*failed, *valid), down=error)
        if result.acknowledged:
            return BatchResult(done=(), failed=tuple(failed))
        not_deferred = await self._defer(plan, result.refused)
        done = [delivery.receipt for delivery in valid if delivery not in not_deferred]
        return BatchResult(done=tuple(done), failed=(*failed, *not_deferred))

    async def _receive(
        self, stop: asyncio.Event, wake: asyncio.Event, queues: Sequence[Queue], options: ReceiveOptions, poll: float
    ) -> None:
        """Pump until stopped. While the store or the stream does not answer, wait and try again.

        While the engine is down no loop receives, so that an outage uses up one receive of a record and not all of
        them. If receives wait for records, those that wait when the outage begins may use up a second one.
        """
        pause, loop = poll, next(self._loops)

        def begin_outage(error: AfterturnError) -> None:
            # Before the batch is released: the engine may answer another loop meanwhile, and this is the same outage.
            self._down = self._down or isinstance(error, EngineUnavailable)
            self._outage.begin(loop, type(error).__name__)

        while not stop.is_set():
            wake.clear()
            try:
                if self._down:
                    await self._engine.ready()
                    self._down = False
                    self._outage.answered()
                handled = [await self.pump(queue, limit=options.batch, on_outage=begin_outage) for queue in queues]
                self._outage.end(loop)
                pause = poll
            except (EngineUnavailable, StreamUnavailable, StoreError) as error:
                handled = []
                pause = min(pause * 2, 30.0)
                begin_outage(error)
            if not any(handled):
                await wait_any(stop, wake, timeout=pause)
            elif options.rest and max(handled) < options.batch:
                await wait_any(stop, timeout=options.rest)

    async def _defer(self, plan: BatchPlan, refused: Sequence[RefusedSignal]) -> list[Delivery]:
        """Publish refused signals to the retry queue; returns the deliveries that had to be released instead."""
        by_key = {(refusal.signal.consumer, refusal.signal.conversation_id): refusal for refusal in refused}
        failed: dict[Delivery, str] = {}
        for delivery, event in plan.valid:
            if delivery.consumer is not None:
                if refusal := by_key.get((delivery.consumer, event.conversation_id)):
                    failed[delivery] = refusal.error
                continue
            try:
                for refusal in refused:
                    if refusal.signal.conversation_id == event.conversation_id:
                        await self._publish_deferred(event, refusal)
            except StreamUnavailable as error:
                failed[delivery] = type(error).__name__
        behind = held_up([delivery for delivery, _ in plan.valid], failed)
        for delivery in behind:
            await self._release([delivery], error=failed.get(delivery, "held_up"))
        return behind

    async def _publish_deferred(self, event: TurnSettled, refusal: RefusedSignal) -> None:
        consumer = refusal.signal.consumer
        await self._stream.publish(event, consumer=consumer, emission=uuid.uuid4().hex)
        telemetry.signals_deferred.labels(consumer=consumer).inc()
        telemetry.log(
            "signal_deferred", level=logging.WARNING, consumer=consumer, event_id=event.event_id, error=refusal.error
        )

    @asynccontextmanager
    async def _kept_invisible(self, receipts: Sequence[Receipt], visibility: timedelta | None) -> AsyncIterator[None]:
        """Extend the records' visibility timeout for as long as the block takes."""
        if visibility is None or not receipts:
            yield
            return
        extending = asyncio.create_task(self._extend_visibility(receipts, visibility))
        try:
            yield
        finally:
            extending.cancel()
            await asyncio.wait([extending])

    async def _extend_visibility(self, receipts: Sequence[Receipt], visibility: timedelta) -> None:
        while True:
            await asyncio.sleep(visibility.total_seconds() / 3)
            try:
                await self._stream.release(receipts, after=visibility)
            except StreamUnavailable as error:
                telemetry.log("visibility_not_extended", level=logging.WARNING, error=type(error).__name__)

    async def _release(self, deliveries: Sequence[Delivery], *, error: str) -> None:
        """Make records visible again later. If that fails, they are when their visibility timeout ends."""
        alike: dict[tuple[str, str | None, int, int], int] = {}
        for delivery in deliveries:
            delay = backoff(delivery.receives)
            try:
                await self._stream.release([delivery.receipt], after=delay)
            except StreamUnavailable as unavailable:
                telemetry.log("release_failed", level=logging.WARNING, error=type(unavailable).__name__)
                continue
            kind = (delivery.receipt.queue.value, delivery.consumer, delivery.receives, int(delay.total_seconds()))
            alike[kind] = alike.get(kind, 0) + 1
        for (queue, consumer, receives, delay_s), count in alike.items():
            telemetry.log(
                "records_released",
                level=logging.WARNING,
                queue=queue,
                consumer=consumer,
                receives=receives,
                error=error,
                delay_s=delay_s,
                count=count,
            )

    async def _dead_letter(self, delivery: Delivery, reason: str) -> bool:
        """Move a record to the dead letters; returns whether that succeeded."""
        queue = delivery.receipt.queue.value
        try:
            await self._stream.dead_letter(delivery, reason=reason)
        except StreamUnavailable as error:
            telemetry.log("dead_letter_failed", level=logging.ERROR, queue=queue, error=type(error).__name__)
            return False
        telemetry.records_dead_lettered.labels(queue=queue).inc()
        telemetry.log("record_dead_lettered", level=logging.ERROR, queue=queue, error="invalid_event")
        return True


class Outage:
    """Logs when an outage begins and when it ends: once, however many loops meet it and however often each tries.

    ``seconds``: a monotonic clock. A ``loop`` is any number that identifies one.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._loops: set[int] = set()
        self._logged: set[str] = set()
        self._began = 0.0
        self._answered: float | None = None

    def begin(self, loop: int, error: str) -> None:
        """A loop met an error; each kind of error is logged once."""
        if not self._loops:
            self._began = self._seconds()
            self._logged.clear()
        self._loops.add(loop)
        self._answered = None
        if error not in self._logged:
            self._logged.add(error)
            telemetry.log("bridge_paused", level=logging.ERROR, error=error)

    def answered(self) -> None:
        """The engine answers again; the outage ends when every loop has gone on."""
        if self._answered is None:
            self._answered = self._seconds()

    def end(self, loop: int) -> None:
        """A loop has gone on."""
        if loop not in self._loops:
            return
        self._loops.discard(loop)
        if not self._loops:
            ended = self._seconds() if self._answered is None else self._answered
            telemetry.log("bridge_resumed", level=logging.WARNING, age_s=round(ended - self._began))


async def wait_any(*events: asyncio.Event, timeout: float) -> None:
    """Wait until one of the events is set, or for ``timeout`` seconds."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
