"""The stamping half of the store contract."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.contract.samples import T0, at, message, meta, work_order
from tests.contract.store.factory import StoreFactory, settle_new

from afterturn.errors import NotFound
from afterturn.model import Stamp, StoredStamp, Urgency
from afterturn.store.port import ConsumerState, Failure, FailureKey, Registration, Store, WorkOrderKey


async def stamp_of(store: Store, consumer: str = "topics", conversation_id: str = "c1") -> StoredStamp | None:
    found = await store.conversation(conversation_id)
    assert found is not None
    return found.reactions.get(consumer)


async def window_ids(store: Store, consumer: str = "topics") -> list[str] | None:
    window = await store.window("c1", consumer)
    return None if window is None else [one.id for one in window.messages]


class WindowContract:
    """What a consumer is shown."""

    async def test_nothing_settled_means_no_window(self, store: Store) -> None:
        assert await store.window("unknown", "topics") is None
        await store.save_messages(meta("c1"), [message("m1")], now=T0)
        assert await store.window("c1", "topics") is None

    async def test_nothing_is_written_for_a_conversation_that_is_not_there(self, store: Store) -> None:
        """F22: what was deleted is not revived by a reaction that was under way."""
        assert not await store.stamp("unknown", "topics", Stamp(), through=at(1), now=at(2))
        await store.fail("unknown", "topics", through=at(1), error="ValueError", now=at(2))
        await store.request("unknown", ["topics"], now=at(2))
        assert await store.conversation("unknown") is None
        assert await store.failures(limit=9) == ()

    async def test_a_window_holds_what_was_settled_and_not_yet_seen(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", 1), message("m2", 2), now=at(2))
        window = await store.window("c1", "topics")
        assert window is not None
        assert (window.through, window.conversation) == (at(2), await store.conversation("c1"))
        assert await window_ids(store) == ["m1", "m2"]
        await store.stamp("c1", "topics", Stamp(), through=window.through, now=at(3))
        assert await store.window("c1", "topics") is None
        assert await window_ids(store, "grade") == ["m1", "m2"]
        await settle_new(store, "c1", message("m3", 3), now=at(4))
        assert await window_ids(store) == ["m3"]

    async def test_what_was_saved_mid_turn_waits_for_its_turn(self, store: Store) -> None:
        """No reaction sees half a turn."""
        await settle_new(store, "c1", message("m1", 1), now=at(1))
        await store.save_messages(meta("c1"), [message("m2", 2)], now=at(2))
        assert await window_ids(store) == ["m1"]
        await settle_new(store, "c1", message("m3", 3), now=at(3))
        assert await window_ids(store) == ["m1", "m2", "m3"]

    async def test_a_late_message_with_an_older_time_is_still_seen(self, store: Store) -> None:
        """Windows go by arrival, threads by time."""
        await settle_new(store, "c1", message("m2", 60), now=at(60))
        await store.stamp("c1", "topics", Stamp(), through=at(60), now=at(61))
        await settle_new(store, "c1", message("late", 5), message("m3", 70), now=at(70))
        assert await window_ids(store) == ["late", "m3"]
        assert [m.id for m in await store.messages("c1")] == ["late", "m2", "m3"]

    async def test_a_turn_that_settles_during_a_run_is_in_the_next_window(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", 1), now=at(1))
        window = await store.window("c1", "topics")
        assert window is not None
        await settle_new(store, "c1", message("m2", 2), now=at(2))
        await store.stamp("c1", "topics", Stamp(), through=window.through, now=at(3))
        assert await window_ids(store) == ["m2"]

    async def test_a_turn_without_messages_opens_a_window(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", 1), now=at(1))
        await store.stamp("c1", "topics", Stamp(), through=at(1), now=at(1))
        await settle_new(store, "c1", now=at(5))
        window = await store.window("c1", "topics")
        assert window is not None
        assert (window.messages, window.through) == ((), at(5))


class StampContract:
    """Stamps, failures, requests, claims, work orders and registrations."""

    async def test_a_stamp_only_moves_forward(self, store: Store) -> None:
        for second in (1, 2, 3):
            await settle_new(store, "c1", message(f"m{second}", second), now=at(second))
        assert await store.stamp("c1", "topics", Stamp(data={"n": 2}), through=at(2), now=at(10))
        assert not await store.stamp("c1", "topics", Stamp(data={"n": 1}), through=at(1), now=at(11))
        assert not await store.stamp("c1", "topics", Stamp(data={"n": 9}), through=at(2), now=at(12))
        assert await stamp_of(store) == StoredStamp(through=at(2), at=at(10), data={"n": 2})
        assert await store.stamp("c1", "topics", Stamp(data={"n": 3}), through=at(3), now=at(13))
        assert await stamp_of(store) == StoredStamp(through=at(3), at=at(13), data={"n": 3})

    async def test_racing_stamps_leave_the_newest(self, factory: StoreFactory) -> None:
        async with factory.open() as one, factory.open() as two:
            await settle_new(one, "c1", now=T0)
            await asyncio.gather(
                *(
                    (one, two)[n % 2].stamp("c1", "topics", Stamp(data={"n": n}), through=at(n), now=at(99))
                    for n in (5, 3, 9, 1, 7, 2, 8)
                )
            )
            assert await stamp_of(two) == StoredStamp(through=at(9), at=at(99), data={"n": 9})

    async def test_stamps_of_consumers_and_the_meta_do_not_touch_each_other(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1"), now=T0)
        await store.stamp("c1", "topics", Stamp(data={"topics": ["tour"]}), through=T0, now=T0)
        await store.stamp("c1", "grade", Stamp(data={"grade": "A"}), through=T0, now=T0)
        await store.save_conversation(meta("c1", property_id="p1"), now=at(1))
        await settle_new(store, "c1", message("m2", 2), now=at(2))
        found = await store.conversation("c1")
        assert found is not None
        assert (found.property_id, found.settled_at) == ("p1", at(2))
        assert {name: dict(stamp.data) for name, stamp in found.reactions.items()} == {
            "topics": {"topics": ["tour"]},
            "grade": {"grade": "A"},
        }

    async def test_a_failure_is_marked_and_a_newer_stamp_clears_it(self, store: Store) -> None:
        await settle_new(store, "c1", now=at(1))
        await store.stamp("c1", "topics", Stamp(data={"n": 1}), through=at(1), now=at(2))
        await settle_new(store, "c1", now=at(3))
        await store.fail("c1", "topics", through=at(3), error="ValueError", now=at(4))
        stamp = await stamp_of(store)
        assert stamp is not None
        assert (stamp.through, dict(stamp.data)) == (at(1), {"n": 1})
        assert (stamp.failed_through, stamp.error) == (at(3), "ValueError")
        assert await store.failures(limit=10) == (Failure("c1", "topics", at(3), "ValueError"),)
        await store.stamp("c1", "topics", Stamp(), through=at(3), now=at(5))
        assert await store.failures(limit=10) == ()

    async def test_a_failure_of_what_was_seen_since_is_no_failure(self, store: Store) -> None:
        """A worker that lags behind another one cannot mark what that one has stamped."""
        await settle_new(store, "c1", now=at(1))
        await store.stamp("c1", "topics", Stamp(), through=at(1), now=at(2))
        await store.fail("c1", "topics", through=at(1), error="ValueError", now=at(3))
        assert await store.failures(limit=10) == ()

    async def test_failures_are_listed_up_to_a_limit(self, store: Store) -> None:
        for name in ("c2", "c1", "c3"):
            await settle_new(store, name, now=T0)
            await store.fail(name, "topics", through=T0, error="E", now=T0)
        assert [one.conversation_id for one in await store.failures(limit=10)] == ["c1", "c2", "c3"]
        assert len(await store.failures(limit=2)) == 2

    async def test_failures_are_met_once_each_from_place_to_place(self, store: Store) -> None:
        """Also where the place itself is healed meanwhile; ids that are escaped keep their place."""
        names = ["c1", 'c"2', "c#3", "c4"]
        for name in names:
            await settle_new(store, name, now=T0)
            for consumer in ("topics", "grade"):
                await store.fail(name, consumer, through=T0, error="E", now=T0)
        whole = [FailureKey(one.consumer, one.conversation_id) for one in await store.failures(limit=99)]
        assert whole == sorted(whole)
        assert len(whole) == 8
        for limit in (1, 3, 8):
            met: list[FailureKey] = []
            while page := await store.failures(after=met[-1] if met else None, limit=limit):
                met += [FailureKey(one.consumer, one.conversation_id) for one in page]
            assert met == whole
        await store.request(whole[2].conversation_id, [whole[2].consumer], now=at(1))
        rest = await store.failures(after=whole[2], limit=99)
        assert [FailureKey(one.consumer, one.conversation_id) for one in rest] == whole[3:]
        assert await store.failures(after=FailureKey("zzz", ""), limit=9) == ()

    async def test_a_request_makes_an_empty_stamp_and_lifts_a_failure(self, store: Store) -> None:
        await settle_new(store, "c1", now=at(1))
        await store.fail("c1", "grade", through=at(1), error="E", now=at(1))
        await store.request("c1", ["topics", "grade"], now=at(9))
        assert await stamp_of(store) == StoredStamp(at=at(9))
        assert await store.failures(limit=10) == ()
        await store.stamp("c1", "topics", Stamp(data={"n": 1}), through=at(1), now=at(10))
        await store.request("c1", ["topics"], now=at(11))
        assert await stamp_of(store) == StoredStamp(through=at(1), at=at(10), data={"n": 1})

    async def test_the_first_claim_wins(self, factory: StoreFactory) -> None:
        async with factory.open() as one, factory.open() as two:
            taken = await asyncio.gather(*((one, two)[n % 2].claim("alert", "k", {"n": n}) for n in range(10)))
            assert len({str(value) for value in taken}) == 1
            assert await one.claim("alert", "k", "late") == taken[0]
            assert await one.claim("alert", "other", "mine") == "mine"
            assert await one.claim("webhook", "k", None) is None
            assert await one.claim("webhook", "k", 5) is None

    async def test_a_claim_is_done_when_it_is_said_to_be(self, store: Store) -> None:
        assert not await store.claim_done("alert", "k")
        await store.claim("alert", "k")
        assert not await store.claim_done("alert", "k")
        await store.finish_claim("alert", "k")
        await store.finish_claim("alert", "k")
        assert await store.claim_done("alert", "k")
        assert not await store.claim_done("alert", "other")
        assert not await store.claim_done("other", "k")

    async def test_work_orders_come_with_their_stamp_or_not_at_all(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1"), now=at(1))
        order = work_order("w1")
        assert await store.stamp("c1", "maintenance", Stamp(work_orders=(order,)), through=at(1), now=at(2))
        assert not await store.stamp(
            "c1", "maintenance", Stamp(work_orders=(work_order("w2"),)), through=at(1), now=at(3)
        )
        assert await store.work_orders(limit=10) == (order,)

    async def test_the_same_cause_opens_one_work_order_that_only_becomes_more_urgent(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1"), now=T0)
        told = [Urgency.ROUTINE, Urgency.URGENT, Urgency.ROUTINE, Urgency.EMERGENCY, Urgency.URGENT]
        for second, urgency in enumerate(told, start=1):
            order = work_order("w1", urgency=urgency, opened_at=at(second))
            await store.stamp("c1", "maintenance", Stamp(work_orders=(order,)), through=at(second), now=T0)
        assert await store.work_orders(limit=10) == (work_order("w1", urgency=Urgency.EMERGENCY, opened_at=at(1)),)

    async def test_work_orders_are_listed_most_urgent_first_then_oldest_first(self, store: Store) -> None:
        await settle_new(store, "c1", now=T0)
        orders = (
            work_order("a", urgency=Urgency.ROUTINE, opened_at=at(1)),
            work_order("b", urgency=Urgency.EMERGENCY, opened_at=at(5)),
            work_order("c", urgency=Urgency.URGENT, opened_at=at(3), conversation_id="c2"),
            work_order("d", urgency=Urgency.URGENT, opened_at=at(2)),
            work_order("e", urgency=Urgency.EMERGENCY, opened_at=at(0), status="closed"),
        )
        await store.stamp("c1", "maintenance", Stamp(work_orders=orders), through=T0, now=T0)
        assert [one.id for one in await store.work_orders(limit=10)] == ["b", "d", "c", "a"]
        assert [one.id for one in await store.work_orders(limit=2)] == ["b", "d"]
        assert [one.id for one in await store.work_orders(open_only=False, limit=10)] == ["e", "b", "d", "c", "a"]
        assert [one.id for one in await store.work_orders(conversation_id="c2", limit=10)] == ["c"]

    async def test_work_orders_are_met_once_each_from_place_to_place(self, store: Store) -> None:
        """Those of one moment, too, and beyond a place that is closed meanwhile."""
        orders = tuple(
            work_order(f"w{number}", urgency=list(Urgency)[number % 3], opened_at=at(number // 6), conversation_id="c1")
            for number in range(20)
        )
        await settle_new(store, "c1", now=T0)
        await store.stamp("c1", "maintenance", Stamp(work_orders=orders), through=T0, now=T0)
        await store.close_work_order("c1", "w7", now=T0)
        parts: list[dict[str, Any]] = [{}, {"open_only": False}, {"conversation_id": "c1"}, {"conversation_id": "c2"}]
        for part in parts:
            whole = [WorkOrderKey.of(one) for one in await store.work_orders(**part, limit=99)]
            assert whole == sorted(whole)
            for limit in (1, 7, 20):
                met: list[WorkOrderKey] = []
                while page := await store.work_orders(**part, after=met[-1] if met else None, limit=limit):
                    met += [WorkOrderKey.of(one) for one in page]
                assert met == whole
        before = [WorkOrderKey.of(one) for one in await store.work_orders(limit=99)]
        await store.close_work_order("c1", before[4].order_id, now=T0)
        rest = await store.work_orders(after=before[4], limit=99)
        assert [WorkOrderKey.of(one) for one in rest] == before[5:]

    async def test_a_consumer_keeps_its_first_registration(self, store: Store) -> None:
        first = Registration("topics", T0, ConsumerState.SHADOW, timedelta(minutes=5))
        await store.register([first])
        later = Registration("topics", at(60), ConsumerState.LIVE, timedelta(minutes=1))
        other = Registration("grade", at(61), ConsumerState.LIVE, timedelta(milliseconds=1500))
        await store.register([later, other])
        known = await store.registrations()
        assert known == {
            "topics": Registration("topics", T0, ConsumerState.SHADOW, timedelta(minutes=1)),
            "grade": other,
        }

    async def test_a_consumer_is_promoted_and_retired(self, store: Store) -> None:
        await store.register([Registration("topics", T0, ConsumerState.SHADOW, timedelta(0))])
        for state in (ConsumerState.LIVE, ConsumerState.RETIRED):
            await store.set_state("topics", state)
            assert (await store.registrations())["topics"].state is state
        with pytest.raises(NotFound):
            await store.set_state("nobody", ConsumerState.LIVE)

    async def test_a_mark_keeps_the_last_time(self, store: Store) -> None:
        assert await store.checkpoint("swept") is None
        await store.save_checkpoint("swept", at(5))
        await store.save_checkpoint("swept", at(1))
        assert await store.checkpoint("swept") == at(1)
