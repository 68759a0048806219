"""Work orders that people close."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.samples import T0, at, message, work_order
from tests.contract.store.factory import StoreFactory, settle_new

from afterturn.errors import InvalidInput
from afterturn.model import Stamp, Status, Urgency, WorkOrder
from afterturn.store.port import Store


async def tell(store: Store, second: float, *orders: WorkOrder) -> bool:
    """What the maintenance reaction does: a stamp with its work orders."""
    return await store.stamp("c1", "maintenance", Stamp(work_orders=orders), through=at(second), now=at(second))


async def ids(store: Store, *, open_only: bool = True) -> list[str]:
    everywhere = await store.work_orders(open_only=open_only, limit=9)
    assert everywhere == await store.work_orders(conversation_id="c1", open_only=open_only, limit=9)
    return [one.id for one in everywhere]


class CloseContract:
    """What closing a work order promises."""

    async def test_a_closed_work_order_leaves_the_open_ones(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1"), now=T0)
        await tell(store, 1, work_order("w1", urgency=Urgency.URGENT), work_order("w2"))
        closed = await store.close_work_order("c1", "w1", now=at(5))
        assert closed == work_order("w1", urgency=Urgency.URGENT, status=Status.CLOSED)
        assert await ids(store) == ["w2"]
        assert await ids(store, open_only=False) == ["w1", "w2"]
        assert (await store.counts())["openWorkOrders"] == 1

    async def test_closing_again_changes_nothing(self, factory: StoreFactory) -> None:
        async with factory.open() as one, factory.open() as two:
            await settle_new(one, "c1", message("m1"), now=T0)
            await tell(one, 1, work_order("w1"))
            closed = work_order("w1", status=Status.CLOSED)
            assert (
                await asyncio.gather(*((one, two)[n % 2].close_work_order("c1", "w1", now=at(n)) for n in range(6)))
                == [closed] * 6
            )
            assert await two.close_work_order("c1", "w1", now=at(99)) == closed
            assert await ids(two, open_only=False) == ["w1"]

    async def test_a_cause_that_is_told_again_does_not_reopen_it(self, store: Store) -> None:
        """Nor does it grow more urgent: it is done. Another cause opens another one."""
        await settle_new(store, "c1", message("m1"), now=T0)
        await tell(store, 1, work_order("w1"))
        closed = await store.close_work_order("c1", "w1", now=at(5))
        for second, urgency in ((2, Urgency.ROUTINE), (3, Urgency.EMERGENCY)):
            assert await tell(store, second, work_order("w1", urgency=urgency, opened_at=at(second)))
        assert await ids(store) == []
        assert await store.work_orders(open_only=False, limit=9) == (closed,)
        assert await tell(store, 4, work_order("w1", urgency=Urgency.EMERGENCY), work_order("w2"))
        assert await ids(store) == ["w2"]
        assert await ids(store, open_only=False) == ["w1", "w2"]

    async def test_closing_wins_against_a_reaction_at_the_same_time(self, factory: StoreFactory) -> None:
        """Whichever comes first, it is closed in the end, in every list."""
        async with factory.open() as one, factory.open() as two:
            await settle_new(one, "c1", message("m1"), now=T0)
            for n in range(5):
                await tell(one, 10 * n + 1, work_order(f"w{n}"))
                urgent = work_order(f"w{n}", urgency=Urgency.EMERGENCY)
                closed, stamped = await asyncio.gather(
                    two.close_work_order("c1", f"w{n}", now=at(5)), tell(one, 10 * n + 2, urgent)
                )
                assert closed is not None
                assert (closed.status, stamped) == (Status.CLOSED, True)
            assert await ids(one) == []
            assert sorted(await ids(one, open_only=False)) == [f"w{n}" for n in range(5)]

    async def test_what_is_not_there_is_not_closed(self, store: Store) -> None:
        """Nor is a work order of another conversation."""
        await settle_new(store, "c1", message("m1"), now=T0)
        await settle_new(store, "c2", message("m1"), now=T0)
        await tell(store, 1, work_order("w1"))
        for conversation_id, order_id in (("c1", "w9"), ("c2", "w1"), ("c9", "w1"), ("x" * 300, "w1"), ("c1", "")):
            assert await store.close_work_order(conversation_id, order_id, now=at(2)) is None
        with pytest.raises(InvalidInput):
            await store.close_work_order("c1", "\ud83d", now=at(2))
        assert await ids(store) == ["w1"]
