"""Changes the layout of the recency index: drain before flip.

::

    settled   read old, write old         the new slot's index is made
    both      read old, write both        wait; stamp old rows; verify the new slot
    flipped   read new, write both        wait; verify again
    dropping  read new, write new         wait; take the old keys off the rows
    settled   read new, write new

The stage is in the item that writers and readers follow, and is written on the condition that nobody else changed it.
A stage is left only after all processes had the time to see it. So at any moment they are at one stage or at two
neighbouring ones, and in both of those every row is where either reads. Each stage can be repeated, so a change that
was stopped continues from the stored stage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from afterturn.aws.indexes import TableIndexes
from afterturn.aws.table import RECENCY_B
from afterturn.clock import Clock, system_clock, to_text
from afterturn.errors import ConfigError, StoreBusy
from afterturn.store.dynamodb import keys, rows
from afterturn.store.dynamodb.backfill import BackfillOptions, ReportProgress, backfill
from afterturn.store.dynamodb.index_keys import IndexTarget
from afterturn.store.dynamodb.layout import MAX_AGE, Layout, RecencyLayouts, SlotLayout, layouts_item, layouts_of
from afterturn.store.dynamodb.requests import Attributes, put, unchanged
from afterturn.store.dynamodb.table import Table, WriteConflict
from afterturn.store.dynamodb.verify import IndexReport, Rechecks, verify

DRAIN = timedelta(minutes=3)
"""Longer than a process uses layouts that it has read (20 s), and than a write takes."""

LEAST_DRAIN = 3 * MAX_AGE
"""The shortest one that is accepted, except for an emulator."""

_MAX_ROUNDS = 3
"""How often rows are stamped until the new slot is complete."""


class Stage(StrEnum):
    SETTLED = "settled"
    BOTH = "both"
    FLIPPED = "flipped"
    DROPPING = "dropping"

    def is_at_or_past(self, last: Stage) -> bool:
        """Whether a change that ends with ``last`` goes no further."""
        order = [Stage.BOTH, Stage.FLIPPED, Stage.DROPPING]
        return self in order and last in order and order.index(self) >= order.index(last)


@dataclass(frozen=True, slots=True)
class LayoutState:
    """The stage of a table. ``changed_at``: since when; ``rev`` counts its changes."""

    layouts: RecencyLayouts = field(default_factory=RecencyLayouts)
    stage: Stage = Stage.SETTLED
    changed_at: datetime | None = None
    rev: int | None = None

    @classmethod
    def of(cls, item: Attributes | None) -> LayoutState:
        if item is None:
            return cls()
        stage = Stage(item.get("stage") or Stage.SETTLED)
        return cls(layouts_of(item), stage, rows.time_or_none(item.get("changedAt")), item.get("rev"))

    @property
    def unread(self) -> SlotLayout | None:
        """The layout that is written but not read."""
        return next((layout for layout in self.layouts.write if layout != self.layouts.read), None)

    def to_json(self) -> dict[str, Any]:
        return {
            **layouts_item(self.layouts),
            "stage": self.stage.value,
            "changedAt": None if self.changed_at is None else to_text(self.changed_at),
        }


def check_drain(drain: timedelta, *, emulated: bool) -> None:
    """Raise ConfigError for a time in which not every process would have seen a stage."""
    if drain < LEAST_DRAIN and not emulated:
        raise ConfigError(f"--drain: processes need at least {LEAST_DRAIN.total_seconds():.0f} s to see a stage")


def next_state(state: LayoutState, target: Layout) -> LayoutState | None:
    """The next state of a change to a layout; None at its end. Pure.

    The old layout is a target like any other. Raises ConfigError while a change to a third one is under way.
    """
    read, stage, other = state.layouts.read, state.stage, state.unread
    if stage is Stage.DROPPING:
        return replace(state, stage=Stage.SETTLED)
    if other is not None:
        if target not in (read.layout, other.layout):
            raise ConfigError(
                f"the layout is being changed between {read} and {other}; first finish that with "
                f"`afterturn aws layout change {other.layout}`, or go back with `… change {read.layout}`"
            )
        if target == read.layout:
            return replace(state, layouts=RecencyLayouts(read, (read,)), stage=Stage.DROPPING)
        return replace(state, layouts=RecencyLayouts(other, state.layouts.write), stage=Stage.FLIPPED)
    if target == read.layout:
        return None
    new = SlotLayout(target, read.slot.other)
    return replace(state, layouts=RecencyLayouts(read, (read, new)), stage=Stage.BOTH)


def states_until(state: LayoutState, target: Layout) -> list[LayoutState]:
    """All states that are still to come."""
    states = []
    while (after := next_state(state, target)) is not None:
        states.append(after)
        state = after
    return states


@dataclass(frozen=True, slots=True)
class LayoutChangeOptions:
    """``until``: the stage at which the change ends, with all of its work done. ``drain``: how long processes get to
    see a stage."""

    until: Stage = Stage.SETTLED
    drain: timedelta = DRAIN
    backfill: BackfillOptions = field(default_factory=lambda: BackfillOptions(write=True))
    rechecks: Rechecks = field(default_factory=Rechecks)
    clock: Clock = system_clock
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class LayoutIncomplete(StoreBusy):
    """The new slot does not hold what the table says, however often it is stamped. Nothing was flipped."""

    def __init__(self, report: IndexReport) -> None:
        names = ", ".join(f"{each.name} ({each.drift})" for each in report.differences[:5])
        super().__init__(
            f"{report.index} holds {report.indexed} of {report.expected} rows after {_MAX_ROUNDS} rounds, so readers "
            f"keep the old layout; first: {names}. Does an older version still write? Run it again when it is gone"
        )
        self.report = report


class LayoutChange:
    """Changes a table's layout.

    ``report`` is called with each stage and what is done in it, ``progress`` with the rows done so far.
    """

    def __init__(
        self,
        table: Table,
        indexes: TableIndexes,
        options: LayoutChangeOptions | None = None,
        *,
        report: Callable[[LayoutState, str], None] = lambda state, activity: None,
        progress: ReportProgress = lambda progress: None,
    ) -> None:
        self._table = table
        self._indexes = indexes
        self._options = options or LayoutChangeOptions()
        self._report = report
        self._progress = progress

    async def state(self) -> LayoutState:
        return LayoutState.of(await self._table.get(keys.layout()))

    async def carry_out(self, target: Layout) -> LayoutState:
        """Change to a layout, or up to the stage ``until``; returns the state at the end.

        Raises ConfigError for a change that is not possible now, LayoutIncomplete, and StoreBusy if somebody else
        changes the layout.
        """
        state = await self.state()
        while (after := next_state(state, target)) is not None:
            await self._finish(state, after)
            if state.stage.is_at_or_past(self._options.until):
                break
            if after.unread is not None and after.stage is Stage.BOTH:
                index = after.unread.slot.table_index
                self._report(after, f"waiting for index {index.name}")
                await self._indexes.add(index)
            state = await self._enter(state, after)
        return state

    async def _finish(self, state: LayoutState, after: LayoutState) -> None:
        """Make the next stage possible: all have seen this one, and the slot that will be read is complete.

        A slot that was read all the time, and will be read on, is not verified.
        """
        if state.stage is not Stage.SETTLED and state.changed_at is not None:
            remaining = (state.changed_at + self._options.drain - self._options.clock()).total_seconds()
            if remaining > 0:
                self._report(state, f"waiting {remaining:.0f} s until every process has seen it")
                await self._options.sleep(min(remaining, self._options.drain.total_seconds()))
        if state.stage is Stage.DROPPING:
            await self._drop(state)
        elif state.stage is Stage.FLIPPED or after.stage is Stage.FLIPPED:
            await self._complete(state, after.layouts.read)

    async def _complete(self, state: LayoutState, slot_layout: SlotLayout) -> None:
        target = IndexTarget(slot_layout.slot.table_index, slot_layout)
        for attempt in range(_MAX_ROUNDS):
            if state.stage is Stage.BOTH or attempt:
                self._report(state, f"stamping rows for {slot_layout}")
                await self._backfill(target)
            self._report(state, f"verifying {slot_layout}")
            report = await verify(
                self._table,
                target,
                total=await self._indexes.item_count(),
                page=self._options.backfill.page,
                rechecks=self._options.rechecks,
                report=self._progress,
            )
            if report.clean:
                return
        raise LayoutIncomplete(report)

    async def _drop(self, state: LayoutState) -> None:
        """Remove the rows' keys of the slot that nobody reads or writes, and the second index if it is that slot."""
        slot = state.layouts.read.slot.other
        self._report(state, f"taking the old keys off the rows (slot {slot})")
        await self._backfill(IndexTarget(slot.table_index))
        if slot.table_index is RECENCY_B:
            self._report(state, f"deleting index {RECENCY_B.name}")
            await self._indexes.remove(RECENCY_B)

    async def _backfill(self, target: IndexTarget) -> None:
        total = await self._indexes.item_count()
        await backfill(self._table, target, self._options.backfill, total=total, report=self._progress)

    async def _enter(self, state: LayoutState, after: LayoutState) -> LayoutState:
        item = {
            "kind": "recency layout",
            **layouts_item(after.layouts),
            "stage": after.stage.value,
            "changedAt": to_text(self._options.clock()),
            "rev": (state.rev or 0) + 1,
        }
        entered = LayoutState.of(item)
        try:
            await self._table.write(put(keys.layout(), item, unchanged("rev", value=state.rev)))
        except WriteConflict:
            if await self.state() != entered:  # else it was our own write, whose response was lost
                raise StoreBusy("somebody else is changing the layout; see `afterturn aws layout show`") from None
        self._report(entered, "entered")
        return entered
