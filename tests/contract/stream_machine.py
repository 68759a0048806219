"""A stream against a plain list, in any order of verbs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from tests.contract.machines import AsyncMachine
from tests.contract.samples import T0
from tests.contract.stream import event, name_of

from afterturn.stream.port import MAX_RECEIVES, Delivery, Queue, Stream
from afterturn.testing import ManualClock

GROUPS = st.sampled_from(["a", "b", "c"])
CONSUMERS = st.sampled_from([None, None, "topics", "grade"])
QUEUES = st.sampled_from(list(Queue))
WAITS = st.sampled_from([0, 1, 5, 30, 600]).map(lambda seconds: timedelta(seconds=seconds))


@dataclass(eq=False)
class Waiting:
    """A record as the model has it."""

    consumer: str | None
    conversation_id: str
    second: int
    visible_at: datetime
    receives: int = 0
    died_at: datetime = T0

    @property
    def name(self) -> str:
        return f"{self.conversation_id}@{self.second}"

    @property
    def group(self) -> tuple[str | None, str]:
        return self.consumer, self.conversation_id

    @property
    def queue(self) -> Queue:
        return Queue.MAIN if self.consumer is None else Queue.RETRY

    def is_same_as(self, other: Waiting) -> bool:
        return (self.group, self.second) == (other.group, other.second)


class StreamMachine(AsyncMachine):
    """Subclasses supply ``open_stream``. ``death_takes_a_place``: in the batch of the receive that finds it."""

    death_takes_a_place = True

    def open_stream(self, clock: ManualClock) -> Stream:
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        self.clock = ManualClock(T0)
        self.stream = self.open_stream(self.clock)
        self.waiting: list[Waiting] = []
        self.dead: list[Waiting] = []
        self.held: list[tuple[Delivery, Waiting, int]] = []

    @rule(conversation_id=GROUPS, second=st.integers(0, 4), consumer=CONSUMERS)
    def publish(self, conversation_id: str, second: int, consumer: str | None) -> None:
        self.await_(self.stream.publish(event(conversation_id, second), consumer=consumer))
        self._append(Waiting(consumer, conversation_id, second, T0))

    @rule(queue=QUEUES, limit=st.integers(1, 5), visibility=WAITS)
    def receive(self, queue: Queue, limit: int, visibility: timedelta) -> None:
        now = self.clock()
        expected: list[Waiting] = []
        places = limit
        for model in self._visible(queue, now):
            if not places:
                break
            if model.receives == MAX_RECEIVES:
                self._die(model)
                places -= self.death_takes_a_place
            else:
                model.receives += 1
                model.visible_at = now + visibility
                expected.append(model)
                places -= 1
        batch = self.await_(self.stream.receive(queue, limit=limit, visibility=visibility))
        assert [(name_of(delivery), delivery.consumer, delivery.receives) for delivery in batch] == [
            (model.name, model.consumer, model.receives) for model in expected
        ]
        self.held += [(delivery, model, model.receives) for delivery, model in zip(batch, expected, strict=True)]

    @precondition(lambda self: self.held)
    @rule(data=st.data(), keep=st.booleans())
    def ack(self, data: st.DataObject, keep: bool) -> None:
        delivery, model = self._pick(data, keep)
        self.await_(self.stream.ack([delivery.receipt]))
        if model in self.waiting:
            self.waiting.remove(model)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), keep=st.booleans(), after=WAITS)
    def release(self, data: st.DataObject, keep: bool, after: timedelta) -> None:
        delivery, model = self._pick(data, keep)
        self.await_(self.stream.release([delivery.receipt], after=after))
        if model in self.waiting:
            model.visible_at = self.clock() + after

    @precondition(lambda self: self.held)
    @rule(data=st.data(), keep=st.booleans())
    def dead_letter(self, data: st.DataObject, keep: bool) -> None:
        delivery, model = self._pick(data, keep)
        self.await_(self.stream.dead_letter(delivery, reason="unreadable"))
        if model in self.waiting:
            self._die(model)

    @precondition(lambda self: self.dead)
    @rule(data=st.data())
    def redrive(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.dead) - 1))
        letters = self.await_(self.stream.dead_letters(limit=1000))
        assert self.await_(self.stream.redrive([letters[number].id])) == 1
        model = self._dead_in_order()[number]
        self.dead.remove(model)
        self._append(Waiting(model.consumer, model.conversation_id, model.second, T0))

    @rule(by=WAITS)
    def time_passes(self, by: timedelta) -> None:
        self.clock.advance(by)

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        if not hasattr(self, "stream"):
            return
        depth = self.await_(self.stream.depth())
        main = sum(model.queue is Queue.MAIN for model in self.waiting)
        assert (depth.main, depth.retry, depth.dead_letters) == (main, len(self.waiting) - main, len(self.dead))
        letters = self.await_(self.stream.dead_letters(limit=1000))
        assert [(name_of(letter), letter.consumer) for letter in letters] == [
            (model.name, model.consumer) for model in self._dead_in_order()
        ]

    def _die(self, model: Waiting) -> None:
        self.waiting.remove(model)
        model.died_at = self.clock()
        self.dead.append(model)

    def _dead_in_order(self) -> list[Waiting]:
        return self.dead

    def _append(self, new: Waiting) -> None:
        if not any(model.is_same_as(new) for model in self.waiting):
            self.waiting.append(new)

    def _visible(self, queue: Queue, now: datetime) -> list[Waiting]:
        blocked: set[tuple[str | None, str]] = set()
        visible = []
        for model in self.waiting:
            if model.queue is not queue:
                continue
            if model.visible_at > now:
                blocked.add(model.group)
            elif model.group not in blocked:
                visible.append(model)
        return visible

    def _pick(self, data: st.DataObject, keep: bool) -> tuple[Delivery, Waiting | None]:
        """A delivery; its record only if the receipt is still valid."""
        number = data.draw(st.integers(0, len(self.held) - 1))
        delivery, model, receives = self.held[number] if keep else self.held.pop(number)
        return delivery, model if model.receives == receives else None
