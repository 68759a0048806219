"""The stages of a layout change: every neighbour agrees with every other, and each way comes to its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn.errors import ConfigError
from afterturn.store.dynamodb.backfill import Pace, Progress
from afterturn.store.dynamodb.layout import MAX_AGE, Layout, LayoutKind, RecencyLayouts, SlotLayout, layouts_item
from afterturn.store.dynamodb.layout_change import (
    LEAST_DRAIN,
    LayoutState,
    Stage,
    check_drain,
    next_state,
    states_until,
)

layouts = st.one_of(
    st.just(Layout()),
    st.just(Layout(LayoutKind.MONTHLY)),
    st.integers(2, 9).map(lambda k: Layout(LayoutKind.SHARDED, k)),
)
SHARDED = Layout.parse("sharded:4")


def spelled(states: list[LayoutState]) -> list[str]:
    return [f"{one.stage}: {one.layouts.read} of {' '.join(map(str, one.layouts.write))}" for one in states]


def test_a_change_drains_before_it_flips() -> None:
    assert spelled(states_until(LayoutState(), SHARDED)) == [
        "both: a/single of a/single b/sharded:4",
        "flipped: b/sharded:4 of a/single b/sharded:4",
        "dropping: b/sharded:4 of b/sharded:4",
        "settled: b/sharded:4 of b/sharded:4",
    ]
    assert states_until(LayoutState(), Layout()) == []


@given(layouts, layouts)
def test_every_stage_agrees_with_its_neighbours_on_every_row(first: Layout, second: Layout) -> None:
    """A process may stand one stage behind: what it reads is written by those ahead, and the other way round."""
    start = states_until(LayoutState(), first)[-1] if first != Layout() else LayoutState()
    for before, after in pairwise([start, *states_until(start, second)]):
        assert before.layouts.read in after.layouts.write
        # What is flipped to was written one stage before already, by all.
        assert after.layouts.read in before.layouts.write


@given(layouts, layouts, st.integers(0, 3))
def test_a_change_that_was_stopped_anywhere_can_be_finished_or_taken_back(
    first: Layout, second: Layout, stopped: int
) -> None:
    states = [LayoutState(), *states_until(LayoutState(), first)]
    state = states[min(stopped, len(states) - 1)]
    for wanted in {first, Layout()}:
        ended = [state, *states_until(state, wanted)][-1]
        assert (ended.stage, ended.layouts.read.layout) == (Stage.SETTLED, wanted)
        assert ended.layouts.write == (ended.layouts.read,)
    if second not in (first, Layout()) and state.unread is not None:
        with pytest.raises(ConfigError, match="being changed between"):
            next_state(state, second)


def test_going_back_after_the_flip_flips_back_before_it_drops() -> None:
    flipped = states_until(LayoutState(), SHARDED)[1]
    assert spelled(states_until(flipped, Layout())) == [
        "flipped: a/single of a/single b/sharded:4",
        "dropping: a/single of a/single",
        "settled: a/single of a/single",
    ]


def test_the_second_change_goes_into_the_first_slot_again() -> None:
    settled = states_until(LayoutState(), SHARDED)[-1]
    assert states_until(settled, Layout.parse("monthly"))[-1].layouts == RecencyLayouts(
        SlotLayout.parse("a/monthly"), (SlotLayout.parse("a/monthly"),)
    )


def test_a_stage_is_known_by_its_item() -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    both = states_until(LayoutState(), SHARDED)[0]
    item = {**layouts_item(both.layouts), "stage": "both", "changedAt": "2026-03-01T00:00:00.000Z", "rev": 1}
    assert LayoutState.of(item) == LayoutState(both.layouts, Stage.BOTH, at, 1)
    assert LayoutState.of(None) == LayoutState()


def test_processes_have_the_time_to_see_a_stage() -> None:
    assert LEAST_DRAIN > 2 * MAX_AGE
    check_drain(LEAST_DRAIN, emulated=False)
    check_drain(timedelta(0), emulated=True)
    with pytest.raises(ConfigError, match="at least 60 s"):
        check_drain(timedelta(seconds=59), emulated=False)


async def test_a_pace_is_kept_and_none_costs_nothing() -> None:
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    pace = Pace(4, clock=lambda: now, sleep=sleep)
    for _ in range(9):
        await pace.take()
    assert now == 2
    for _ in range(9):
        await Pace(clock=lambda: now, sleep=sleep).take()
    assert now == 2


def test_what_is_left_is_told_by_the_speed_of_this_run() -> None:
    now = 100.0
    progress = Progress("stamping", 1_000, looked=400, clock=lambda: now)
    assert progress.seconds_left is None
    now, progress.looked = 110.0, 500
    assert progress.seconds_left == 50
    progress.looked = 2_000
    assert progress.seconds_left == 0
