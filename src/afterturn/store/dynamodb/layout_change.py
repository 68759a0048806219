"""A change of the recency index's layout: drain before flip.

::

    settled   read old, write old         the new slot's index is made
    both      read old, write both        wait; stamp old rows; verify the new slot
    flipped   read new, write both        wait; verify again
    dropping  read new, write new         wait; take the old keys off the rows
    settled   read new, write new

The stage stands in the item that writers and readers follow, and is written on the condition that nobody else moved it.
Before a stage is left, all processes have had the time to see it: so at any moment they stand at one stage or at two
neighbouring ones, and in both of those every row is where either reads. Each stage can be done twice, so whoever is
stopped goes on from the stage that is written down.
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
from afterturn.store.dynamodb.layout import MAX_AGE, Layout, RecencyLayouts, Slot, SlotLayout, layouts_item, layouts_of
from afterturn.store.dynamodb.requests import Plain, put, unchanged
from afterturn.store.dynamodb.table import Table, WriteConflict
from afterturn.store.dynamodb.verify import IndexReport, Rechecks, verify

DRAIN = timedelta(minutes=3)
"""Longer than a process acts on what it has read (20 s) and than a write may take that it has begun."""

LEAST_DRAIN = 3 * MAX_AGE
"""What is accepted where it is not an emulator."""

_STAMPINGS = 3
"""How often rows are stamped until the new slot is found to be whole."""


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
    """Where a table stands. ``changed_at``: since when; ``rev`` counts its changes."""

    layouts: RecencyLayouts = field(default_factory=RecencyLayouts)
    stage: Stage = Stage.SETTLED
    changed_at: datetime | None = None
    rev: int | None = None

    @classmethod
    def of(cls, item: Plain | None) -> LayoutState:
        if item is None:
            return cls()
        stage = Stage(item.get("stage") or Stage.SETTLED)
        return cls(layouts_of(item), stage, rows.time_or_none(item.get("changedAt")), item.get("rev"))

    @property
    def unread(self) -> SlotLayout | None:
        """What is written beside what is read."""
        return next((one for one in self.layouts.write if one != self.layouts.read), None)

    def to_json(self) -> dict[str, Any]:
        return {
            **layouts_item(self.layouts),
            "stage": self.stage.value,
            "changedAt": None if self.changed_at is None else to_text(self.changed_at),
        }


def read_layout(text: str) -> Layout:
    """``single``, ``monthly`` or ``sharded:16``; raises ConfigError."""
    return Layout.parse(text)


def check_drain(drain: timedelta, *, emulated: bool) -> None:
    """Raise ConfigError for a time in which not every process would have seen a stage."""
    if drain < LEAST_DRAIN and not emulated:
        raise ConfigError(f"--drain: processes need at least {LEAST_DRAIN.total_seconds():.0f} s to see a stage")


def next_state(state: LayoutState, wanted: Layout) -> LayoutState | None:
    """The state that comes next on the way to a layout, pure; None at its end.

    Wanting the old layout back is a way like any other. Raises ConfigError while a change to a third one is under way.
    """
    read, stage, other = state.layouts.read, state.stage, state.unread
    if stage is Stage.DROPPING:
        return replace(state, stage=Stage.SETTLED)
    if other is not None:
        if wanted not in (read.layout, other.layout):
            raise ConfigError(
                f"the layout is being changed between {read} and {other}; first finish that with "
                f"`afterturn aws layout change {other.layout}`, or go back with `… change {read.layout}`"
            )
        if wanted == read.layout:
            return replace(state, layouts=RecencyLayouts(read, (read,)), stage=Stage.DROPPING)
        return replace(state, layouts=RecencyLayouts(other, state.layouts.write), stage=Stage.FLIPPED)
    if wanted == read.layout:
        return None
    new = SlotLayout(wanted, Slot.B if read.slot is Slot.A else Slot.A)
    return replace(state, layouts=RecencyLayouts(read, (read, new)), stage=Stage.BOTH)


def states_until(state: LayoutState, wanted: Layout) -> list[LayoutState]:
    """All states that are still to come."""
    found = []
    while (after := next_state(state, wanted)) is not None:
        found.append(after)
        state = after
    return found


@dataclass(frozen=True, slots=True)
class LayoutChangePlan:
    """How a change goes about it. ``until``: the stage that it ends with, all that belongs to it done. ``drain``: how
    long processes are given to see a stage."""

    until: Stage = Stage.SETTLED
    drain: timedelta = DRAIN
    way: BackfillOptions = field(default_factory=lambda: BackfillOptions(write=True))
    looks: Rechecks = field(default_factory=Rechecks)
    clock: Clock = system_clock
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class LayoutIncomplete(StoreBusy):
    """The new slot does not hold what the table says, however often it is stamped. Nothing was flipped."""

    def __init__(self, verdict: IndexReport) -> None:
        names = ", ".join(f"{one.name} ({one.drift})" for one in verdict.differences[:5])
        super().__init__(
            f"{verdict.index} holds {verdict.indexed} of {verdict.wanted} rows after {_STAMPINGS} rounds, so the "
            f"reader stays where it is; first: {names}. Does an older version still write? Run it again when it is gone"
        )
        self.verdict = verdict


class LayoutChange:
    """``told`` is called with each stage, ``progress`` with the rows done so far."""

    def __init__(
        self,
        table: Table,
        indexes: TableIndexes,
        manner: LayoutChangePlan | None = None,
        *,
        told: Callable[[LayoutState, str], None] = lambda state, doing: None,
        progress: ReportProgress | None = None,
    ) -> None:
        self._table = table
        self._indexes = indexes
        self._manner = manner or LayoutChangePlan()
        self._told = told
        self._progress = progress

    async def state(self) -> LayoutState:
        return LayoutState.of(await self._table.get(keys.layout()))

    async def carry_out(self, wanted: Layout) -> LayoutState:
        """Go all of the way, or up to ``until``; returns where that ended.

        Raises ConfigError for a way that cannot be gone, Unfit, and StoreBusy where somebody else changes the layout.
        """
        state = await self.state()
        while (after := next_state(state, wanted)) is not None:
            await self._finish(state, after)
            if state.stage.is_at_or_past(self._manner.until):
                break
            if after.stage is Stage.BOTH:
                await self._have_index(after)
            state = await self._enter(state, after)
        return state

    async def _finish(self, state: LayoutState, after: LayoutState) -> None:
        """What has to be so before the next stage: all have seen this one, and what is to be read is whole.

        What was read all along, and is read on, is not looked at.
        """
        if state.stage is not Stage.SETTLED:
            await self._drain(state)
        if state.stage is Stage.DROPPING:
            await self._drop(state)
        elif state.stage is Stage.FLIPPED or after.stage is Stage.FLIPPED:
            await self._make_whole(state, after.layouts.read)

    async def _drain(self, state: LayoutState) -> None:
        if state.changed_at is None:
            return
        left = (state.changed_at + self._manner.drain - self._manner.clock()).total_seconds()
        if left > 0:
            self._told(state, f"waiting {left:.0f} s until every process has seen it")
            await self._manner.sleep(min(left, self._manner.drain.total_seconds()))

    async def _make_whole(self, state: LayoutState, slot_layout: SlotLayout) -> None:
        target = IndexTarget(slot_layout.slot.table_index, slot_layout)
        for attempt in range(_STAMPINGS):
            if state.stage is Stage.BOTH or attempt:
                self._told(state, f"stamping rows for {slot_layout}")
                await backfill(self._table, target, self._manner.way, total=await self._total(), told=self._progress)
            self._told(state, f"verifying {slot_layout}")
            verdict = await verify(
                self._table,
                target,
                total=await self._total(),
                page=self._manner.way.page,
                looks=self._manner.looks,
                told=self._progress,
            )
            if verdict.clean:
                return
        raise LayoutIncomplete(verdict)

    async def _drop(self, state: LayoutState) -> None:
        """Take the keys of the slot that nobody reads or writes off the rows; the second index goes with them."""
        slot = Slot.B if state.layouts.read.slot is Slot.A else Slot.A
        self._told(state, f"taking the old keys off the rows (slot {slot})")
        target = IndexTarget(slot.table_index)
        await backfill(self._table, target, self._manner.way, total=await self._total(), told=self._progress)
        if slot.table_index is RECENCY_B:
            self._told(state, f"deleting index {RECENCY_B.name}")
            await self._indexes.remove(RECENCY_B)

    async def _have_index(self, after: LayoutState) -> None:
        assert after.unread is not None
        index = after.unread.slot.table_index
        self._told(after, f"waiting for index {index.name}")
        await self._indexes.add(index)

    async def _enter(self, state: LayoutState, after: LayoutState) -> LayoutState:
        item = {
            "kind": "recency layout",
            **layouts_item(after.layouts),
            "stage": after.stage.value,
            "changedAt": to_text(self._manner.clock()),
            "rev": (state.rev or 0) + 1,
        }
        entered = LayoutState.of(item)
        try:
            await self._table.write(put(keys.layout(), item, unchanged("rev", value=state.rev)))
        except WriteConflict:
            if await self.state() != entered:  # else it was our own write, whose answer was lost
                raise StoreBusy("somebody else is changing the layout; see `afterturn aws layout show`") from None
        self._told(entered, "entered")
        return entered

    async def _total(self) -> int | None:
        return await self._indexes.item_count()
