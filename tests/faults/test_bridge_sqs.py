"""The bridge on the SQS stream: what FIFO queues do otherwise than the stream in SQLite (F5, F19)."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from tests.contract.samples import T0
from tests.contract.stream import event, publish, receive
from tests.faults.rig import LEASE, FlakyEngine
from tests.fifo import FifoService, fifo_stream, partial_failures, throttled, unreachable

from afterturn.bridge.bridge import Bridge
from afterturn.errors import EngineUnavailable, StreamUnavailable
from afterturn.event import make_event, read_event
from afterturn.model import Channel, FlushMode, Origin
from afterturn.stream.port import Queue
from afterturn.stream.sqs import SqsStream
from afterturn.testing import Fault, Faults, ManualClock, Moment, faulty


def bridge_of(stream: SqsStream, engine: FlakyEngine, *consumers: str) -> Bridge:
    return Bridge(stream, engine, consumers or ("topics",), visibility=LEASE)


async def send_raw(client: Any, stream: SqsStream, body: str) -> None:
    await client.send_message(
        QueueUrl=stream._queues.main, MessageBody=body, MessageGroupId="c1", MessageDeduplicationId="ev-1"
    )


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("error", [throttled, unreachable])
async def test_nothing_overtakes_an_invalid_record_that_cannot_be_dead_lettered(
    service: FifoService,
    stream: SqsStream,
    clock: ManualClock,
    engine: FlakyEngine,
    moment: Moment,
    error: type[Exception],
) -> None:
    """F5: it is received again with its group behind it; other groups continue."""
    await send_raw(service, stream, "5")
    await publish(stream, "c1@2", "c2@1")
    client = faulty(service, Faults.first(1, Fault(moment, error), verb="send_message"))
    bridge = bridge_of(SqsStream(client, stream._queues, clock), engine)
    await bridge.pump(Queue.MAIN, limit=10)
    assert engine.seen() == ["c2@1"]
    clock.advance(timedelta(minutes=5))
    await bridge.pump(Queue.MAIN, limit=10)
    assert engine.seen() == ["c2@1", "c1@2"]
    assert len(await stream.dead_letters(limit=10)) == 1


@pytest.mark.parametrize("conversation_id", ["Flat 4 🏠", "x" * 200, "a\ufffdb", "~", "+49 89 / 123", "\u2066id\u2069"])
async def test_an_event_of_any_legal_conversation_id_can_be_sent(stream: SqsStream, conversation_id: str) -> None:
    """F19: whatever SQS refuses in a group or deduplication id."""
    sent = make_event(
        conversation_id=conversation_id,
        property_id="Haus 5 – Hof",
        origin=Origin.TEXT,
        channel=Channel.WEB,
        emitter="web",
        occurred_at=T0,
        flush_mode=FlushMode.DEBOUNCED,
    )
    await stream.publish(sent)
    await stream.publish(sent, consumer="topics")
    for queue in Queue:
        (delivery,) = await receive(stream, queue=queue)
        assert (read_event(delivery.body), delivery.group) == (sent, conversation_id)


async def test_a_deferred_event_is_never_deduplicated_against_an_earlier_one(
    stream: SqsStream, engine: FlakyEngine
) -> None:
    """Deferred, handled, and deferred again within five minutes: it is in the retry queue again."""
    bridge = bridge_of(stream, engine, "topics", "grade")
    for number in range(3):
        engine.refusing["grade"] = 1
        await stream.publish(event("c1", 1), emission=f"e{number}")
        await bridge.pump(Queue.MAIN, limit=10)
        assert (await stream.depth()).retry == 1
        await bridge.pump(Queue.RETRY, limit=10)
    assert len(engine.seen("grade")) == 3


async def test_an_outage_of_half_a_day_loses_no_event(
    stream: SqsStream, clock: ManualClock, engine: FlakyEngine
) -> None:
    """Five receives with their backoff outlast it, though SQS hides no message for more than twelve hours."""
    bridge = bridge_of(stream, engine)
    await publish(stream, "c1@1", "c1@2")
    engine.down = 4
    while engine.down:
        with suppress(EngineUnavailable):
            await bridge.pump(Queue.MAIN, limit=10)
        clock.advance(timedelta(seconds=5))
    clock.advance(timedelta(hours=12))
    assert clock() - T0 > timedelta(hours=13)
    await bridge.pump(Queue.MAIN, limit=10)
    assert engine.seen() == ["c1@2"]
    assert (await stream.depth()).dead_letters == 0


@pytest.mark.parametrize("seed", range(12))
async def test_seeded_faults_lose_nothing(clock: ManualClock, engine: FlakyEngine, seed: int) -> None:
    """Throttling, lost answers and partial batches: in the end each conversation's newest event was signalled."""
    service = FifoService(clock, partial=partial_failures(seed, 0.2))
    client = faulty(service, Faults.seeded(seed, 0.25, throttled if seed % 2 else unreachable))
    queues = fifo_stream(service, clock)._queues
    stream = SqsStream(client, queues, clock)
    bridge = bridge_of(stream, engine)
    for number in range(24):
        for _ in range(20):
            with suppress(StreamUnavailable):
                await stream.publish(event(f"c{number % 4}", number))
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
    assert {"c0@20", "c1@21", "c2@22", "c3@23"} <= set(engine.seen())
    depth = await SqsStream(service, queues, clock).depth()
    assert (depth.main, depth.dead_letters) == (0, 0)
