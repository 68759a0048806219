"""A lease is somebody's for a while, whatever becomes of who has it, and whatever clocks do."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.channels.test_ingest import House, house

from afterturn.jobs.locks import Locks

__all__ = ["house"]

SPAN = timedelta(minutes=2)


@pytest.mark.parametrize("ahead", [timedelta(hours=5), timedelta(days=300)])
async def test_who_dies_while_a_clock_is_ahead_keeps_a_lease_for_no_longer(house: House, ahead: timedelta) -> None:
    leases = Locks(house.backbone.store, house.clock, "asking")
    house.clock.advance(ahead)
    assert await leases.acquire("c1", SPAN) is not None
    house.clock.advance(-ahead)
    assert await leases.acquire("c1", SPAN) is not None
    assert await leases.acquire("c1", SPAN) is None


async def test_clocks_that_differ_a_little_take_a_lease_from_nobody(house: House) -> None:
    leases = Locks(house.backbone.store, house.clock, "asking")
    assert await leases.acquire("c1", SPAN) is not None
    house.clock.advance(-SPAN / 2)
    assert await leases.acquire("c1", SPAN) is None
    house.clock.advance(SPAN)
    assert await leases.acquire("c1", SPAN) is None
    house.clock.advance(SPAN / 2)
    assert await leases.acquire("c1", SPAN) is not None
