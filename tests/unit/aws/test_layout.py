"""Recency layouts: every row has its place, and every read finds it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn.errors import ConfigError
from afterturn.store.dynamodb import keys
from afterturn.store.dynamodb.layout import Layout, LayoutKind, RecencyLayouts, Slot, SlotLayout, month_of
from afterturn.store.dynamodb.reader import PartitionRows, merge
from afterturn.store.dynamodb.requests import Plain

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

        async def fetch(wanted: int, start: Any) -> tuple[list[Plain], Any]:
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
