"""A turn is saved, and its event cannot be published (F35): in SQLite, and on DynamoDB with the strict FIFO model."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from tests.contract.samples import T0, at, message, turn
from tests.contract.stream import receive
from tests.faults.rig import GRACE, LEASE, Rig, open_rig, registry_of
from tests.fifo import FifoService, unreachable

from afterturn.errors import InvalidRecord, NotFound, StoreBusy, StreamUnavailable
from afterturn.event import read_event
from afterturn.ledger.ledger import Ledger
from afterturn.model import FlushMode, Turn
from afterturn.settle import Settler
from afterturn.store.port import ConsumerState, Registration, Store
from afterturn.stream.port import Queue
from afterturn.stream.sqs import SqsStream
from afterturn.testing import Crash, Fault, Faults, ManualClock, Moment, faulty


def down(times: int, moment: Moment = Moment.BEFORE) -> Faults:
    return Faults.first(times, Fault(moment, StreamUnavailable), verb="publish")


async def event_ids(rig: Rig, queue: Queue = Queue.MAIN) -> list[str]:
    return [event.event_id for event in await rig.waiting_events(queue)]


async def test_a_stream_that_answers_the_second_time_gets_the_event(path: Path) -> None:
    with open_rig(path, registry_of("topics"), one_file=False, stream_faults=down(1)) as rig:
        receipt = await rig.settle("c1", "m1")
        assert receipt.new
        assert await event_ids(rig) == [receipt.event.event_id]


async def test_a_lost_answer_of_the_stream_makes_no_second_event(path: Path) -> None:
    with open_rig(path, registry_of("topics"), one_file=False, stream_faults=down(1, Moment.AFTER)) as rig:
        receipt = await rig.settle("c1", "m1")
        assert await event_ids(rig) == [receipt.event.event_id]


async def test_a_stream_that_is_down_costs_the_caller_nothing(path: Path) -> None:
    """Settle returns: one message, one turn; the sweep emits one event, with the original id, in grace time."""
    with open_rig(path, registry_of("topics"), one_file=False, stream_faults=down(2)) as rig:
        await rig.register()
        receipt = await rig.settle("c1", "m1")
        assert receipt.new
        assert await event_ids(rig) == []
        assert await rig.ledger.sweep() == ()
        rig.clock.advance(GRACE)
        assert len(await rig.ledger.sweep()) == 1
        assert await rig.ledger.sweep() == ()
        assert await event_ids(rig, Queue.RETRY) == [receipt.event.event_id]
        await rig.work()
        assert await rig.seen("topics", "c1") == ["m1"]
        assert len(await rig.store.messages("c1")) == 1
        assert (await rig.ledger.audit(grace=timedelta(0))).clean


async def test_a_caller_that_repeats_the_call_publishes_what_was_saved(path: Path) -> None:
    """One message, one turn, one event with the original id."""
    with open_rig(path, registry_of("topics"), one_file=False, stream_faults=down(2)) as rig:
        first = await rig.settle("c1", "m1")
        rig.clock.advance(timedelta(seconds=3))
        again = await rig.settler.settle(turn("c1", message("m1", 0)))
        assert (first.new, again.new) == (True, False)
        assert again.event == first.event
        assert await event_ids(rig) == [first.event.event_id]
        assert len(await rig.store.messages("c1")) == 1


async def test_a_second_turn_meanwhile_carries_the_first(path: Path) -> None:
    """Order is kept: the window of the second reaches back to what nobody has seen."""
    with open_rig(path, registry_of("topics"), one_file=False, stream_faults=down(2)) as rig:
        await rig.register()
        await rig.settle("c1", "m1")
        rig.clock.advance(timedelta(seconds=1))
        await rig.settle("c1", "m2")
        await rig.work()
        assert await rig.seen("topics", "c1") == ["m1", "m2"]
        assert (await rig.ledger.audit(grace=timedelta(0))).clean


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_death_between_commit_and_publish_is_swept(path: Path, moment: Moment) -> None:
    faults = Faults.first(1, Fault(moment, Crash), verb="publish")
    with open_rig(path, registry_of("topics"), one_file=False, stream_faults=faults) as rig:
        await rig.register()
        with suppress(Crash):
            await rig.settle("c1", "m1")
    with open_rig(path, registry_of("topics"), rig.clock, one_file=False) as after:
        after.clock.advance(GRACE)
        await after.ledger.sweep()
        await after.work()
        assert await after.seen("topics", "c1") == ["m1"]
        assert len(await after.store.turns("c1", limit=9)) == 1


async def test_in_one_file_there_is_nothing_between_commit_and_publish(path: Path) -> None:
    """The event is in the transaction of its turn, and the settler does not publish it again."""
    faults = down(99)
    with open_rig(path, registry_of("topics"), stream_faults=faults) as rig:
        receipt = await rig.settle("c1", "m1")
        assert await event_ids(rig) == [receipt.event.event_id]
        assert faults.calls == []


@pytest.mark.parametrize("one_file", [True, False])
async def test_a_turn_that_was_not_saved_is_not_published(path: Path, one_file: bool) -> None:
    faults = Faults.first(1, Fault(Moment.BEFORE, StoreBusy), verb="write")
    with open_rig(path, registry_of("topics"), one_file=one_file, faults=faults) as rig:
        with pytest.raises(StoreBusy):
            await rig.settle("c1", "m1")
        assert await event_ids(rig) == []
        assert await rig.store.conversation("c1") is None


@pytest.mark.parametrize("one_file", [True, False])
async def test_a_commit_whose_answer_was_lost_may_be_repeated(path: Path, one_file: bool) -> None:
    """The caller got an error for a write that worked."""
    faults = Faults.first(1, Fault(Moment.AFTER, StoreBusy), verb="write")
    with open_rig(path, registry_of("topics"), one_file=one_file, faults=faults) as rig:
        with pytest.raises(StoreBusy):
            await rig.settle("c1", "m1")
        again = await rig.settle("c1", "m1")
        assert not again.new
        assert await event_ids(rig) == [again.event.event_id]
        assert len(await rig.store.turns("c1", limit=9)) == 1


@pytest.mark.parametrize(
    "given",
    [
        turn("c1", message("m1"), at=at(90_000)),
        turn("c1", message("m0"), message("m1", 90_000)),
        turn("c1", message("m1", 60 * 60 * 24 * 365 * 1000)),
        turn("c1", created_at=at(90_000)),
    ],
)
async def test_what_claims_to_come_from_the_future_is_refused_whole(path: Path, given: Turn) -> None:
    """Milliseconds taken for seconds: nothing is written, nothing is published."""
    with open_rig(path, registry_of("topics")) as rig:
        with pytest.raises(InvalidRecord, match="future"):
            await rig.settler.settle(given)
        assert await rig.store.conversation("c1") is None
        assert await event_ids(rig) == []


async def test_no_conversation_begins_in_the_future(path: Path) -> None:
    """F20: without a message it sorts by its beginning, so it would stay on top of the inbox for years."""
    given = turn("c1", created_at=at(90_000)).conversation
    with open_rig(path, registry_of("topics")) as rig:
        for refused in (rig.settler.save_conversation(given), rig.settler.save_messages(given, [message("m1")])):
            with pytest.raises(InvalidRecord, match=r"conversation\.createdAt: .*future"):
                await refused
        assert await rig.store.conversation("c1") is None


async def test_the_end_of_a_call_is_published_as_it_was_saved(path: Path) -> None:
    """`on_conversation_turn_complete` settles what was saved by utterance."""
    with open_rig(path, registry_of("topics"), one_file=False) as rig:
        with pytest.raises(NotFound):
            await rig.settler.on_conversation_turn_complete("v1")
        call = turn("v1", channel="voice", property_id="p1").conversation
        await rig.settler.save_messages(call, [message("u1"), message("u2", 1)])
        assert await event_ids(rig) == []
        for _ in range(2):
            receipt = await rig.settler.on_conversation_turn_complete("v1", flush_mode=FlushMode.IMMEDIATE, key="call")
        (event,) = await rig.waiting_events()
        assert event == receipt.event
        assert (event.immediate, event.origin, event.property_id, event.occurred_at) == (True, "voice", "p1", T0)


@pytest.mark.parametrize("moment", list(Moment))
async def test_an_unreachable_queue_costs_neither_the_turn_nor_its_order(
    dynamodb: Store, service: FifoService, stream: SqsStream, clock: ManualClock, moment: Moment
) -> None:
    """Both tries of the first turn fail; a second turn goes out; then the caller repeats the first by its key."""
    faults = Faults.first(2, Fault(moment, unreachable), verb="send_message")
    failing = SqsStream(faulty(service, faults), stream._queues, clock)
    settler = Settler(dynamodb, failing, clock, "web")
    first = await settler.settle(turn("c1", message("m1", 0), key="k1"))
    assert first.new
    clock.advance(timedelta(seconds=1))
    second = await settler.settle(turn("c1", message("m2", 1), key="k2"))
    repeated = await settler.settle(turn("c1", message("m1", 0), key="k1"))
    assert (repeated.new, repeated.event.event_id) == (False, first.event.event_id)
    assert [stored.id for stored in await dynamodb.messages("c1")] == ["m1", "m2"]
    published = [read_event(delivery.body).event_id for delivery in await receive(stream)]
    assert second.event.event_id in published
    window = await dynamodb.window("c1", "topics")
    assert window is not None
    assert [stored.id for stored in window.messages] == ["m1", "m2"]
    assert window.through == second.event.occurred_at


@pytest.mark.parametrize("moment", list(Moment))
async def test_after_a_crash_between_commit_and_send_the_sweep_emits_the_same_event(
    dynamodb: Store, stream: SqsStream, clock: ManualClock, moment: Moment
) -> None:
    await dynamodb.register([Registration("topics", clock(), ConsumerState.LIVE, timedelta(0))])
    crashing = Settler(dynamodb, faulty(stream, Faults.first(1, Fault(moment, Crash), verb="publish")), clock, "web")
    with pytest.raises(Crash):
        await crashing.settle(turn("c1", message("m1", 0), key="k1"))
    conversation = await dynamodb.conversation("c1")
    assert conversation is not None
    assert conversation.settled_at == T0
    clock.advance(timedelta(hours=1))
    ledger = Ledger(dynamodb, stream, clock, "worker")
    assert len(await ledger.sweep()) == 1
    (swept,) = await stream.receive(Queue.RETRY, limit=10, visibility=LEASE)
    assert read_event(swept.body).event_id == f"turn:c1:{int(T0.timestamp() * 1000)}"
