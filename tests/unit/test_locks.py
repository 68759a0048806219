"""A lease is somebody's for a while, whatever becomes of who has it, and whatever clocks do."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.channels.channel_rig import ChannelRig, rig

from afterturn.jobs.locks import Locks

__all__ = ["rig"]

SPAN = timedelta(minutes=2)


@pytest.mark.parametrize("ahead", [timedelta(hours=5), timedelta(days=300)])
async def test_who_dies_while_a_clock_is_ahead_keeps_a_lease_for_no_longer(rig: ChannelRig, ahead: timedelta) -> None:
    leases = Locks(rig.backbone.store, rig.clock, "asking")
    rig.clock.advance(ahead)
    assert await leases.acquire("c1", SPAN) is not None
    rig.clock.advance(-ahead)
    assert await leases.acquire("c1", SPAN) is not None
    assert await leases.acquire("c1", SPAN) is None


async def test_clocks_that_differ_a_little_take_a_lease_from_nobody(rig: ChannelRig) -> None:
    leases = Locks(rig.backbone.store, rig.clock, "asking")
    assert await leases.acquire("c1", SPAN) is not None
    rig.clock.advance(-SPAN / 2)
    assert await leases.acquire("c1", SPAN) is None
    rig.clock.advance(SPAN)
    assert await leases.acquire("c1", SPAN) is None
    rig.clock.advance(SPAN / 2)
    assert await leases.acquire("c1", SPAN) is not None
