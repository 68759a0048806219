"""Where the recency index is written and read, followed in the table."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from afterturn.errors import ConfigError, StoreTooNew
from afterturn.store.dynamodb import keys
from afterturn.store.dynamodb.layout import RecencyLayouts, SlotLayout, TableLayouts, layouts_item, layouts_of

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
