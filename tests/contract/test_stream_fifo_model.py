"""The stream contract on the SQS stream over the strict FIFO model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from tests.contract.samples import T0
from tests.contract.stream import RedriveContract, StreamContract, event, name_of
from tests.contract.stream_emissions import check_emissions
from tests.contract.stream_machine import CONSUMERS, GROUPS, QUEUES, WAITS, StreamMachine, Waiting
from tests.fifo import FifoService, fifo_stream

from afterturn.stream.port import MAX_RECEIVES, Delivery, Queue, Stream
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


@dataclass(eq=False)
class SqsRecord(Waiting):
    """A record as SQS has it."""

    died_at: datetime = T0


class ModelStreamMachine(StreamMachine):
    """What SQS does otherwise than SQLite, in any order of verbs.

    It remembers a send for five minutes whatever became of the record; it hands out nothing of a group that has any
    record in flight; it refuses an expired receipt also where nobody has received the record since; a record that moves
    to the dead letters takes no place in the batch.
    """

    waiting: list[Waiting]

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
        self.waiting.append(SqsRecord(consumer, conversation_id, second, T0))

    @rule(queue=QUEUES, limit=st.integers(1, 5), visibility=WAITS)
    def receive(self, queue: Queue, limit: int, visibility: timedelta) -> None:
        now = self.clock()
        expected: list[Waiting] = []
        for one in self._visible(queue, now):
            if len(expected) == limit:
                break
            if one.receives == MAX_RECEIVES:
                self._die(one)
            else:
                one.receives += 1
                one.visible_at = now + visibility
                expected.append(one)
        got = self.await_(self.stream.receive(queue, limit=limit, visibility=visibility))
        assert [(name_of(one), one.consumer, one.receives) for one in got] == [
            (one.name, one.consumer, one.receives) for one in expected
        ]
        self.held += [(one, model, model.receives) for one, model in zip(got, expected, strict=True)]

    @precondition(lambda self: self.held)
    @rule(data=st.data(), keep=st.booleans())
    def dead_letter(self, data: st.DataObject, keep: bool) -> None:
        delivery, model = self._pick(data, keep)
        self.await_(self.stream.dead_letter(delivery, reason="x"))
        if model in self.waiting:
            self._die(model)

    @precondition(lambda self: self.dead)
    @rule(data=st.data())
    def redrive(self, data: st.DataObject) -> None:
        letters = self.await_(self.stream.dead_letters(limit=1000))
        number = data.draw(st.integers(0, len(letters) - 1))
        assert self.await_(self.stream.redrive([letters[number].id])) == 1
        model = self._in_order()[number]
        self.dead.remove(model)
        self.waiting.append(SqsRecord(model.consumer, model.conversation_id, model.second, T0))

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        if not hasattr(self, "stream"):
            return
        depth = self.await_(self.stream.depth())
        main = sum(one.queue is Queue.MAIN for one in self.waiting)
        assert (depth.main, depth.retry, depth.dead_letters) == (main, len(self.waiting) - main, len(self.dead))
        letters = self.await_(self.stream.dead_letters(limit=1000))
        assert [(name_of(one), one.consumer) for one in letters] == [
            (one.name, one.consumer) for one in self._in_order()
        ]

    def _die(self, model: Waiting) -> None:
        self.waiting.remove(model)
        assert isinstance(model, SqsRecord)
        model.died_at = self.clock()
        self.dead.append(model)

    def _in_order(self) -> list[Waiting]:
        return sorted(
            self.dead, key=lambda one: (one.died_at, one.queue) if isinstance(one, SqsRecord) else (T0, one.queue)
        )

    def _visible(self, queue: Queue, now: datetime) -> list[Waiting]:
        mine = [one for one in self.waiting if one.queue is queue]
        blocked = {one.group for one in mine if one.visible_at > now}
        return [one for one in mine if one.group not in blocked]

    def _pick(self, data: st.DataObject, keep: bool) -> tuple[Delivery, Waiting | None]:
        delivery, model = super()._pick(data, keep)
        return delivery, model if model is not None and model.visible_at > self.clock() else None


TestModelStreamMachine = ModelStreamMachine.TestCase
TestModelStreamMachine.settings = settings(max_examples=60, stateful_step_count=40)
