"""The ledger: owed reactions are reported, swept and replayed, whatever went wrong before."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.contract.samples import T0, at, message, turn
from tests.faults.rig import GRACE, RecordingConsumer, Rig, open_rig, registry_of

from afterturn.errors import InvalidQuery, StreamUnavailable
from afterturn.inbox import Inbox, InboxQuery
from afterturn.ledger.ledger import Ledger, OwedState, Selection
from afterturn.model import Stamp
from afterturn.store.port import ConsumerState, Registration, Store
from afterturn.stream.port import Queue
from afterturn.stream.sqs import SqsStream
from afterturn.testing import Crash, Fault, Faults, ManualClock, Moment

MINUTE = timedelta(minutes=1)
NO_GRACE = timedelta(0)


async def lose_events(rig: Rig) -> None:
    """Take what waits in the stream away, as a lost queue would."""
    await rig.database.write(lambda c: c.execute("DELETE FROM stream_main").rowcount)


async def settle_many(rig: Rig, count: int, text: str = "x") -> None:
    now = rig.clock()

    turns = [turn(f"c{number:04}", message("m", number / 100, text=text)) for number in range(count)]
    await asyncio.gather(*(rig.store.settle(settled, now=now, emitter="worker") for settled in turns))


class TestAudit:
    async def test_a_turn_in_flight_is_not_reported(self, path: Path) -> None:
        """F46: two seconds old, and still within grace and debounce; a moment later it is owed."""
        with open_rig(path, registry_of("topics", max_wait="5m")) as rig:
            await rig.register()
            await rig.settle("c1", "m1")
            rig.clock.advance(timedelta(seconds=2))
            assert (await rig.ledger.audit()).clean
            rig.clock.set(at(7 * 60) - timedelta(milliseconds=1))
            assert (await rig.ledger.audit()).clean
            rig.clock.set(at(7 * 60))
            (reaction,) = (await rig.ledger.audit()).reactions
            assert (reaction.conversation.id, reaction.consumer, reaction.state) == ("c1", "topics", OwedState.OVERDUE)
            assert (reaction.since, reaction.age) == (T0, timedelta(minutes=7))
            assert not (await rig.ledger.audit(grace=NO_GRACE)).clean

    @pytest.mark.parametrize(("count", "text"), [(1_101, "x"), (8, "x" * 200_000)], ids=["many", "large"])
    async def test_every_page_is_read(self, path: Path, count: int, text: str) -> None:
        """F46: the one that is owed is the oldest, on the last page."""
        with open_rig(path, registry_of("topics")) as rig:
            await rig.register()
            await settle_many(rig, count, text)
            await rig.work()
            await lose_events(rig)
            await rig.store.settle(turn("owing", message("m", -60)), now=at(0), emitter="worker")
            await lose_events(rig)
            rig.clock.advance(timedelta(hours=1))
            progress: list[int] = []
            audit = await rig.ledger.audit(progress=progress.append)
            assert (audit.checked, audit.owed, audit.failed) == (count + 1, 1, 0)
            assert audit.reactions[0].conversation.id == "owing"
            assert progress == sorted(progress)
            assert progress[-1] == count + 1

    async def test_every_page_of_dynamodb_is_read(self, dynamodb: Store, stream: SqsStream, clock: ManualClock) -> None:
        """F46: eight rows of 200 KB are two pages; the one that is owed is the oldest, on the last page."""
        consumers = [f"k{number}" for number in range(7)]
        await dynamodb.register([Registration(name, clock(), ConsumerState.LIVE, NO_GRACE) for name in consumers])
        stamp = Stamp(data={"text": "x" * 30_000})
        for number in range(8):
            settled = await dynamodb.settle(turn(f"c{number}", message("m", number)), now=at(number), emitter="worker")
            for consumer in consumers if number else consumers[:-1]:
                through = settled.event.occurred_at
                await dynamodb.stamp(f"c{number}", consumer, stamp, through=through, now=at(number))
        clock.set(at(3_600))
        audit = await Ledger(dynamodb, stream, clock, "worker").audit()
        assert (audit.checked, audit.owed, audit.failed) == (8, 1, 0)
        assert [(reaction.conversation.id, reaction.consumer) for reaction in audit.reactions] == [("c0", "k6")]

    async def test_a_busy_conversation_cannot_hide_a_dead_consumer(self, path: Path) -> None:
        """A turn a minute: the newest is always fresh, the first unseen one is not."""
        with open_rig(path, registry_of("dead", "well")) as rig:
            await rig.register()
            for minute in range(10):
                rig.clock.set(at(60 * minute))
                await rig.settle("c1", f"m{minute}")
                await _see_all(rig, "well")
            reactions = (await rig.ledger.audit()).reactions
            assert [(reaction.consumer, reaction.since) for reaction in reactions] == [("dead", T0)]
            assert reactions[0].age == timedelta(minutes=9)

    async def test_failures_are_reported_at_once(self, path: Path) -> None:
        with open_rig(path, registry_of("topics")) as rig:
            await rig.register()
            await rig.settle("c1", "m1")
            await rig.store.fail("c1", "topics", through=T0, error="ValueError", now=T0)
            audit = await rig.ledger.audit()
            assert (audit.owed, audit.overdue, audit.failed, audit.clean) == (1, 0, 1, False)
            assert audit.to_json()["reactions"][0]["state"] == "failed"

    async def test_an_owed_reaction_counts_from_when_it_was_recorded(self, path: Path) -> None:
        """Imported history is not overdue the moment that it arrives."""
        with open_rig(path, registry_of("topics")) as rig:
            await rig.register()
            old = turn("c1", message("m", -86_400 * 400), at=at(-86_400 * 400))
            await rig.settler.settle(old)
            assert (await rig.ledger.audit()).clean
            rig.clock.advance(GRACE)
            (reaction,) = (await rig.ledger.audit()).reactions
            assert reaction.since == T0

    async def test_a_late_consumer_owes_nothing_from_before(self, path: Path) -> None:
        with open_rig(path, registry_of("topics", "late")) as rig:
            await rig.register("topics")
            await rig.settle("c1", "m1")
            rig.clock.advance(MINUTE)
            await rig.register("late")
            await rig.settle("c2", "m1")
            reactions = (await rig.ledger.audit(grace=NO_GRACE)).reactions
            assert {(reaction.conversation.id, reaction.consumer) for reaction in reactions} == {
                ("c1", "topics"),
                ("c2", "topics"),
                ("c2", "late"),
            }

    async def test_a_retired_consumer_owes_nothing(self, path: Path) -> None:
        with open_rig(path, registry_of("topics")) as rig:
            await rig.register()
            await rig.settle("c1", "m1")
            await rig.store.set_state("topics", ConsumerState.RETIRED)
            assert (await rig.ledger.audit(grace=NO_GRACE)).clean

    @pytest.fixture(params=["Europe/London", "America/New_York"])
    def host_time_zone(self, request: pytest.FixtureRequest) -> Iterator[None]:
        before = os.environ.get("TZ")
        os.environ["TZ"] = request.param
        time.tzset()
        yield
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()

    @pytest.mark.usefixtures("host_time_zone")
    @pytest.mark.parametrize("begin", [datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 10, 24, tzinfo=UTC)])
    async def test_daily_windows_meet_each_turn_once_on_any_host(self, path: Path, begin: datetime) -> None:
        """F38: the 23-hour and the 25-hour day of London; on the latter two turns settle at 01:30 local time."""
        with open_rig(path, registry_of("topics")) as rig:
            rig.clock.set(begin)
            await rig.register()
            for name, hours in (("before", 23.99), ("first", 24.5), ("second", 25.5), ("last", 47.99), ("after", 48)):
                rig.clock.set(begin + timedelta(hours=hours))
                await rig.settle(name, "m1")
            days = []
            for day in range(3):
                since = begin + timedelta(days=day)
                audit = await rig.ledger.audit(Selection(since=since, until=since + timedelta(days=1)), grace=NO_GRACE)
                days.append([reaction.conversation.id for reaction in audit.reactions])
            assert days == [["before"], ["last", "second", "first"], ["after"]]


async def _see_all(rig: Rig, consumer: str) -> None:
    """Stamp as a healthy consumer does."""
    window = await rig.store.window("c1", consumer)
    assert window is not None
    await rig.store.stamp("c1", consumer, Stamp(), through=window.through, now=rig.clock())


class TestSweep:
    async def test_a_lost_event_is_re_emitted(self, path: Path) -> None:
        """Through the stream, which stays the only path; a second sweep has nothing to do."""
        with open_rig(path, registry_of("topics", "grade")) as rig:
            await rig.register()
            receipt = await rig.settle("c1", "m1")
            await lose_events(rig)
            rig.clock.advance(GRACE)
            assert len(await rig.ledger.sweep()) == 2
            assert await rig.seen("topics", "c1") is None
            events = await rig.waiting_events(Queue.RETRY)
            assert [event.event_id for event in events] == [receipt.event.event_id] * 2
            assert all(event.immediate for event in events)
            await rig.work()
            assert await rig.seen("topics", "c1") == await rig.seen("grade", "c1") == ["m1"]
            assert await rig.ledger.sweep() == ()

    async def test_an_owed_reaction_is_re_emitted_at_doubling_ages(self, path: Path) -> None:
        with open_rig(path, registry_of("topics")) as rig:
            await rig.register()
            await rig.settle("c1", "m1")
            await lose_events(rig)
            reminded = []
            for minute in range(1, 300):
                rig.clock.set(at(60 * minute))
                if await rig.ledger.sweep():
                    reminded.append(minute)
            assert reminded == [2, 4, 8, 16, 32, 64, 128, 256]

    async def test_a_failed_reaction_is_not_swept(self, path: Path) -> None:
        with open_rig(path, registry_of("topics")) as rig:
            await rig.register()
            await rig.settle("c1", "m1")
            await rig.store.fail("c1", "topics", through=T0, error="ValueError", now=T0)
            rig.clock.advance(timedelta(days=1))
            assert await rig.ledger.sweep(everything=True) == ()

    async def test_the_next_sweep_finishes_one_that_crashed(self, path: Path) -> None:
        """Nothing is marked as swept before it is."""
        fault = Faults.first(1, Fault(Moment.BEFORE, Crash), verb="publish")
        with open_rig(path, registry_of("topics"), stream_faults=fault) as rig:
            await rig.register()
            await settle_many(rig, 5)
            await lose_events(rig)
            rig.clock.advance(timedelta(minutes=30))
            with suppress(Crash):
                await rig.ledger.sweep()
        with open_rig(path, registry_of("topics"), rig.clock) as after:
            after.clock.advance(MINUTE)
            assert len(await after.ledger.sweep()) == 5
            await after.work()
            assert (await after.ledger.audit()).clean

    @pytest.mark.parametrize("moment", list(Moment))
    async def test_a_stream_that_fails_once_is_tried_again(self, path: Path, moment: Moment) -> None:
        fault = Faults.first(1, Fault(moment, StreamUnavailable), verb="publish")
        with open_rig(path, registry_of("topics"), stream_faults=fault) as rig:
            await rig.register()
            await rig.settle("c1", "m1")
            await lose_events(rig)
            rig.clock.advance(GRACE)
            assert len(await rig.ledger.sweep()) == 1
            assert len(await rig.waiting_events(Queue.RETRY)) == 1

    async def test_a_sweep_of_chosen_consumers_re_emits_theirs_only(self, path: Path) -> None:
        """And such a sweep does not count as the regular one."""
        with open_rig(path, registry_of("topics", "grade")) as rig:
            await rig.register()
            await rig.settle("c1", "m1")
            await lose_events(rig)
            rig.clock.advance(GRACE)
            assert [reaction.consumer for reaction in await rig.ledger.sweep(only=["grade"])] == ["grade"]
            assert len(await rig.ledger.sweep()) == 2


class TestReplay:
    async def test_a_new_consumer_replays_history_in_shadow_and_is_promoted(self, path: Path) -> None:
        """It owed nothing; asked, it owes, works unseen and in silence, and then is as good as the others."""
        consumer = RecordingConsumer()
        registry = registry_of("topics")
        registry.add("late", consumer, quiet="0s", max_wait="0s", shadow=True)
        with open_rig(path, registry) as rig:
            await rig.register("topics")
            for number in range(3):
                await rig.settle(f"c{number}", "m1")
            await rig.work()
            await _forget(rig, "late")
            consumer.effects.calls.clear()
            rig.clock.advance(MINUTE)
            await rig.register("late", state=ConsumerState.SHADOW)
            assert (await rig.ledger.audit(grace=NO_GRACE)).clean
            assert await rig.ledger.replay(consumers=["late"]) == 3
            assert (await rig.ledger.audit(grace=NO_GRACE)).owed == 3
            await rig.drain()
            inbox = Inbox(rig.store, rig.clock)
            assert all("late" not in row.states for row in (await inbox.page(InboxQuery())).rows)
            assert consumer.effects.calls == []
            await rig.store.set_state("late", ConsumerState.LIVE)
            rows = (await inbox.page(InboxQuery())).rows
            assert [row.stamp("late") for row in rows] == [{"seen": ["m1"]}] * 3
            assert (await rig.ledger.audit(grace=NO_GRACE)).clean

    async def test_a_replay_of_seen_turns_emits_nothing(self, path: Path) -> None:
        with open_rig(path, registry_of("topics", "grade")) as rig:
            await rig.register()
            await settle_many(rig, 4)
            await rig.work()
            assert await rig.ledger.replay() == 0
            assert (await rig.stream.depth()).retry == 0

    async def test_a_replay_repeated_while_its_events_wait_emits_nothing_twice(self, path: Path) -> None:
        consumer = RecordingConsumer()
        with open_rig(path, registry_of("late", consumer=consumer)) as rig:
            await settle_many(rig, 4)
            await lose_events(rig)
            rig.clock.advance(MINUTE)
            await rig.register()
            for _ in range(2):
                await rig.ledger.replay(consumers=["late"])
            assert (await rig.stream.depth()).retry == 4
            await rig.drain()
            assert len(consumer.effects.calls) == 4

    @pytest.mark.parametrize("moment", list(Moment))
    @pytest.mark.parametrize("dies_at", range(12))
    async def test_a_second_run_completes_a_replay_that_crashed_at_any_call(
        self, path: Path, dies_at: int, moment: Moment
    ) -> None:
        """Wherever it dies: what was asked for is owed, and the rest is asked for by the second run."""
        with open_rig(path, registry_of("late")) as rig:
            await settle_many(rig, 4)
            await lose_events(rig)
            rig.clock.advance(MINUTE)
            await rig.register()
        faults = Faults.at(dies_at, Fault(moment, Crash))
        with suppress(Crash), open_rig(path, registry_of("late"), rig.clock, faults=faults) as dying:
            await dying.ledger.replay(consumers=["late"])
        with open_rig(path, registry_of("late"), rig.clock) as after:
            await after.ledger.replay(consumers=["late"])
            await after.drain()
            for number in range(4):
                assert await after.seen("late", f"c{number:04}") == ["m"]

    @pytest.mark.parametrize("moment", list(Moment))
    async def test_the_sweep_emits_what_a_crashed_replay_had_requested(self, path: Path, moment: Moment) -> None:
        """Even where nobody runs it again: history of last year comes within the grace period, not a year later."""
        with open_rig(path, registry_of("late")) as rig:
            await rig.settle("c1", "m1")
            await lose_events(rig)
            rig.clock.advance(timedelta(days=365))
            await rig.register()
            await rig.ledger.sweep()
        faults = Faults.first(1, Fault(moment, Crash), verb="publish")
        with pytest.raises(Crash), open_rig(path, registry_of("late"), rig.clock, stream_faults=faults) as dying:
            await dying.ledger.replay(consumers=["late"])
        with open_rig(path, registry_of("late"), rig.clock) as after:
            await after.database.write(lambda c: c.execute("DELETE FROM stream_retry").rowcount)
            for _ in range(4):
                after.clock.advance(MINUTE)
                await after.ledger.sweep()
            await after.work()
            assert await after.seen("late", "c1") == ["m1"]

    async def test_a_selection_is_replayed_with_progress_and_a_rate(self, path: Path) -> None:
        with open_rig(path, registry_of("late")) as rig:
            for number in range(6):
                about = {"property_id": ("p1", "p2", None)[number % 3]}
                await rig.settler.settle(turn(f"c{number}", message("m", number - 10), **about))
            await lose_events(rig)
            rig.clock.advance(MINUTE)
            await rig.register()
            progress: list[int] = []
            part = Selection(since=at(-8), property_id="p1")
            assert await rig.ledger.replay(part, progress=progress.append, rate=10_000) == 1
            assert await rig.ledger.replay(Selection(property_id="UNASSIGNED")) == 2
            assert await rig.ledger.replay(Selection(until=at(-8))) == 2
            assert progress == [1]
            await rig.drain()
            done = [n for n in range(6) if (await _through(rig, f"c{n}")) is not None]
            assert done == [0, 1, 2, 3, 5]

    async def test_an_unknown_consumer_is_refused_by_name(self, path: Path) -> None:
        with open_rig(path, registry_of("topics")) as rig:
            await rig.register()
            await rig.settle("c1", "m1")
            with pytest.raises(InvalidQuery, match=r"'topic' .*registered: topics"):
                await rig.ledger.replay(consumers=["topics", "topic"])
            assert (await rig.stream.depth()).retry == 0

    async def test_a_retired_consumer_is_replayed_only_by_name(self, path: Path) -> None:
        with open_rig(path, registry_of("topics")) as rig:
            await rig.register()
            await rig.settle("c1", "m1")
            await rig.store.set_state("topics", ConsumerState.RETIRED)
            assert await rig.ledger.replay() == 0


async def _through(rig: Rig, conversation_id: str) -> datetime | None:
    found = await rig.store.conversation(conversation_id)
    assert found is not None
    stamp = found.reactions.get("late")
    return None if stamp is None else stamp.through


async def _forget(rig: Rig, consumer: str) -> None:
    """As if the consumer had not been there."""
    await rig.database.write(lambda c: c.execute("DELETE FROM stamps WHERE consumer = ?", (consumer,)).rowcount)
