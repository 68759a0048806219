"""Recency layouts: every row has its place, and every read finds it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn.errors import ConfigError, StoreTooNew
from afterturn.store.dynamodb import keys
from afterturn.store.dynamodb.backfill import Pace, Progress
from afterturn.store.dynamodb.layout import (
    MAX_AGE,
    Layout,
    LayoutKind,
    RecencyLayouts,
    Slot,
    SlotLayout,
    TableLayouts,
    layouts_item,
    layouts_of,
    month_of,
)
from afterturn.store.dynamodb.layout_change import (
    LEAST_DRAIN,
    LayoutState,
    Stage,
    check_drain,
    next_state,
    states_until,
)
from afterturn.store.dynamodb.reader import PartitionRows, merge
from afterturn.store.dynamodb.requests import Attributes

layouts = st.one_of(
    st.just(Layout()),
    st.just(Layout(LayoutKind.MONTHLY)),
    st.integers(2, 9).map(lambda k: Layout(LayoutKind.SHARDED, k)),
)
times = st.integers(0, 200).map(lambda days: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=days))
fleet = st.dictionaries(st.text("abc#é", min_size=1, max_size=4), times, max_size=40)
pages = st.lists(st.integers(0, 7), min_size=1, max_size=5)


class FakePartitions:
    """Partitions in memory, with pages of odd sizes: also empty ones that are not the last."""

    def __init__(self, layout: Layout, rows: dict[str, datetime], sizes: Sequence[int]) -> None:
        self.layout = layout
        self.months = {month_of(at) for at in rows.values()}
        self.read: defaultdict[str, int] = defaultdict(int)
        self._sizes = sizes
        self._calls = 0
        self._partitions: defaultdict[str, list[str]] = defaultdict(list)
        for name, at in rows.items():
            self._partitions[layout.partition(at, name)].append(keys.recency(at, name))

    async def read_newest(
        self, limit: int, since: datetime | None = None, until: datetime | None = None
    ) -> tuple[list[str], bool]:
        groups = self.layout.groups(since, until, self.months)
        found, exhausted = await merge([[self._source(one, since, until) for one in group] for group in groups], limit)
        return [row["key"] for row in found], exhausted

    def _source(self, partition: str, since: datetime | None, until: datetime | None) -> PartitionRows:
        low, high = keys.recency(since, "") if since else "", keys.recency(until, "") if until else "~"
        rows = sorted((row for row in self._partitions[partition] if low <= row < high), reverse=True)

        async def fetch(wanted: int, start: Any) -> tuple[list[Attributes], Any]:
            assert wanted >= 1
            self._calls += 1
            size = min(wanted, self._sizes[self._calls % len(self._sizes)] if self._calls % 3 else wanted)
            first = start or 0
            self.read[partition] += size
            page = rows[first : first + size]
            return [{"key": row} for row in page], first + size if first + size < len(rows) else None

        return PartitionRows(fetch, "key")


@given(layouts, fleet, pages, st.integers(0, 60))
async def test_every_layout_reads_the_newest_rows_in_order(
    layout: Layout, rows: dict[str, datetime], sizes: list[int], limit: int
) -> None:
    expected = sorted((keys.recency(at, name) for name, at in rows.items()), reverse=True)
    found, exhausted = await FakePartitions(layout, rows, sizes).read_newest(limit)
    assert found == expected[:limit]
    if exhausted:
        assert len(expected) <= limit
    if len(expected) < limit:
        assert exhausted


@given(layouts, fleet, pages, times, times)
async def test_every_layout_finds_all_rows_of_a_window(
    layout: Layout, rows: dict[str, datetime], sizes: list[int], since: datetime, until: datetime
) -> None:
    expected = sorted((keys.recency(at, name) for name, at in rows.items() if since <= at < until), reverse=True)
    assert await FakePartitions(layout, rows, sizes).read_newest(100, since, until) == (expected, True)


@given(layouts, st.text(min_size=1, max_size=20), times)
def test_a_row_is_in_exactly_one_partition(layout: Layout, name: str, at: datetime) -> None:
    partitions = [one for group in layout.groups(None, None, {month_of(at), "2025-01"}) for one in group]
    assert len(set(partitions)) == len(partitions)
    assert layout.partition(at, name) in partitions


def test_a_page_reads_little_more_than_itself() -> None:
    """Lazily: no month but the newest, and of each shard only its part."""

    async def read(layout: Layout) -> dict[str, int]:
        rows = {f"c{n}": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(4000)}
        partitions = FakePartitions(layout, rows, [50])
        await partitions.read_newest(50)
        return dict(partitions.read)

    import asyncio

    assert asyncio.run(read(Layout())) == {"CONV_RECENCY": 50}
    assert asyncio.run(read(Layout(LayoutKind.MONTHLY))) == {"CONV_RECENCY#2026-06": 50}
    sharded = asyncio.run(read(Layout(LayoutKind.SHARDED, 8)))
    assert len(sharded) == 8
    assert sum(sharded.values()) <= 150


def test_months_go_from_newest_to_oldest() -> None:
    groups = Layout(LayoutKind.MONTHLY).groups(
        datetime(2026, 2, 28, tzinfo=UTC),
        datetime(2026, 11, 1, tzinfo=UTC),
        ["2026-12", "2026-02", "2026-11", "2026-01"],
    )
    assert groups == [["CONV_RECENCY#2026-11"], ["CONV_RECENCY#2026-02"]]


def test_the_partitions_are_those_of_the_table_on_disk() -> None:
    """Stored rows depend on them: a change of any would hide every row."""
    at = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC)
    assert Layout().partition(at, "c1") == "CONV_RECENCY"
    assert Layout(LayoutKind.MONTHLY).partition(at, "c1") == "CONV_RECENCY#2026-11"
    assert [Layout(LayoutKind.SHARDED, 16).partition(at, f"c{n}") for n in range(4)] == [
        "CONV_RECENCY#s15",
        "CONV_RECENCY#s14",
        "CONV_RECENCY#s13",
        "CONV_RECENCY#s6",
    ]


def test_shards_are_evenly_filled() -> None:
    counts: defaultdict[str, int] = defaultdict(int)
    for number in range(16_000):
        counts[
            Layout(LayoutKind.SHARDED, 16).partition(datetime(2026, 1, 1, tzinfo=UTC), f"conversation-{number}")
        ] += 1
    assert len(counts) == 16
    assert all(800 < count < 1200 for count in counts.values())


@given(times, st.text(min_size=1, max_size=20), layouts, layouts)
def test_two_layouts_are_written_at_once_without_touching_each_other(
    at: datetime, name: str, old: Layout, new: Layout
) -> None:
    """Drain before flip: from the first write on, a row is where the old reader and where the new reader looks."""
    before, after = SlotLayout(old, Slot.A), SlotLayout(new, Slot.B)
    both = RecencyLayouts(read=before, write=(before, after)).keys(at, name)
    assert both == RecencyLayouts(before, (before,)).keys(at, name) | RecencyLayouts(after, (after,)).keys(at, name)
    assert set(both) == {"GSI5PK", "GSI5SK", "GSI8PK", "GSI8SK"}


@pytest.mark.parametrize("text", ["single", "monthly", "sharded:2", "sharded:256"])
def test_a_layout_is_named_as_it_prints(text: str) -> None:
    assert str(Layout.parse(text)) == text
    assert str(SlotLayout.parse(text)) == f"a/{text}"
    assert SlotLayout.parse(f"b/{text}") == SlotLayout(Layout.parse(text), Slot.B)


@pytest.mark.parametrize(
    "text",
    ["", "double", "sharded", "sharded:1", "sharded:257", "sharded:x", "sharded:-2", "single:2", "c/single", "/single"],
)
def test_no_other_layout_is_taken(text: str) -> None:
    with pytest.raises(ConfigError):
        SlotLayout.parse(text)


def test_a_reader_never_reads_what_is_not_written() -> None:
    with pytest.raises(ConfigError, match="not written"):
        RecencyLayouts(read=SlotLayout.parse("b/single"))
    with pytest.raises(ConfigError, match="one slot"):
        RecencyLayouts(write=(SlotLayout(), SlotLayout.parse("a/monthly")))


def test_months_sort_as_their_rows() -> None:
    months = [month_of(datetime(year, month, 1, tzinfo=UTC)) for year in (1970, 2026, 9999) for month in range(1, 13)]
    assert all(one < other for one, other in pairwise(months))


BOTH = RecencyLayouts(SlotLayout(), (SlotLayout(), SlotLayout.parse("b/sharded:4")))


class Item:
    """A table that has at most the item of the layout."""

    def __init__(self) -> None:
        self.item: dict[str, Any] | None = None
        self.reads = 0

    async def get(self, key: keys.Key) -> dict[str, Any] | None:
        assert key == keys.layout()
        self.reads += 1
        await asyncio.sleep(0)
        return self.item


async def test_a_change_is_seen_when_what_was_read_is_too_old_and_costs_nothing_before() -> None:
    table, now = Item(), [0.0, 1_000.0]
    live = TableLayouts(table, max_age=timedelta(seconds=20), clocks=lambda: (now[0], now[1]))  # type: ignore[arg-type]
    assert await live.current() == RecencyLayouts()
    table.item = layouts_item(BOTH)
    now[0] += 19.9
    assert await live.current() == RecencyLayouts()
    now[0] += 0.2
    assert set(await asyncio.gather(*(live.current() for _ in range(5)))) == {BOTH}
    assert table.reads == 2


async def test_a_process_that_was_frozen_looks_again() -> None:
    """Its own clock stood still; and a wall clock that steps back makes nothing young again."""
    table, now = Item(), [0.0, 1_000.0]
    live = TableLayouts(table, max_age=timedelta(seconds=20), clocks=lambda: (now[0], now[1]))  # type: ignore[arg-type]
    await live.current()
    now[1] += 3_600
    await live.current()
    now[0], now[1] = now[0] + 30, now[1] - 7_200
    await live.current()
    assert table.reads == 3


def test_placements_come_back_as_they_were_written() -> None:
    for layouts in (RecencyLayouts(), BOTH, RecencyLayouts(BOTH.write[1], BOTH.write)):
        assert layouts_of(layouts_item(layouts)) == layouts


@pytest.mark.parametrize(
    "item", [{"read": "a/spiral", "write": ["a/spiral"]}, {"read": "b/single", "write": ["a/single"]}]
)
def test_a_layout_of_a_newer_version_is_refused(item: dict[str, Any]) -> None:
    """Rather than writing rows where no reader looks."""
    with pytest.raises(StoreTooNew, match="newer afterturn") as told:
        layouts_of(item)
    assert isinstance(told.value.__cause__, ConfigError)


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
