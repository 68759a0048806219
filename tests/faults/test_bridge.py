"""The bridge between a stream and an engine of which either may fail."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from tests.contract.samples import T0, at
from tests.contract.stream import event, names
from tests.faults.rig import LEASE, RecordingConsumer, open_rig, registry_of

from afterturn.bridge.bridge import ReceiveOptions
from afterturn.bridge.plan import backoff
from afterturn.errors import EngineUnavailable, StreamUnavailable
from afterturn.reactions.port import Signal
from afterturn.stream.port import MAX_RECEIVES, Depth, Queue
from afterturn.testing import Fault, Faults, Moment

DAY = timedelta(days=1)


class TestInvalidRecords:
    @pytest.mark.parametrize("one_file", [True, False])
    async def test_an_invalid_head_is_dead_lettered_alone(self, path: Path, one_file: bool) -> None:
        """F5: ev-1 is not JSON, ev-2 to ev-5 are good: one dead letter at once, the others signalled once, in order."""
        with open_rig(path, registry_of("topics"), one_file=one_file) as rig:
            await rig.put_raw("c1", "not json")
            for second in range(2, 6):
                await rig.stream.publish(event("c1", second))
            assert await rig.pump(limit=2) == 5
            (letter,) = await rig.stream.dead_letters(limit=10)
            assert (letter.body, letter.receives, letter.reason) == ("not json", 1, "the record is not JSON")
            assert [one.occurred_at for one in rig.signaler.taken] == [at(2), at(4), at(5)]
            depth = await rig.stream.depth()
            assert (depth.main, depth.dead_letters) == (0, 1)

    async def test_invalid_records_fail_one_by_one(self, path: Path) -> None:
        """F23: not JSON, a list, an empty group: each its own dead letter, and no crash of the batch."""
        with open_rig(path, registry_of("topics")) as rig:
            await rig.stream.publish(event("a", 1))
            for group, body in (("a", "not json"), ("b", "[]"), ("", "{}")):
                await rig.put_raw(group, body)
            await rig.stream.publish(event("b", 2))
            assert await rig.pump() == 5
            assert [one.body for one in await rig.stream.dead_letters(limit=10)] == ["not json", "[]", "{}"]
            assert [one.conversation_id for one in rig.signaler.taken] == ["a", "b"]

    async def test_invalid_records_are_dead_lettered_while_the_engine_is_down(self, path: Path) -> None:
        with open_rig(path, registry_of("topics")) as rig:
            await rig.put_raw("c1", "not json")
            await rig.stream.publish(event("c1", 2))
            rig.signaler.down = 1
            with pytest.raises(EngineUnavailable):
                await rig.pump()
            depth = await rig.stream.depth()
            assert (depth.main, depth.dead_letters) == (1, 1)


class TestEngineDown:
    @pytest.mark.parametrize("one_file", [True, False])
    async def test_nothing_is_acknowledged_and_order_is_kept(self, path: Path, one_file: bool) -> None:
        with open_rig(path, registry_of("topics"), one_file=one_file) as rig:
            for second in (1, 2, 3):
                await rig.stream.publish(event("c1", second))
            rig.signaler.down = 3
            for _ in range(3):
                with pytest.raises(EngineUnavailable):
                    await rig.pump(limit=1)
                assert (await rig.stream.depth()).main == 3
                assert await rig.pump() == 0
                rig.clock.advance(timedelta(hours=1))
            assert rig.signaler.taken == []
            assert await rig.pump(limit=1) == 3
            assert [one.occurred_at for one in rig.signaler.taken] == [at(1), at(2), at(3)]

    async def test_the_wait_grows_with_each_receive(self, path: Path) -> None:
        with open_rig(path, registry_of("topics")) as rig:
            await rig.stream.publish(event("c1", 1))
            rig.signaler.down = 99
            for receives in range(1, MAX_RECEIVES + 1):
                with pytest.raises(EngineUnavailable):
                    await rig.pump()
                rig.clock.advance(backoff(receives) - timedelta(milliseconds=1))
                assert await rig.pump() == 0
                rig.clock.advance(timedelta(milliseconds=1))
            assert await rig.pump() == 0
            (letter,) = await rig.stream.dead_letters(limit=10)
            assert letter.receives == MAX_RECEIVES

    async def test_an_outage_of_half_a_day_costs_nothing(self, path: Path) -> None:
        consumer = RecordingConsumer()
        with open_rig(path, registry_of("topics", "grade", consumer=consumer)) as rig:
            await rig.register()
            for name in ("m1", "m2"):
                await rig.settle("c1", name)
            rig.signaler.down = 10**6
            while rig.clock() < T0 + timedelta(hours=12):
                try:
                    await rig.pump()
                except EngineUnavailable:
                    rig.clock.advance(timedelta(seconds=30))
                rig.clock.advance(timedelta(minutes=5))
            rig.signaler.down = 0
            for _ in range(30):
                rig.clock.advance(timedelta(hours=1))
                await rig.work()
            assert (await rig.stream.depth()).dead_letters == 0
            assert await rig.seen("topics", "c1") == await rig.seen("grade", "c1") == ["m1", "m2"]

    async def test_events_dead_lettered_in_a_longer_outage_are_swept(self, path: Path) -> None:
        """Dead letters are for people; what a reaction owes comes back by itself."""
        with open_rig(path, registry_of("topics")) as rig:
            await rig.register()
            await rig.settle("c1", "m1")
            rig.signaler.down = MAX_RECEIVES
            for _ in range(MAX_RECEIVES + 1):
                try:
                    await rig.pump()
                except EngineUnavailable:
                    rig.clock.advance(DAY)
            assert (await rig.stream.depth()).dead_letters == 1
            assert len(await rig.ledger.sweep()) == 1
            await rig.work()
            assert await rig.seen("topics", "c1") == ["m1"]

    async def test_an_outage_uses_up_one_receive(self, path: Path) -> None:
        """While the engine does not answer nothing is received, however often the loop looks."""
        with open_rig(path, registry_of("topics")) as rig:
            await rig.settle("c1", "m1")
            rig.signaler.down = 30
            stop = asyncio.Event()
            running = asyncio.create_task(rig.bridge.run(stop, asyncio.Event(), ReceiveOptions(batch=10), poll=0.0))
            while rig.signaler.down:
                rig.clock.advance(timedelta(hours=13))
                await asyncio.sleep(0.001)
            while not rig.signaler.taken:
                rig.clock.advance(timedelta(hours=13))
                await asyncio.sleep(0.001)
            stop.set()
            await running
            assert (await rig.stream.depth()).dead_letters == 0

    async def test_an_outage_uses_up_one_receive_of_all_loops_together(self, path: Path) -> None:
        """Where receives wait for records several loops read one queue: what one of them learns holds for all."""
        with open_rig(path, registry_of("topics")) as rig:
            await rig.settle("c1", "m1")
            rig.signaler.down = 10**6
            stop = asyncio.Event()
            reading = ReceiveOptions(batch=10, long_polls=8)
            running = asyncio.create_task(rig.bridge.run(stop, asyncio.Event(), reading, poll=0.001))
            await asyncio.sleep(0.05)  # what is being received when an outage begins cannot know of it
            for _ in range(20):
                rig.clock.advance(timedelta(hours=13))
                await asyncio.sleep(0.005)
            assert rig.signaler.refusals == 1
            rig.signaler.down = 0
            while not rig.signaler.taken:  # noqa: ASYNC110 - asks a bridge
                await asyncio.sleep(0.001)
            stop.set()
            await running
            assert (await rig.stream.depth()).dead_letters == 0

    async def test_the_loop_waits_and_goes_on(self, path: Path) -> None:
        with open_rig(path, registry_of("topics")) as rig:
            await rig.settle("c1", "m1")
            rig.signaler.down = 2
            stop, wake = asyncio.Event(), asyncio.Event()
            loop = asyncio.create_task(rig.bridge.run(stop, wake, ReceiveOptions(batch=10), poll=0.001))
            while rig.signaler.down or (await rig.stream.depth()).main:
                rig.clock.advance(timedelta(minutes=1))
                await asyncio.sleep(0.002)
            stop.set()
            await loop
            assert rig.signaler.taken == [Signal("topics", "c1", T0)]


class TestRefusingConsumer:
    async def test_only_the_events_of_a_refusing_consumer_are_deferred(self, path: Path) -> None:
        """The healthy are signalled once; the record is done with; only the sick one's event waits, in order."""
        with open_rig(path, registry_of("sick", "well", "fine"), one_file=False) as rig:
            rig.signaler.refusing["sick"] = 2
            for second in (1, 2):
                await rig.stream.publish(event("c1", second))
            await rig.stream.publish(event("c2", 1))
            await rig.bridge.pump(Queue.MAIN, limit=10)
            depth = await rig.stream.depth()
            assert (depth.main, depth.retry) == (0, 3)
            assert await rig.pump() == 3
            assert {one.consumer for one in rig.signaler.taken[:4]} == {"well", "fine"}
            assert rig.signaler.taken[4:] == [Signal("sick", "c1", at(2)), Signal("sick", "c2", at(1))]

    async def test_a_consumer_that_refuses_twenty_times_delays_no_other_and_is_served_at_last(self, path: Path) -> None:
        """Through backoff, dead letters and sweeps; its neighbours see nothing of it."""
        with open_rig(path, registry_of("sick", "well"), one_file=False) as rig:
            await rig.register()
            rig.signaler.refusing["sick"] = 20
            for name in ("m1", "m2"):
                await rig.settle("c1", name)
            await rig.work()
            assert await rig.seen("well", "c1") == ["m1", "m2"]
            hours = 0
            while await rig.seen("sick", "c1") is None:
                rig.clock.advance(timedelta(hours=1))
                await rig.ledger.sweep()
                await rig.work()
                hours += 1
                assert hours < 24 * 30
            assert await rig.seen("sick", "c1") == ["m1", "m2"]
            assert rig.signaler.refusing["sick"] == 0
            assert sum(one.consumer == "well" for one in rig.signaler.taken) == 1
            letters = await rig.stream.dead_letters(limit=10)
            assert {one.consumer for one in letters} <= {"sick"}

    async def test_a_deferred_event_that_is_refused_again_waits_longer(self, path: Path) -> None:
        with open_rig(path, registry_of("sick"), one_file=False) as rig:
            rig.signaler.refusing["sick"] = 99
            await rig.stream.publish(event("c1", 1))
            await rig.bridge.pump(Queue.MAIN, limit=10)
            for receives in range(1, MAX_RECEIVES + 1):
                assert await rig.pump() == 1
                assert await rig.pump() == 0
                rig.clock.advance(backoff(receives))
            await rig.pump()
            (letter,) = await rig.stream.dead_letters(limit=10)
            assert (letter.consumer, letter.queue) == ("sick", Queue.RETRY)

    @pytest.mark.parametrize("moment", list(Moment))
    async def test_an_event_that_cannot_be_deferred_is_not_acknowledged(self, path: Path, moment: Moment) -> None:
        """The healthy are signalled again then, which changes nothing for them; other conversations go on."""
        consumer = RecordingConsumer()
        registry = registry_of("sick", "well", consumer=consumer)
        fault = Faults.first(1, Fault(moment, StreamUnavailable), verb="publish")
        with open_rig(path, registry, one_file=False) as rig:
            await rig.register()
            for name in ("c1", "c2"):
                await rig.settle(name, "m1")
            await rig.settle("c1", "m2")
        with open_rig(path, registry, rig.clock, one_file=False, stream_faults=fault) as rig:
            rig.signaler.refusing["sick"] = 1
            await rig.bridge.pump(Queue.MAIN, limit=10)
            assert [event.conversation_id for event in await rig.waiting_events()] == ["c1", "c1"]
            rig.clock.advance(backoff(1))
            await rig.work()
            assert await rig.seen("sick", "c1") == await rig.seen("well", "c1") == ["m1", "m2"]
            assert len(consumer.effects.calls) == len(set(consumer.effects.calls)) == 6

    @pytest.mark.parametrize("verb", ["release", "dead_letter", "ack"])
    @pytest.mark.parametrize("moment", list(Moment))
    async def test_a_stream_that_fails_half_way_loses_nothing(self, path: Path, verb: str, moment: Moment) -> None:
        """Whichever verb fails, before or after its effect: valid events arrive, invalid ones are dead-lettered."""
        fault = Faults.first(2, Fault(moment, StreamUnavailable), verb=verb)
        with open_rig(path, registry_of("topics", "sick"), one_file=False, stream_faults=fault) as rig:
            await rig.register()
            await rig.settle("c1", "m1")
            await rig.put_raw("c1", "not json")
            await rig.settle("c1", "m2")
            await rig.settle("c2", "m1")
            rig.signaler.refusing["sick"] = 1
            for _ in range(30):
                with suppress(StreamUnavailable):
                    await rig.work()
                rig.clock.advance(timedelta(minutes=10))
            for name in ("topics", "sick"):
                assert await rig.seen(name, "c1") == ["m1", "m2"]
                assert await rig.seen(name, "c2") == ["m1"]
            assert await rig.stream.depth() == Depth(main=0, retry=0, dead_letters=1, oldest=None)

    async def test_an_event_for_a_consumer_of_another_version_waits_for_it(self, path: Path) -> None:
        """During a rollout two bridges know different consumers; neither loses the other's."""
        with open_rig(path, registry_of("topics")) as rig:
            await rig.stream.publish(event("c1", 1), consumer="newcomer")
            await rig.stream.publish(event("c1", 1), consumer="topics")
            assert await rig.pump() == 2
            assert rig.signaler.taken == [Signal("topics", "c1", at(1))]
            assert rig.bridge.unknown_consumers == {("newcomer", "c1")}
            assert (await rig.stream.depth()).retry == 1
        with open_rig(path, registry_of("topics", "newcomer"), rig.clock) as newer:
            newer.clock.advance(timedelta(minutes=1))
            await newer.pump()
            assert newer.signaler.taken == [Signal("newcomer", "c1", at(1))]


class TestRedelivery:
    async def test_a_lost_acknowledgement_repeats_signals_that_change_nothing(self, path: Path) -> None:
        """F17: signalled, then dead before the ack; redelivered while the run waits, and after it is done."""
        consumer = RecordingConsumer()
        with open_rig(path, registry_of("topics", consumer=consumer), one_file=False) as rig:
            await rig.register()
            await rig.settle("c1", "m1")
            for worked in (False, True):
                (delivery,) = await rig.stream.receive(Queue.MAIN, limit=10, visibility=LEASE)
                await rig.signaler.signal([Signal("topics", "c1", T0)], [])
                if worked:
                    await rig.worker.run_due()
                rig.clock.advance(LEASE)
                assert delivery.receives == 1 + worked
            await rig.work()
            assert len(rig.signaler.taken) == 3
            assert consumer.effects.calls == ["topics:c1:m1"]
            assert await rig.seen("topics", "c1") == ["m1"]

    async def test_a_redrive_of_an_old_event_behind_a_new_one_changes_nothing(self, path: Path) -> None:
        """F4: order-safe, because stamps only move forward."""
        consumer = RecordingConsumer()
        with open_rig(path, registry_of("topics", consumer=consumer)) as rig:
            await rig.register()
            await rig.settle("c1", "m1")
            (old,) = await rig.stream.receive(Queue.MAIN, limit=1, visibility=LEASE)
            await rig.stream.dead_letter(old, reason="told")
            rig.clock.advance(timedelta(seconds=1))
            await rig.settle("c1", "m2")
            await rig.work()
            letters = await rig.stream.dead_letters(limit=10)
            assert names(letters) == ["c1@0"]
            assert await rig.stream.redrive([letters[0].id]) == 1
            await rig.work()
            assert consumer.effects.calls == ["topics:c1:m1", "topics:c1:m2"]
            assert await rig.seen("topics", "c1") == ["m1", "m2"]

    async def test_two_bridges_on_one_file_signal_each_event_once(self, path: Path) -> None:
        with open_rig(path, registry_of("topics")) as one, open_rig(path, registry_of("topics"), one.clock) as two:
            for number in range(30):
                await one.settle(f"c{number % 7}", f"m{number}")
            await asyncio.gather(*(rig.pump(limit=3) for rig in (one, two, one, two)))
            assert (await one.stream.depth()).main == 0
            taken = [
                (signal.conversation_id, signal.occurred_at) for rig in (one, two) for signal in rig.signaler.taken
            ]
            assert len(taken) == len(set(taken))
