"""The bridge: one handler for a batch, and the loop that feeds it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from datetime import timedelta

from afterturn import telemetry
from afterturn.bridge.plan import Plan, backoff, plan
from afterturn.errors import EngineUnavailable, StoreError, StreamUnavailable
from afterturn.reactions.engine import Refused, Signaler
from afterturn.stream.port import Delivery, Queue, Receipt, Stream


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
        self.strangers: set[tuple[str | None, str]] = set()

    async def pump(self, queue: Queue, *, limit: int) -> int:
        """Receive one batch and handle it; returns how many records there were. Raises EngineUnavailable."""
        batch = await self._stream.receive(queue, limit=limit, visibility=self._visibility)
        if batch:
            await self.handle(batch)
        return len(batch)

    async def handle(self, batch: Sequence[Delivery]) -> None:
        """Signal every consumer of every event. Nothing is acknowledged before it is safe elsewhere.

        An invalid record goes to the dead letters alone. A consumer that refuses gets the event parked in the direct
        queue, and the record is done with. Raises EngineUnavailable after the batch was given back.
        """
        todo = plan(batch, self._consumers)
        for delivery, reason in todo.invalid:
            await self._bury(delivery, reason)
        self.strangers |= {(delivery.consumer, delivery.group) for delivery in todo.unknown}
        await self._put_off(todo.unknown, error="unknown_consumer")
        receipts = [delivery.receipt for delivery, _ in todo.valid]
        try:
            accepted = await self._engine.signal(todo.signals, receipts)
        except EngineUnavailable as error:
            await self._put_off([delivery for delivery, _ in todo.valid], error=type(error).__name__)
            raise
        if not accepted.acknowledged:
            await self._stream.ack(await self._park(todo, accepted.refused))

    async def run(self, stop: asyncio.Event, wake: asyncio.Event, *, limit: int, poll: float) -> None:
        """Pump until stopped. While the engine is down, or store or stream do not answer, wait and try again."""
        pause = poll
        while not stop.is_set():
            wake.clear()
            try:
                handled = [await self.pump(queue, limit=limit) for queue in Queue]
                pause = poll
            except (EngineUnavailable, StreamUnavailable, StoreError) as error:
                handled = []
                pause = min(pause * 2, 30.0)
                telemetry.log("bridge_paused", level=logging.ERROR, error=type(error).__name__, delay_s=pause)
            if not any(handled):
                await wait_any(stop, wake, timeout=pause)

    async def _park(self, todo: Plan, refused: Sequence[Refused]) -> list[Receipt]:
        """Put what single consumers refused aside; returns the receipts that are done with."""
        by_key = {(one.signal.consumer, one.signal.conversation_id): one for one in refused}
        done: list[Receipt] = []
        for delivery, event in todo.valid:
            if delivery.consumer is not None:
                if one := by_key.get((delivery.consumer, event.conversation_id)):
                    await self._put_off([delivery], error=one.error)
                else:
                    done.append(delivery.receipt)
                continue
            for (consumer, conversation_id), one in by_key.items():
                if conversation_id == event.conversation_id:
                    await self._stream.publish(event, consumer=consumer)
                    telemetry.signals_parked.labels(consumer=consumer).inc()
                    telemetry.log(
                        "signal_parked",
                        level=logging.WARNING,
                        consumer=consumer,
                        event_id=event.event_id,
                        error=one.error,
                    )
            done.append(delivery.receipt)
        return done

    async def _put_off(self, deliveries: Sequence[Delivery], *, error: str) -> None:
        for delivery in deliveries:
            delay = backoff(delivery.receives)
            await self._stream.release([delivery.receipt], after=delay)
            telemetry.log(
                "record_released",
                level=logging.WARNING,
                queue=delivery.receipt.queue.value,
                consumer=delivery.consumer,
                receives=delivery.receives,
                error=error,
                delay_s=int(delay.total_seconds()),
            )

    async def _bury(self, delivery: Delivery, reason: str) -> None:
        await self._stream.bury(delivery, reason=reason)
        telemetry.records_buried.labels(queue=delivery.receipt.queue.value).inc()
        telemetry.log("record_buried", level=logging.ERROR, queue=delivery.receipt.queue.value, error="invalid_event")


async def wait_any(*events: asyncio.Event, timeout: float) -> None:
    """Until one of the events is set or the time is over."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
