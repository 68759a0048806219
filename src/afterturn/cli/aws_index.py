"""``aws index`` and ``aws layout``: the indexes of a lane's table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

import typer

from afterturn.aws.account import LaneTarget, open_table
from afterturn.aws.indexes import IndexAction, IndexProgress, IndexState, TableIndexes, find_index
from afterturn.aws.stack import Patience
from afterturn.cli.aws_options import Confirm, Meter, PageSize, Rate, Timeout, confirm, run, seconds, with_lane
from afterturn.cli.exits import Exit
from afterturn.cli.options import Json
from afterturn.cli.output import facts, note, table, write_json
from afterturn.store.dynamodb import backfill, layout_change, verify
from afterturn.store.dynamodb.backfill import Pace, Problem, Tally, Through
from afterturn.store.dynamodb.index_keys import IndexTarget
from afterturn.store.dynamodb.layout import Layout
from afterturn.store.dynamodb.layout_change import LayoutState, Stage
from afterturn.store.dynamodb.table import Table
from afterturn.store.dynamodb.verify import IndexReport

IndexName = Annotated[str, typer.Argument(metavar="INDEX", help="Its name; `afterturn aws index list` lists them.")]
ThroughOption = Annotated[
    Through,
    typer.Option(
        "--through",
        metavar="WAY",
        help="How rows are found: scan reads the whole table; entity-index reads conversations only, and misses those "
        "that are not in that index.",
    ),
]


class Until(StrEnum):
    BOTH = "both"
    FLIPPED = "flipped"
    SETTLED = "settled"


index = typer.Typer(help="Indexes of the table.", no_args_is_help=True)
layout = typer.Typer(help="How the recency index is spread over partitions.", no_args_is_help=True)

_DONE = {
    IndexAction.CREATE: "created and ready",
    IndexAction.WAIT: "ready",
    IndexAction.NOTHING: "nothing; it was ready",
}


@asynccontextmanager
async def _open(lane: LaneTarget, patience: Patience | None = None) -> AsyncIterator[tuple[TableIndexes, Table, bool]]:
    async with open_table(lane) as account:
        indexes = TableIndexes(account, lane.names, patience)
        yield indexes, Table(account.dynamodb, lane.names.table), account.emulated


@index.command("list")
@with_lane
def list_(ctx: typer.Context, json_: Json = False, *, lane: LaneTarget) -> None:
    """List the indexes that the table needs, their state, and any other index that it has."""

    async def work() -> tuple[IndexState, ...]:
        async with _open(lane) as (indexes, _, _):
            return await indexes.states()

    states = run(work())
    if json_:
        write_json({"table": lane.names.table, "indexes": [each.to_json() for each in states]})
        return
    table(("INDEX", "STATE", "HOLDS", "ITEMS"), [(each.name, each.state, each.holds, each.items) for each in states])
    for each in states:
        if each.state == "missing":
            note(f"`afterturn aws index add {each.name}` creates it.")


@index.command("add")
@with_lane
def add(ctx: typer.Context, name: IndexName, timeout: Timeout = "1h", json_: Json = False, *, lane: LaneTarget) -> None:
    """Add an index and wait until it is ready.

    AWS creates one index at a time, and continues with it if this command is stopped: run it again to wait on.
    """
    chosen = find_index(name)
    patience = Patience(seconds("--timeout", timeout))

    async def work() -> IndexAction:
        async with _open(lane, patience) as (indexes, _, _):
            return await indexes.add(chosen, _report_progress)

    action = run(work())
    if json_:
        write_json({"index": name, "table": lane.names.table, "action": action.value, "ready": True})
    else:
        facts([("index", name), ("table", lane.names.table), ("done", _DONE[action])])
        note(f"It contains rows that have its keys: `afterturn aws index backfill {name}` stamps old rows.")


def _report_progress(progress: IndexProgress) -> None:
    state = f"{progress.status}, backfilling" if progress.backfilling else progress.status
    note(f"index {progress.index}: {state}, after {progress.waited:.0f} s")


@index.command("backfill")
@with_lane
def backfill_(
    ctx: typer.Context,
    name: IndexName,
    confirm_table: Confirm = None,
    through: ThroughOption = Through.SCAN,
    rate: Rate = None,
    page: PageSize = 1_000,
    restart: Annotated[
        bool, typer.Option("--restart", metavar="", help="Start again instead of continuing a stopped run.")
    ] = False,
    json_: Json = False,
    *,
    lane: LaneTarget,
) -> None:
    """Give old rows the keys of an index, while the table is in use.

    Only key attributes are written, and only to rows that have not changed since they were read, so no live write is
    undone. A stopped run continues when it is run again. Rows without a time are listed; exits 1 if there are any.
    """
    chosen = find_index(name)
    write = confirm(lane.names.table, confirm_table)
    options = backfill.BackfillOptions(write=write, through=through, pace=Pace(rate), page=page, resume=not restart)

    async def work() -> Tally:
        async with _open(lane) as (indexes, opened, _):
            target = IndexTarget.of(chosen, await backfill.layout(opened))
            meter = Meter()
            try:
                return await backfill.backfill(opened, target, options, total=await indexes.item_count(), report=meter)
            finally:
                meter.end()

    tally = run(work())
    if json_:
        write_json({"index": name, "table": lane.names.table, "dryRun": not write, **tally.to_json()})
    else:
        _print_problems(tally.problems)
        facts(
            [
                ("rows", tally.rows),
                ("correct before", tally.right),
                ("stamped" if write else "to stamp", tally.stamped),
                ("deleted meanwhile", tally.gone),
                ("without keys", tally.problem_count),
            ]
        )
        if not write:
            note(f"Nothing was written; --confirm-table {lane.names.table} writes.")
    raise typer.Exit(Exit.FAILED if tally.problem_count else Exit.OK)


@index.command("verify")
@with_lane
def verify_(
    ctx: typer.Context,
    name: IndexName,
    through: ThroughOption = Through.SCAN,
    page: PageSize = 1_000,
    json_: Json = False,
    *,
    lane: LaneTarget,
) -> None:
    """Compare an index with the table, row by row. Exits 3 if they differ, and lists the differences."""
    chosen = find_index(name)

    async def work() -> IndexReport:
        async with _open(lane) as (indexes, opened, _):
            target = IndexTarget.of(chosen, await backfill.layout(opened))
            total = await indexes.item_count()
            meter = Meter()
            try:
                return await verify.verify(opened, target, through=through, total=total, page=page, report=meter)
            finally:
                meter.end()

    report = run(work())
    if json_:
        write_json({"table": lane.names.table, **report.to_json()})
    else:
        _print_problems(report.problems)
        if report.differences:
            table(("ROW", "DRIFT"), [(each.name, each.drift.value) for each in report.differences])
            print()
        facts(
            [
                ("rows of the table", report.rows),
                ("without keys", len(report.problems)),
                ("expected in the index", report.expected),
                ("correct in the index", report.indexed),
                ("differences", len(report.differences)),
            ]
        )
        if not report.clean:
            note(f"`afterturn aws index backfill {name}` repairs missing and misplaced rows.")
    raise typer.Exit(Exit.OK if report.clean else Exit.OWED)


def _print_problems(problems: Sequence[Problem]) -> None:
    if problems:
        table(("ROW WITHOUT KEYS", "WHY"), [(each.name, each.why) for each in problems])
        print()


@layout.command("show")
@with_lane
def show(ctx: typer.Context, json_: Json = False, *, lane: LaneTarget) -> None:
    """Show the layout of the recency index, and the stage of a change."""

    async def work() -> LayoutState:
        async with _open(lane) as (indexes, opened, _):
            return await layout_change.LayoutChange(opened, indexes).state()

    _print_state(lane, run(work()), json_=json_)


@layout.command("change")
@with_lane
def change(
    ctx: typer.Context,
    to: Annotated[str, typer.Argument(metavar="LAYOUT", help="single, monthly, or sharded:N.")],
    confirm_table: Confirm = None,
    until: Annotated[
        Until,
        typer.Option(
            metavar="STAGE",
            help="The last stage: both (both layouts are written, the old one is read), flipped (the new one is read), "
            "settled (the old one is gone).",
        ),
    ] = Until.SETTLED,
    drain: Annotated[
        str, typer.Option(metavar="DURATION", help="How much time processes get to see each stage.")
    ] = "3m",
    rate: Rate = None,
    page: PageSize = 1_000,
    timeout: Timeout = "1h",
    json_: Json = False,
    *,
    lane: LaneTarget,
) -> None:
    """Change the layout of the recency index while it is in use: no read misses a row at any moment.

    Both layouts are written, old rows are stamped, the new one is verified, readers flip, the old keys are removed. The
    stage is stored in the table: run again, it continues from there. Naming the old layout goes back.
    """
    target = Layout.parse(to)
    write = confirm(lane.names.table, confirm_table)
    options = layout_change.LayoutChangeOptions(
        until=Stage(until.value),
        drain=timedelta(seconds=seconds("--drain", drain)),
        backfill=backfill.BackfillOptions(write=True, pace=Pace(rate), page=page),
    )
    patience = Patience(seconds("--timeout", timeout))
    meter = Meter()

    def report(state: LayoutState, doing: str) -> None:
        meter.end()
        note(f"stage {state.stage}: {doing}")

    async def work() -> LayoutState:
        async with _open(lane, patience) as (indexes, opened, emulated):
            layout_change.check_drain(options.drain, emulated=emulated)
            changing = layout_change.LayoutChange(opened, indexes, options, report=report, progress=meter)
            if write:
                return await changing.carry_out(target)
            state = await changing.state()
            _print_stages(layout_change.states_until(state, target), json_=json_)
            return state

    try:
        state = run(work())
    finally:
        meter.end()
    if write:
        _print_state(lane, state, json_=json_)
    else:
        note(f"Nothing was done; --confirm-table {lane.names.table} does it.")


def _print_stages(states: list[LayoutState], *, json_: bool) -> None:
    if json_:
        shown = ("stage", "read", "write")
        write_json({"dryRun": True, "steps": [{key: each.to_json()[key] for key in shown} for each in states]})
    else:
        rows = [(each.stage.value, each.layouts.read, _written(each)) for each in states]
        table(("STAGE", "READ", "WRITTEN"), rows)


def _print_state(lane: LaneTarget, state: LayoutState, *, json_: bool) -> None:
    if json_:
        write_json({"table": lane.names.table, **state.to_json()})
        return
    facts(
        [
            ("table", lane.names.table),
            ("stage", state.stage.value),
            ("read", state.layouts.read),
            ("written", _written(state)),
            ("since", state.changed_at),
        ]
    )


def _written(state: LayoutState) -> str:
    return ", ".join(map(str, state.layouts.write))
