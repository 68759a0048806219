"""The stream over SQS where the service fails, or has limits of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.contract.samples import T0, at
from tests.contract.stream import VISIBLE, event, names, publish, receive, wear_out
from tests.fifo import FifoError, FifoService, Limits, fifo_stream, throttled, unreachable

from afterturn.errors import StreamUnavailable
from afterturn.event import read_event
from afterturn.stream.port import MAX_RECEIVES
from afterturn.stream.sqs import QueueUrls, SqsPublisher, SqsStream
from afterturn.testing import Fault, Faults, ManualClock, Moment, faulty


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(T0)


@pytest.fixture
def service(clock: ManualClock) -> FifoService:
    return FifoService(clock)


def failing(
    service: FifoService,
    clock: ManualClock,
    verb: str,
    moment: Moment,
    error: Callable[[], BaseException],
    times: int = 1,
) -> SqsStream:
    """A stream whose first calls of a verb fail."""
    return fifo_stream(service, clock, client=faulty(service, Faults.first(times, Fault(moment, error), verb=verb)))


@pytest.mark.parametrize("error", [throttled, unreachable, TimeoutError, lambda: FifoError("AccessDenied", "secret")])
@pytest.mark.parametrize("moment", list(Moment))
async def test_a_publish_that_fails_says_so_and_may_be_repeated(
    service: FifoService, clock: ManualClock, moment: Moment, error: Callable[[], BaseException]
) -> None:
    """F35: also where the send was done and its answer lost; then the second one is taken for the first."""
    stream = failing(service, clock, "send_message", moment, error)
    with pytest.raises(StreamUnavailable, match=r"^queue events.fifo") as raised:
        await publish(stream, "a@1")
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is not None
    await publish(stream, "a@1")
    assert names(await receive(stream)) == ["a@1"]


async def test_a_publish_waits_for_a_few_seconds_and_no_longer(service: FifoService, clock: ManualClock) -> None:
    class Stuck:
        async def send_message(self, **_: Any) -> None:
            await asyncio.sleep(60)

    publisher = SqsPublisher(Stuck(), QueueUrls("q/a", "q/b", "q/c", "q/d"), clock, timeout=0.02)  # type: ignore[arg-type]
    with pytest.raises(StreamUnavailable, match="no answer in time"):
        await publisher.publish(event("a", 1))


async def test_a_mistake_of_ours_is_not_taken_for_an_outage(clock: ManualClock) -> None:
    class Broken:
        async def send_message(self, **_: Any) -> None:
            raise TypeError("unexpected keyword")

    publisher = SqsPublisher(Broken(), QueueUrls("q/a", "q/b", "q/c", "q/d"), clock)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        await publisher.publish(event("a", 1))


async def test_a_message_holds_the_event_and_nothing_else(service: FifoService, clock: ManualClock) -> None:
    """Promise 7: ids, enums and times only, in the attributes too; the group keeps any conversation id apart."""
    stream = fifo_stream(service, clock)
    await stream.publish(event("Flat 4, München", 1), consumer="topics")
    answer = await service.receive_message(
        QueueUrl=stream._queues.retry, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
    )
    (message,) = answer["Messages"]
    assert read_event(message["Body"]).conversation_id == "Flat 4, München"
    assert set(message["MessageAttributes"]) == {"publishedAt", "conversation", "consumer"}
    assert message["Attributes"]["MessageGroupId"].startswith("~")
    assert message["Attributes"]["MessageDeduplicationId"].startswith("~")


async def test_records_that_arrived_are_not_lost_when_the_next_receive_fails(
    service: FifoService, clock: ManualClock
) -> None:
    fault = Fault(Moment.BEFORE, unreachable)
    receives = iter([None, fault])
    client = faulty(service, Faults(lambda _, verb: next(receives, None) if verb == "receive_message" else None))
    stream = fifo_stream(service, clock, client=client)
    await publish(stream, *(f"c{number}@1" for number in range(15)))
    assert len(await receive(stream, 200)) == 10
    assert len(await receive(stream, 200)) == 5


async def test_one_receive_fills_a_large_batch_from_many_groups(service: FifoService, clock: ManualClock) -> None:
    stream = fifo_stream(service, clock)
    await publish(stream, *(f"c{number}@1" for number in range(35)))
    assert len(await receive(stream, 200)) == 35


async def test_a_receive_whose_answer_is_lost_burns_one_receive_and_no_record(
    service: FifoService, clock: ManualClock
) -> None:
    stream = failing(service, clock, "receive_message", Moment.AFTER, unreachable)
    await publish(stream, "a@1")
    with pytest.raises(StreamUnavailable):
        await receive(stream)
    assert not await receive(stream)
    clock.advance(VISIBLE)
    (got,) = await receive(stream)
    assert got.receives == 2


async def test_a_partial_answer_is_read_entry_by_entry(clock: ManualClock) -> None:
    """What failed is tried again; what cannot be acknowledged comes again; what was is gone."""
    calls = iter([{"0", "2"}, {"1"}])
    failing: set[str] = set()

    def partial(operation: str, entry: str) -> bool:
        nonlocal failing
        if operation == "DeleteMessageBatch" and entry == "0":
            failing = next(calls, set())
        return operation == "DeleteMessageBatch" and entry in failing

    service = FifoService(clock, partial=partial)
    stream = fifo_stream(service, clock)
    await publish(stream, "a@1", "b@1", "c@1")
    batch = await receive(stream)
    with pytest.raises(StreamUnavailable, match="1 of 3"):
        await stream.ack([one.receipt for one in batch])
    clock.advance(VISIBLE)
    assert names(await receive(stream)) == ["c@1"]


async def test_a_record_stays_invisible_for_twelve_hours_in_all_and_no_longer(
    service: FifoService, clock: ManualClock
) -> None:
    """SQS refuses what goes beyond, and would leave the record as it was; so we ask for what is left."""
    stream = fifo_stream(service, clock)
    await publish(stream, "a@1")
    (one,) = await receive(stream, visibility=timedelta(hours=1))
    clock.advance(timedelta(minutes=30))
    await stream.release([one.receipt], after=timedelta(hours=12))
    clock.advance(timedelta(hours=11))
    assert not await receive(stream)
    clock.advance(timedelta(minutes=31))
    assert names(await receive(stream)) == ["a@1"]


async def test_a_fraction_of_a_second_is_not_rounded_to_nothing(service: FifoService, clock: ManualClock) -> None:
    stream = fifo_stream(service, clock)
    await publish(stream, "a@1")
    assert await receive(stream, visibility=timedelta(milliseconds=1))
    assert not await receive(stream)


@pytest.mark.parametrize("verb", ["send_message", "delete_message_batch", "change_message_visibility_batch"])
@pytest.mark.parametrize("moment", list(Moment))
async def test_a_burial_that_fails_half_way_loses_nothing_and_shows_one_letter(
    service: FifoService, clock: ManualClock, verb: str, moment: Moment
) -> None:
    """Never deleted before the dead letter is accepted; sent twice, it is listed and redriven once."""
    healthy = fifo_stream(service, clock)
    client = faulty(service, Faults.first(1, Fault(moment, unreachable), verb=verb))
    stream = SqsStream(client, healthy._queues, clock)
    await publish(healthy, "a@1")
    (one,) = await receive(stream)
    with pytest.raises(StreamUnavailable):
        await stream.dead_letter(one, reason="the record is not JSON")
    clock.advance(timedelta(minutes=10))
    for again in await receive(stream):
        await stream.dead_letter(again, reason="the record is not JSON")
    (letter,) = await stream.dead_letters(limit=10)
    assert await stream.redrive([letter.id]) == 1
    assert (await stream.depth()).dead_letters == 0
    assert names(await receive(stream)) == ["a@1"]


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("verb", ["send_message_batch", "delete_message_batch", "receive_message"])
async def test_a_redrive_that_fails_half_way_keeps_every_letter(
    service: FifoService, clock: ManualClock, verb: str, moment: Moment
) -> None:
    healthy = fifo_stream(service, clock)
    client = faulty(service, Faults.first(1, Fault(moment, unreachable), verb=verb))
    stream = SqsStream(client, healthy._queues, clock)
    await publish(healthy, "a@1", "b@1")
    for one in await receive(healthy):
        await healthy.dead_letter(one, reason="x")
    ids = [letter.id for letter in await healthy.dead_letters(limit=10)]
    with pytest.raises(StreamUnavailable):
        await stream.redrive(ids)
    clock.advance(timedelta(minutes=2))
    await stream.redrive(ids)
    assert (await stream.depth()).dead_letters == 0
    assert set(names(await receive(stream))) == {"a@1", "b@1"}


async def test_a_letter_whose_send_failed_in_the_batch_is_kept(clock: ManualClock) -> None:
    refused = {"0"}
    service = FifoService(clock, partial=lambda operation, entry: operation == "SendMessageBatch" and entry in refused)
    stream = fifo_stream(service, clock)
    await publish(stream, "a@1", "b@1", "c@1")
    for one in await receive(stream):
        await stream.dead_letter(one, reason="x")
    ids = [letter.id for letter in await stream.dead_letters(limit=10)]
    assert await stream.redrive(ids) == 2
    assert names(await stream.dead_letters(limit=10)) == ["a@1"]
    refused.clear()
    assert await stream.redrive(ids) == 1


async def test_letters_that_sqs_moved_do_not_hide_each_other(service: FifoService, clock: ManualClock) -> None:
    """SQS hands out no more of a group while some of it is in flight, so a plain listing would stop at ten."""
    stream = fifo_stream(service, clock)
    told = [f"a@{second}" for second in range(25)]
    await publish(stream, *told)
    for _ in range(3):
        await wear_out(stream, clock, limit=10)
    assert not await receive(stream, 10)
    assert (await stream.depth()).dead_letters == 25
    for _ in range(2):
        letters = await stream.dead_letters(limit=100)
        assert names(letters) == told
        assert {letter.receives for letter in letters} == {MAX_RECEIVES}
        assert len({letter.id for letter in letters}) == 25
    assert (await stream.depth()).dead_letters == 25
    assert await stream.redrive([letter.id for letter in letters]) == 25
    assert names(await receive(stream, 10)) == told[:10]


async def test_a_listing_leaves_every_letter_in_place(service: FifoService, clock: ManualClock) -> None:
    stream = fifo_stream(service, clock)
    await publish(stream, *(f"c{number}@1" for number in range(23)))
    for one in await receive(stream, 30):
        await stream.dead_letter(one, reason="x")
    for _ in range(7):
        assert len(await stream.dead_letters(limit=5)) == 5
        assert len(await stream.dead_letters(limit=100)) == 23
    clock.advance(timedelta(minutes=2))
    assert (await stream.depth()).dead_letters == 23


async def test_a_record_beyond_its_receives_is_buried_where_no_policy_moves_it(
    service: FifoService, clock: ManualClock
) -> None:
    stream = fifo_stream(service, clock, max_receives=1000)
    await publish(stream, "a@1", "a@2")
    await wear_out(stream, clock)
    assert names(await receive(stream)) == ["a@2"]
    assert names(await stream.dead_letters(limit=10)) == ["a@1"]


async def test_a_large_poison_record_is_redriven_beside_others(service: FifoService, clock: ManualClock) -> None:
    """Ten records of a call share 1 MiB."""
    stream = fifo_stream(service, clock)
    for number in range(4):
        await service.send_message(
            QueueUrl=stream._queues.main,
            MessageBody="x" * 600_000,
            MessageGroupId="big",
            MessageDeduplicationId=f"big-{number}",
        )
    for one in await receive(stream):
        await stream.dead_letter(one, reason="the record is not JSON")
    letters = await stream.dead_letters(limit=10)
    assert await stream.redrive([letter.id for letter in letters]) == 4
    assert len(await receive(stream)) == 4


async def test_a_record_of_a_foreign_emitter_is_read(service: FifoService, clock: ManualClock) -> None:
    """Emitters in other languages need know the event and the group only."""
    stream = fifo_stream(service, clock)
    told = event("c1", 1)
    await service.send_message(
        QueueUrl=stream._queues.main,
        MessageBody=json.dumps(json.loads(told.to_json())),
        MessageGroupId=told.conversation_id,
        MessageDeduplicationId=told.event_id,
    )
    (got,) = await receive(stream)
    assert (got.group, got.consumer, read_event(got.body)) == ("c1", None, told)
    await stream.dead_letter(got, reason="x")
    (letter,) = await stream.dead_letters(limit=1)
    assert letter.published_at == at(0)


async def test_a_receipt_that_expired_is_refused_by_sqs_and_ignored_by_us(
    service: FifoService, clock: ManualClock
) -> None:
    """Too late is too late, also where nobody else has the record yet: it comes again, and stamps see it twice."""
    stream = fifo_stream(service, clock)
    await publish(stream, "a@1")
    (one,) = await receive(stream)
    clock.advance(VISIBLE)
    await stream.ack([one.receipt])
    await stream.release([one.receipt], after=timedelta(hours=1))
    await stream.dead_letter(one, reason="late")
    assert (await stream.depth()).dead_letters == 0
    assert len(await receive(stream)) == 1


async def test_a_burial_that_sqs_throttles_is_not_taken_for_done(clock: ManualClock) -> None:
    service = FifoService(clock, partial=lambda operation, entry: operation == "ChangeMessageVisibilityBatch")
    stream = fifo_stream(service, clock)
    await publish(stream, "a@1")
    (one,) = await receive(stream)
    with pytest.raises(StreamUnavailable):
        await stream.dead_letter(one, reason="x")


async def test_small_queues_say_what_is_too_large(service: FifoService, clock: ManualClock) -> None:
    stream = fifo_stream(service, clock, limits=Limits(message_bytes=100))
    with pytest.raises(StreamUnavailable, match="InvalidParameterValue"):
        await publish(stream, "a@1")
