"""The bridge: one handler for a batch, and the loop that feeds it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from afterturn import telemetry
from afterturn.bridge.outage import Outage
from afterturn.bridge.plan import BatchPlan, backoff, held_up, plan_batch
from afterturn.errors import EngineUnavailable, StoreError, StreamUnavailable
from afterturn.event import TurnSettled
from afterturn.reactions.port import RefusedSignal, Signaler
from afterturn.stream.port import Delivery, Queue, Receipt, Stream


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of a batch.

    ``done``: receipts to be acknowledged (none where the engine has done so). ``failed``: deliveries that were given
    back. ``down``: the error of an engine that does not answer.
    """

    done: tuple[Receipt, ...]
    failed: tuple[Delivery, ...]
    down: EngineUnavailable | None = None


class Bridge:
    """Reads both queues and signals consumers by name.

    ``visibility``: how soon the batch of a bridge that died is handed out again; a batch takes milliseconds.
    ``strangers``: groups of the direct queue that wait for a consumer which this bridge does not know.
    """

    def __init__(self, stream: Stream, engine: Signaler, consumers: Collection[str], *, visibility: timedelta) -> None:
        self._stream = stream
        self._engine = engine
        self._consumers = consumers
        self._visibility = visibility
        self.unknown_consumers: set[tuple[str | None, str]] = set()
        self._down = False
        self._outage = Outage()
        self._runs = itertools.count()

    async def pump(self, queue: Queue, *, limit: int) -> int:
        """Receive one batch and handle it; returns how many records there were. Raises EngineUnavailable."""
        batch = await self._stream.receive(queue, limit=limit, visibility=self._visibility)
        if batch:
            await self.handle(batch)
        return len(batch)

    async def handle(self, batch: Sequence[Delivery]) -> None:
        """Signal every consumer of every event, and acknowledge what is done with.

        Raises EngineUnavailable after the batch was given back.
        """
        outcome = await self.deliver(batch, visibility=self._visibility)
        if outcome.done:
            await self._stream.ack(outcome.done)
        if outcome.down is not None:
            raise outcome.down

    async def deliver(self, batch: Sequence[Delivery], *, visibility: timedelta | None = None) -> BatchResult:
        """Signal every consumer of every event, and say what may be acknowledged: nothing before it is safe elsewhere.

        An invalid record goes to the dead letters alone. A consumer that refuses gets the event parked in the direct
        queue, and the record is done with. What fails is given back, and with it what stands behind it in its group.
        ``visibility``: while the engine takes its time, the records are kept invisible for so long at a time.
        """
        todo = plan_batch(batch, self._consumers)
        unburied = [delivery for delivery, reason in todo.invalid if not await self._dead_letter(delivery, reason)]
        failed = held_up(batch, unburied)
        if failed:
            invalid = {delivery for delivery, _ in todo.invalid}
            todo = plan_batch([one for one in batch if one not in invalid and one not in failed], self._consumers)
            await self._release(failed, error="dead_letters_unavailable")
        self.unknown_consumers |= {(delivery.consumer, delivery.group) for delivery in todo.unknown_consumer}
        await self._release(todo.unknown_consumer, error="unknown_consumer")
        failed += todo.unknown_consumer
        valid = [delivery for delivery, _ in todo.valid]
        receipts = [delivery.receipt for delivery in valid]
        try:
            async with self._kept(receipts, visibility):
                accepted = await self._engine.signal(todo.signals, receipts)
        except EngineUnavailable as error:
            await self._release(valid, error=type(error).__name__)
            return BatchResult(done=(), failed=(*failed, *valid), down=error)
        if accepted.acknowledged:
            return BatchResult(done=(), failed=tuple(failed))
        unparked = await self._defer(todo, accepted.refused)
        done = [delivery.receipt for delivery in valid if delivery not in unparked]
        return BatchResult(done=tuple(done), failed=(*failed, *unparked))

    async def run(
        self,
        stop: asyncio.Event,
        wake: asyncio.Event,
        *,
        limit: int,
        poll: float,
        queues: Collection[Queue] = tuple(Queue),
        rest: float = 0.0,
    ) -> None:
        """Pump until stopped. While store or stream do not answer, wait and try again.

        While the engine is down nothing is received by any run, so that an outage uses up one receive of a record and
        not all; where receives wait for records, those that wait when it begins may use up a second one. ``queues``:
        there each queue needs a run of its own, and a ``wake`` of its own. ``rest``: seconds after a batch that was not
        full, so that what comes meanwhile is taken together.
        """
        pause, run = poll, next(self._runs)
        while not stop.is_set():
            wake.clear()
            try:
                if self._down:
                    await self._engine.ready()
                    self._down = False
                    self._outage.answered()
                handled = [await self.pump(queue, limit=limit) for queue in queues]
                self._outage.end(run)
                pause = poll
            except (EngineUnavailable, StreamUnavailable, StoreError) as error:
                handled = []
                self._down = self._down or isinstance(error, EngineUnavailable)
                pause = min(pause * 2, 30.0)
                self._outage.begin(run, type(error).__name__)
            if not any(handled):
                await wait_any(stop, wake, timeout=pause)
            elif rest and max(handled) < limit:
                await wait_any(stop, timeout=rest)

    async def _defer(self, todo: BatchPlan, refused: Sequence[RefusedSignal]) -> list[Delivery]:
        """Put what single consumers refused aside; returns the deliveries that had to be given back."""
        by_key = {(one.signal.consumer, one.signal.conversation_id): one for one in refused}
        failed: dict[Delivery, str] = {}
        for delivery, event in todo.valid:
            if delivery.consumer is not None:
                if one := by_key.get((delivery.consumer, event.conversation_id)):
                    failed[delivery] = one.error
                continue
            mine = [one for one in refused if one.signal.conversation_id == event.conversation_id]
            try:
                for one in mine:
                    await self._stream.publish(event, consumer=one.signal.consumer, emission=uuid.uuid4().hex)
                    _tell_parked(one, event)
            except StreamUnavailable as error:
                failed[delivery] = type(error).__name__
        behind = held_up([delivery for delivery, _ in todo.valid], failed)
        for delivery in behind:
            await self._release([delivery], error=failed.get(delivery, "held_up"))
        return behind

    @asynccontextmanager
    async def _kept(self, receipts: Sequence[Receipt], visibility: timedelta | None) -> AsyncIterator[None]:
        """Keep records invisible for as long as the block takes."""
        if visibility is None or not receipts:
            yield
            return
        keeper = asyncio.create_task(self._keep(receipts, visibility))
        try:
            yield
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])

    async def _keep(self, receipts: Sequence[Receipt], visibility: timedelta) -> None:
        while True:
            await asyncio.sleep(visibility.total_seconds() / 3)
            try:
                await self._stream.release(receipts, after=visibility)
            except StreamUnavailable as error:
                telemetry.log("visibility_not_extended", level=logging.WARNING, error=type(error).__name__)

    async def _release(self, deliveries: Sequence[Delivery], *, error: str) -> None:
        """Give records back. Where that fails they come back by themselves, when their visibility ends."""
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
        """Move a record to the dead letters; whether they took it."""
        queue = delivery.receipt.queue.value
        try:
            await self._stream.dead_letter(delivery, reason=reason)
        except StreamUnavailable as error:
            telemetry.log("dead_letter_failed", level=logging.ERROR, queue=queue, error=type(error).__name__)
            return False
        telemetry.records_dead_lettered.labels(queue=queue).inc()
        telemetry.log("record_dead_lettered", level=logging.ERROR, queue=queue, error="invalid_event")
        return True


def _tell_parked(refused: RefusedSignal, event: TurnSettled) -> None:
    consumer = refused.signal.consumer
    telemetry.signals_deferred.labels(consumer=consumer).inc()
    telemetry.log(
        "signal_deferred", level=logging.WARNING, consumer=consumer, event_id=event.event_id, error=refused.error
    )


async def wait_any(*events: asyncio.Event, timeout: float) -> None:
    """Until one of the events is set or the time is over."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
