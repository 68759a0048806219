"""The stream contract on the SQS stream over the strict FIFO model."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.contract.samples import T0
from tests.contract.stream import RedriveContract, StreamContract, event
from tests.contract.stream_emissions import check_emissions
from tests.contract.stream_machine import CONSUMERS, GROUPS, StreamMachine, Waiting
from tests.fifo import FifoService, fifo_stream

from afterturn.stream.port import Delivery, Queue, Stream
from afterturn.testing import ManualClock

FIVE_MINUTES = timedelta(minutes=5)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(T0)


@pytest.fixture
def stream(clock: ManualClock) -> Stream:
    return fifo_stream(FifoService(clock), clock)


class TestModelStream(StreamContract):
    async def test_an_event_that_waits_is_not_doubled(self, stream: Stream) -> None:
        await check_emissions(stream)


class TestModelRedrive(RedriveContract):
    pass


class ModelStreamMachine(StreamMachine):
    """What SQS does differently from SQLite, in any order of verbs.

    It remembers a send for five minutes whatever became of the record; it delivers nothing of a group that has any
    record in flight; it refuses an expired receipt even if nobody has received the record since; a record that moves
    to the dead letters takes no place in the batch.
    """

    death_takes_a_place = False

    def open_stream(self, clock: ManualClock) -> Stream:
        self.remembered: dict[tuple[str | None, str, int], datetime] = {}
        self.emissions = 0
        return fifo_stream(FifoService(clock), clock)

    @rule(conversation_id=GROUPS, second=st.integers(0, 4), consumer=CONSUMERS, emission=st.sampled_from([None, "e"]))
    def publish(self, conversation_id: str, second: int, consumer: str | None, emission: str | None = None) -> None:
        self.emissions += 1
        name = None if emission is None else f"{emission}{self.emissions}"
        self.await_(self.stream.publish(event(conversation_id, second), consumer=consumer, emission=name))
        key = (consumer, conversation_id, second)
        now = self.clock()
        if name is None:
            if now - self.remembered.get(key, T0 - FIVE_MINUTES) < FIVE_MINUTES:
                return
            self.remembered[key] = now
        self._append(Waiting(consumer, conversation_id, second, T0))

    def _append(self, new: Waiting) -> None:
        self.waiting.append(new)

    def _dead_in_order(self) -> list[Waiting]:
        return sorted(self.dead, key=lambda model: (model.died_at, model.queue))

    def _visible(self, queue: Queue, now: datetime) -> list[Waiting]:
        of_queue = [model for model in self.waiting if model.queue is queue]
        blocked = {model.group for model in of_queue if model.visible_at > now}
        return [model for model in of_queue if model.group not in blocked]

    def _pick(self, data: st.DataObject, keep: bool) -> tuple[Delivery, Waiting | None]:
        delivery, model = super()._pick(data, keep)
        return delivery, model if model is not None and model.visible_at > self.clock() else None


TestModelStreamMachine = ModelStreamMachine.TestCase
TestModelStreamMachine.settings = settings(max_examples=60, stateful_step_count=40)
