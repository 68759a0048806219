"""F4, F5, F17, F19 and F35 on the SQS stream, with the strict FIFO model in place of SQS."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import pytest
from tests.contract.fifo_model import fifo_stream
from tests.contract.samples import T0
from tests.contract.stream import event, names, publish, receive
from tests.fifo import FifoService, partial_failures, throttled, unreachable

from afterturn.bridge.bridge import Bridge
from afterturn.errors import EngineUnavailable, StreamUnavailable
from afterturn.event import make_event, read_event
from afterturn.model import Channel, FlushMode, Origin
from afterturn.reactions.port import RefusedSignal, Signal, SignalResult
from afterturn.stream.port import Queue, Receipt
from afterturn.stream.sqs import SqsStream
from afterturn.testing import Fault, Faults, ManualClock, Moment, faulty

LEASE = timedelta(seconds=30)


class Engine:
    """Takes signals, unless told otherwise: what it took, in order."""

    def __init__(self) -> None:
        self.taken: list[Signal] = []
        self.down = 0
        self.refusing: set[str] = set()

    async def ready(self) -> None:
        if self.down:
            self.down -= 1
            raise EngineUnavailable("no answer")

    async def signal(self, signals: Sequence[Signal], receipts: Sequence[Receipt]) -> SignalResult:
        if self.down:
            self.down -= 1
            raise EngineUnavailable("no answer")
        self.taken += [one for one in signals if one.consumer not in self.refusing]
        return SignalResult([RefusedSignal(one, "RPCError") for one in signals if one.consumer in self.refusing])

    def seen(self, consumer: str = "topics") -> list[str]:
        return [
            f"{one.conversation_id}@{(one.occurred_at - T0).seconds}" for one in self.taken if one.consumer == consumer
        ]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(T0)


@pytest.fixture
def service(clock: ManualClock) -> FifoService:
    return FifoService(clock)


@pytest.fixture
def engine() -> Engine:
    return Engine()


def bridge_of(stream: SqsStream, engine: Engine, *consumers: str) -> Bridge:
    return Bridge(stream, engine, consumers or ("topics",), visibility=LEASE)


async def test_f4_a_redrive_within_five_minutes_delivers_again(
    service: FifoService, clock: ManualClock, engine: Engine
) -> None:
    """Five receives 30 s apart, dead at 150 s, redriven at 200 s: SQS still remembers the deduplication id."""
    stream = fifo_stream(service, clock)
    sent = event("c1", 1)
    await stream.publish(sent)
    for _ in range(5):
        assert len(await receive(stream)) == 1
        clock.advance(timedelta(seconds=30))
    assert not await receive(stream)
    clock.advance(timedelta(seconds=50))
    (letter,) = await stream.dead_letters(limit=10)
    assert await stream.redrive([letter.id]) == 1
    depth = await stream.depth()
    assert (depth.main, depth.dead_letters) == (1, 0)
    (got,) = await receive(stream)
    assert (read_event(got.body), got.group, got.receives) == (sent, "c1", 1)


@pytest.mark.parametrize("moment", list(Moment))
async def test_f4_a_redrive_whose_send_fails_keeps_the_letter(
    service: FifoService, clock: ManualClock, moment: Moment
) -> None:
    healthy = fifo_stream(service, clock)
    await publish(healthy, "c1@1")
    for one in await receive(healthy):
        await healthy.dead_letter(one, reason="x")
    (letter,) = await healthy.dead_letters(limit=10)
    client = faulty(service, Faults.first(1, Fault(moment, throttled), verb="send_message_batch"))
    with pytest.raises(StreamUnavailable, match="asked too often"):
        await SqsStream(client, healthy._queues, clock).redrive([letter.id])
    assert [one.id for one in await healthy.dead_letters(limit=10)] == [letter.id]


async def test_f5_a_poison_head_dies_alone(service: FifoService, clock: ManualClock, engine: Engine) -> None:
    stream = fifo_stream(service, clock)
    await service.send_message(
        QueueUrl=stream._queues.main, MessageBody="poison", MessageGroupId="c1", MessageDeduplicationId="ev-1"
    )
    await publish(stream, "c1@2", "c1@3", "c1@4", "c1@5")
    bridge = bridge_of(stream, engine)
    while await bridge.pump(Queue.MAIN, limit=1):
        pass
    assert engine.seen() == ["c1@2", "c1@3", "c1@4", "c1@5"]
    (letter,) = await stream.dead_letters(limit=10)
    assert (letter.body, letter.reason, letter.receives) == ("poison", "the record is not JSON", 1)
    depth = await stream.depth()
    assert (depth.main, depth.dead_letters) == (0, 1)


async def test_f5_in_one_batch_the_healthy_are_signalled_at_once(
    service: FifoService, clock: ManualClock, engine: Engine
) -> None:
    stream = fifo_stream(service, clock)
    await service.send_message(
        QueueUrl=stream._queues.main, MessageBody="[]", MessageGroupId="c1", MessageDeduplicationId="ev-1"
    )
    await publish(stream, "c1@2", "c1@3")
    assert await bridge_of(stream, engine).pump(Queue.MAIN, limit=10) == 3
    assert engine.seen() == ["c1@3"]
    depth = await stream.depth()
    assert (depth.main, depth.dead_letters) == (0, 1)


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("error", [throttled, unreachable])
async def test_f5_where_the_dead_letters_cannot_be_reached_nothing_overtakes(
    service: FifoService, clock: ManualClock, engine: Engine, moment: Moment, error: type[Exception]
) -> None:
    """The poison head comes again, its group behind it; other groups go on."""
    healthy = fifo_stream(service, clock)
    await service.send_message(
        QueueUrl=healthy._queues.main, MessageBody="5", MessageGroupId="c1", MessageDeduplicationId="ev-1"
    )
    await publish(healthy, "c1@2", "c2@1")
    client = faulty(service, Faults.first(1, Fault(moment, error), verb="send_message"))
    bridge = bridge_of(SqsStream(client, healthy._queues, clock), engine)
    await bridge.pump(Queue.MAIN, limit=10)
    assert engine.seen() == ["c2@1"]
    clock.advance(timedelta(minutes=5))
    await bridge.pump(Queue.MAIN, limit=10)
    assert engine.seen() == ["c2@1", "c1@2"]
    assert len(await healthy.dead_letters(limit=10)) == 1


async def test_f17_a_bridge_that_died_before_the_acknowledgement_signals_again_the_very_same(
    service: FifoService, clock: ManualClock, engine: Engine
) -> None:
    """What is signalled twice is equal, so the engine's watermark makes one of it."""
    healthy = fifo_stream(service, clock)
    client = faulty(service, Faults.first(1, Fault(Moment.BEFORE, unreachable), verb="delete_message_batch"))
    bridge = bridge_of(SqsStream(client, healthy._queues, clock), engine)
    await publish(healthy, "c1@1")
    with pytest.raises(StreamUnavailable, match="cannot be reached"):
        await bridge.pump(Queue.MAIN, limit=10)
    clock.advance(LEASE)
    assert await bridge.pump(Queue.MAIN, limit=10) == 1
    first, second = engine.taken
    assert first == second
    assert (await healthy.depth()).main == 0


@pytest.mark.parametrize("conversation_id", ["Flat 4 🏠", "x" * 200, "a\ufffdb", "~", "+49 89 / 123", "\u2066id\u2069"])
async def test_f19_an_event_of_any_legal_conversation_can_be_sent(
    service: FifoService, clock: ManualClock, engine: Engine, conversation_id: str
) -> None:
    stream = fifo_stream(service, clock)
    told = make_event(
        conversation_id=conversation_id,
        property_id="Haus 5 – Hof",
        origin=Origin.TEXT,
        channel=Channel.WEB,
        emitter="web",
        occurred_at=T0,
        flush_mode=FlushMode.DEBOUNCED,
    )
    await stream.publish(told)
    await stream.publish(told, consumer="topics")
    for queue in Queue:
        (got,) = await receive(stream, queue=queue)
        assert (read_event(got.body), got.group) == (told, conversation_id)


async def test_f35_a_send_that_fails_leaves_order_and_event_to_the_second_one(
    service: FifoService, clock: ManualClock
) -> None:
    """The second turn goes out meanwhile; the first follows with its original id, whatever became of the send."""
    for moment in Moment:
        client = faulty(service, Faults.first(1, Fault(moment, unreachable), verb="send_message"))
        stream = fifo_stream(service, clock, client=client)
        with pytest.raises(StreamUnavailable, match="cannot be reached"):
            await publish(stream, "c1@1")
        await publish(stream, "c1@2")
        await publish(stream, "c1@1")
        got = names(await receive(stream))
        assert sorted(got) == ["c1@1", "c1@2"]
        service = FifoService(clock)


async def test_a_parked_event_is_never_taken_for_an_earlier_one(
    service: FifoService, clock: ManualClock, engine: Engine
) -> None:
    """Parked, handled, and parked again within five minutes: it is there again."""
    stream = fifo_stream(service, clock)
    bridge = bridge_of(stream, engine, "topics", "grade")
    for _ in range(3):
        engine.refusing = {"grade"}
        await stream.publish(event("c1", 1), emission=f"e{len(engine.taken)}")
        await bridge.pump(Queue.MAIN, limit=10)
        assert (await stream.depth()).retry == 1
        engine.refusing = set()
        await bridge.pump(Queue.RETRY, limit=10)
    assert len(engine.seen("grade")) == 3


async def test_one_sick_consumer_holds_up_no_other(service: FifoService, clock: ManualClock, engine: Engine) -> None:
    stream = fifo_stream(service, clock)
    bridge = bridge_of(stream, engine, "topics", "grade")
    engine.refusing = {"grade"}
    await publish(stream, "c1@1", "c2@1", "c1@2")
    await bridge.pump(Queue.MAIN, limit=10)
    assert engine.seen("topics") == ["c1@2", "c2@1"]
    depth = await stream.depth()
    assert (depth.main, depth.retry) == (0, 3)
    engine.refusing = set()
    clock.advance(LEASE)
    await bridge.pump(Queue.RETRY, limit=10)
    assert engine.seen("grade") == ["c1@2", "c2@1"]


async def test_an_outage_of_half_a_day_costs_nothing(service: FifoService, clock: ManualClock, engine: Engine) -> None:
    """Five receives with their back-off outlast it, though SQS lets nothing be invisible for more than twelve hours."""
    stream = fifo_stream(service, clock)
    bridge = bridge_of(stream, engine)
    await publish(stream, "c1@1", "c1@2")
    began = clock()
    engine.down = 4
    while engine.down:
        with suppress(EngineUnavailable):
            await bridge.pump(Queue.MAIN, limit=10)
        clock.advance(timedelta(seconds=5))
    clock.advance(timedelta(hours=12))
    assert clock() - began > timedelta(hours=13)
    await bridge.pump(Queue.MAIN, limit=10)
    assert engine.seen() == ["c1@2"]
    assert (await stream.depth()).dead_letters == 0


@pytest.mark.parametrize("seed", range(12))
async def test_seeded_faults_lose_nothing(clock: ManualClock, engine: Engine, seed: int) -> None:
    """Throttling, lost answers and half-done batches: in the end every conversation's newest event was signalled."""
    service = FifoService(clock, partial=partial_failures(seed, 0.2))
    client = faulty(service, Faults.seeded(seed, 0.25, throttled if seed % 2 else unreachable))
    queues = fifo_stream(service, clock)._queues
    stream = SqsStream(client, queues, clock)
    bridge = bridge_of(stream, engine)
    told = [(f"c{number % 4}", number) for number in range(24)]
    for conversation, second in told:
        for _ in range(20):
            with suppress(StreamUnavailable):
                await stream.publish(event(conversation, second))
                break
    for _ in range(400):
        with suppress(StreamUnavailable):
            await bridge.pump(Queue.MAIN, limit=10)
            letters = await stream.dead_letters(limit=100)
            await stream.redrive([letter.id for letter in letters])
            depth = await stream.depth()
            if not (depth.main or depth.dead_letters):
                break
        clock.advance(timedelta(seconds=40))
    for number in range(4):
        newest = max(second for conversation, second in told if conversation == f"c{number}")
        assert f"c{number}@{newest}" in engine.seen()
    healthy = await SqsStream(service, queues, clock).depth()
    assert (healthy.main, healthy.dead_letters) == (0, 0)
