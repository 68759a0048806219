"""The contract of a stream. An adapter supplies the fixtures ``stream`` and ``clock``; the clock is set by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from tests.contract.samples import T0, at

from afterturn.event import TurnSettled, make_event, read_event
from afterturn.model import Channel, FlushMode, Origin
from afterturn.stream.port import MAX_RECEIVES, DeadLetter, DeadLetterKey, Delivery, Depth, Queue, Stream
from afterturn.testing import ManualClock

VISIBLE = timedelta(seconds=30)


def event(conversation_id: str, second: float, flush_mode: FlushMode = FlushMode.DEBOUNCED) -> TurnSettled:
    return make_event(
        conversation_id=conversation_id,
        property_id=None,
        origin=Origin.TEXT,
        channel=Channel.SMS,
        emitter="worker",
        occurred_at=at(second),
        flush_mode=flush_mode,
    )


def name_of(record: Delivery | DeadLetter) -> str:
    """``c1@3``: the conversation and the second of a record's event."""
    told = read_event(record.body)
    return f"{told.conversation_id}@{(told.occurred_at - T0).seconds}"


def names(records: Sequence[Delivery | DeadLetter]) -> list[str]:
    return [name_of(record) for record in records]


def _key(letter: DeadLetter) -> DeadLetterKey:
    return DeadLetterKey(letter.died_at, letter.id)


async def publish(stream: Stream, *told: str, consumer: str | None = None, emission: str | None = None) -> None:
    """Publish events by their names."""
    for name in told:
        conversation_id, _, second = name.partition("@")
        await stream.publish(event(conversation_id, float(second)), consumer=consumer, emission=emission)


async def receive(
    stream: Stream, limit: int = 10, *, queue: Queue = Queue.MAIN, visibility: timedelta = VISIBLE
) -> Sequence[Delivery]:
    return await stream.receive(queue, limit=limit, visibility=visibility)


async def wear_out(stream: Stream, clock: ManualClock, times: int = MAX_RECEIVES, *, limit: int = 1) -> None:
    """Receive and do nothing, as a bridge does that dies each time."""
    for _ in range(times):
        assert await receive(stream, limit)
        clock.advance(VISIBLE)


class StreamContract:
    """FIFO by group, invisible while in flight, never lost."""

    async def test_a_record_arrives_as_it_was_published(self, stream: Stream) -> None:
        sent = event("c#1: 🏠", 1, FlushMode.IMMEDIATE)
        await stream.publish(sent)
        (got,) = await receive(stream)
        assert read_event(got.body) == sent
        assert (got.receives, got.consumer, got.receipt.queue) == (1, None, Queue.MAIN)

    async def test_a_group_is_first_in_first_out(self, stream: Stream) -> None:
        """By the order of publishing, whatever times the events tell."""
        await publish(stream, "a@3", "b@1", "a@1", "a@2", "b@9")
        batch = await receive(stream)
        assert [name for name in names(batch) if name[0] == "a"] == ["a@3", "a@1", "a@2"]
        assert [name for name in names(batch) if name[0] == "b"] == ["b@1", "b@9"]

    async def test_what_is_in_flight_blocks_its_group_and_no_other(self, stream: Stream) -> None:
        await publish(stream, "a@1", "a@2", "b@1")
        (head,) = await receive(stream, 1)
        assert name_of(head) == "a@1"
        assert names(await receive(stream)) == ["b@1"]
        assert not await receive(stream)
        await stream.ack([head.receipt])
        assert names(await receive(stream)) == ["a@2"]

    async def test_a_record_comes_back_when_its_visibility_ends(self, stream: Stream, clock: ManualClock) -> None:
        """In order, before what stands behind it; and it counts its receives."""
        await publish(stream, "a@1", "a@2")
        await receive(stream, 1)
        clock.advance(VISIBLE - timedelta(milliseconds=1))
        assert not await receive(stream)
        clock.advance(timedelta(milliseconds=1))
        batch = await receive(stream)
        assert names(batch) == ["a@1", "a@2"]
        assert [one.receives for one in batch] == [2, 1]

    async def test_an_acknowledged_record_never_comes_back(self, stream: Stream, clock: ManualClock) -> None:
        await publish(stream, "a@1", "b@1")
        batch = await receive(stream)
        await stream.ack([one.receipt for one in batch])
        await stream.ack([one.receipt for one in batch])
        clock.advance(timedelta(days=1))
        assert not await receive(stream)
        assert await stream.depth() == Depth(main=0, retry=0, dead_letters=0, oldest=None)

    async def test_a_stale_receipt_is_ignored(self, stream: Stream, clock: ManualClock) -> None:
        """A bridge that was too slow can neither acknowledge, release nor dead-letter what another one holds."""
        await publish(stream, "a@1")
        (stale,) = await receive(stream)
        clock.advance(VISIBLE)
        (current,) = await receive(stream)
        await stream.ack([stale.receipt])
        await stream.release([stale.receipt], after=timedelta(0))
        await stream.dead_letter(stale, reason="stale")
        assert not await receive(stream)
        assert await stream.depth() == Depth(main=1, retry=0, dead_letters=0, oldest=T0)
        clock.advance(VISIBLE)
        (again,) = await receive(stream)
        assert again.receives == current.receives + 1

    async def test_released_records_come_back_after_their_time(self, stream: Stream, clock: ManualClock) -> None:
        """And their group waits for them, whatever else of it is visible."""
        await publish(stream, "a@1", "a@2", "b@1")
        first, second, other = await receive(stream)
        await stream.release([second.receipt, other.receipt], after=timedelta(0))
        await stream.release([first.receipt], after=timedelta(minutes=5))
        assert names(await receive(stream)) == ["b@1"]
        clock.advance(timedelta(minutes=5))
        assert names(await receive(stream)) == ["a@1", "a@2", "b@1"]

    async def test_a_record_that_is_received_too_often_dies(self, stream: Stream, clock: ManualClock) -> None:
        """With its reason, and what stands behind it goes on."""
        await publish(stream, "a@1", "a@2")
        clock.advance(timedelta(seconds=1))
        await wear_out(stream, clock)
        assert names(await receive(stream)) == ["a@2"]
        (letter,) = await stream.dead_letters(limit=10)
        assert name_of(letter) == "a@1"
        assert (letter.receives, letter.queue, letter.group) == (MAX_RECEIVES, Queue.MAIN, "a")
        assert (letter.published_at, letter.died_at) == (T0, clock())
        assert "5 times" in letter.reason

    async def test_a_poison_record_is_buried_without_its_neighbours(self, stream: Stream) -> None:
        """F5: at once, and it burns no receives but its own."""
        await publish(stream, "a@1", "a@2", "a@3")
        poison, *good = await receive(stream)
        await stream.dead_letter(poison, reason="the record is not JSON")
        await stream.release([one.receipt for one in good], after=timedelta(0))
        again = await receive(stream)
        assert names(again) == ["a@2", "a@3"]
        assert [one.receives for one in again] == [2, 2]
        (letter,) = await stream.dead_letters(limit=10)
        assert (name_of(letter), letter.reason, letter.receives) == ("a@1", "the record is not JSON", 1)

    async def test_an_event_that_waits_is_not_doubled(self, stream: Stream) -> None:
        """The emitter tries again while its first try waits or is in flight: it is the same record."""
        await publish(stream, "a@1", "a@1")
        (one,) = await receive(stream)
        await publish(stream, "a@1")
        assert (await stream.depth()).main == 1
        await stream.ack([one.receipt])
        assert not await receive(stream)

    async def test_a_new_emission_of_a_handled_event_arrives(self, stream: Stream) -> None:
        """What sweeps and replays put into the stream is never taken for a repeated try."""
        await publish(stream, "a@1")
        for number in range(3):
            (one,) = await receive(stream)
            await stream.ack([one.receipt])
            await publish(stream, "a@1", emission=f"sweep-{number}")
        assert names(await receive(stream)) == ["a@1"]

    async def test_the_direct_queue_is_ordered_by_consumer_and_conversation(self, stream: Stream) -> None:
        """A consumer that is put off holds up neither another one nor another conversation."""
        for consumer in ("topics", "grade"):
            await publish(stream, "a@1", "a@2", "b@1", consumer=consumer)
        assert not await receive(stream)
        (head,) = await receive(stream, 1, queue=Queue.RETRY)
        assert (head.consumer, name_of(head)) == ("topics", "a@1")
        rest = await receive(stream, queue=Queue.RETRY)
        assert [(one.consumer, name_of(one)) for one in rest] == [
            ("topics", "b@1"),
            ("grade", "a@1"),
            ("grade", "a@2"),
            ("grade", "b@1"),
        ]

    async def test_the_two_queues_do_not_block_each_other(self, stream: Stream) -> None:
        await publish(stream, "a@1", consumer="topics")
        assert await receive(stream, queue=Queue.RETRY)
        await publish(stream, "a@1", "a@2")
        assert names(await receive(stream)) == ["a@1", "a@2"]
        await publish(stream, "a@2", consumer="topics")
        assert not await receive(stream, queue=Queue.RETRY)

    async def test_depth_counts_what_waits_and_what_is_in_flight(self, stream: Stream, clock: ManualClock) -> None:
        await publish(stream, "a@1", "b@1")
        clock.advance(timedelta(seconds=5))
        await publish(stream, "a@1", consumer="topics")
        assert await stream.depth() == Depth(main=2, retry=1, dead_letters=0, oldest=T0)
        for one in await receive(stream):
            await stream.dead_letter(one, reason="x")
        assert await stream.depth() == Depth(main=0, retry=1, dead_letters=2, oldest=at(5))


class RedriveContract:
    """The way back from the dead letters."""

    async def test_a_redriven_record_is_delivered_again(self, stream: Stream, clock: ManualClock) -> None:
        """F4: also within minutes of its death; group, body and fresh receives; forgotten only then."""
        await publish(stream, "a@1")
        await wear_out(stream, clock)
        assert not await receive(stream)
        (letter,) = await stream.dead_letters(limit=10)
        assert await stream.redrive([letter.id]) == 1
        assert not await stream.dead_letters(limit=10)
        (got,) = await receive(stream)
        assert (got.body, got.group, got.receives) == (letter.body, letter.group, 1)

    async def test_a_redriven_record_dies_again_and_can_be_redriven_again(
        self, stream: Stream, clock: ManualClock
    ) -> None:
        await publish(stream, "a@1")
        for _ in range(3):
            await wear_out(stream, clock)
            assert not await receive(stream)
            (letter,) = await stream.dead_letters(limit=10)
            assert await stream.redrive([letter.id]) == 1

    async def test_redriven_records_stand_behind_what_came_since(self, stream: Stream) -> None:
        """Their own order is kept. Stamps only move forward, so an older event behind a newer one is harmless."""
        await publish(stream, "a@1", "a@2")
        for one in await receive(stream):
            await stream.dead_letter(one, reason="x")
        await publish(stream, "a@3")
        letters = await stream.dead_letters(limit=10)
        assert names(letters) == ["a@1", "a@2"]
        assert await stream.redrive([letter.id for letter in letters]) == 2
        assert names(await receive(stream)) == ["a@3", "a@1", "a@2"]

    async def test_a_redrive_of_an_event_that_waits_again_is_harmless(self, stream: Stream) -> None:
        await publish(stream, "a@1")
        for one in await receive(stream):
            await stream.dead_letter(one, reason="x")
        await publish(stream, "a@1", emission="sweep-1")
        (letter,) = await stream.dead_letters(limit=10)
        assert await stream.redrive([letter.id]) == 1
        assert set(names(await receive(stream))) == {"a@1"}
        assert (await stream.depth()).dead_letters == 0

    async def test_a_direct_record_goes_back_to_its_consumer(self, stream: Stream) -> None:
        await publish(stream, "a@1", consumer="topics")
        for one in await receive(stream, queue=Queue.RETRY):
            await stream.dead_letter(one, reason="x")
        (letter,) = await stream.dead_letters(limit=10)
        assert (letter.queue, letter.consumer) == (Queue.RETRY, "topics")
        await stream.redrive([letter.id])
        (got,) = await receive(stream, queue=Queue.RETRY)
        assert got.consumer == "topics"
        assert not await receive(stream)

    @pytest.mark.parametrize("unknown", ["0", "999", "", "x", "1.5", "-1", "\N{FULLWIDTH DIGIT ONE}"])
    async def test_an_unknown_dead_letter_is_none(self, stream: Stream, unknown: str) -> None:
        await publish(stream, "a@1")
        for one in await receive(stream):
            await stream.dead_letter(one, reason="x")
        assert await stream.redrive([unknown]) == 0
        assert (await stream.depth()).dead_letters == 1

    async def test_dead_letters_are_listed_oldest_first_up_to_a_limit(self, stream: Stream) -> None:
        await publish(stream, "a@1", "b@1", "c@1")
        for one in await receive(stream):
            await stream.dead_letter(one, reason=f"reason {name_of(one)}")
        assert names(await stream.dead_letters(limit=2)) == ["a@1", "b@1"]
        assert [one.reason for one in await stream.dead_letters(limit=9)][2] == "reason c@1"

    async def test_dead_letters_are_met_once_each_from_place_to_place(self, stream: Stream) -> None:
        """Also beyond one that is redriven meanwhile."""
        await publish(stream, *(f"{name}@1" for name in "abcde"))
        for one in await receive(stream):
            await stream.dead_letter(one, reason="x")
        whole = await stream.dead_letters(limit=9)
        for limit in (1, 2, 5):
            met: list[DeadLetter] = []
            while page := await stream.dead_letters(after=_key(met[-1]) if met else None, limit=limit):
                met += page
            assert names(met) == names(whole) == [f"{name}@1" for name in "abcde"]
        await stream.redrive([whole[1].id])
        rest = names(await stream.dead_letters(after=_key(whole[1]), limit=9))
        assert rest[-3:] == names(whole)[2:]
        assert await stream.dead_letters(after=_key(whole[4]), limit=9) in ([], ())
