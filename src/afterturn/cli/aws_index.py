"""What ``aws index`` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from afterturn.cli.aws_running import Meter, confirm, run
from afterturn.cli.exits import Exit
from afterturn.cli.output import facts, note, table, write_json
from afterturn.operations import backfill as backfilling
from afterturn.operations import indexes
from afterturn.operations.account import Whose, open_table
from afterturn.operations.backfill import Problem, Tally
from afterturn.operations.indexes import Patience
from afterturn.operations.stamps import Target
from afterturn.operations.verify import Verdict
from afterturn.operations.verify import verify as compare
from afterturn.operations.walking import Pace, Through


def list_(whose: dict[str, Any], *, json_: bool) -> None:
    lane = Whose(**whose)

    async def work() -> tuple[indexes.Standing, ...]:
        async with open_table(lane) as (account, _):
            return await indexes.listed(account.dynamodb, lane.names.table)

    found = run(work())
    if json_:
        write_json({"table": lane.names.table, "indexes": [one.to_json() for one in found]})
        return
    table(("INDEX", "STATE", "HOLDS", "ITEMS"), [(one.name, one.state, one.holds, one.items) for one in found])
    for one in found:
        if one.state == "missing":
            note(f"`afterturn aws index add {one.name}` makes it.")


def add(whose: dict[str, Any], name: str, *, timeout: float, json_: bool) -> None:
    lane = Whose(**whose)
    wanted = indexes.named(name)

    async def work() -> indexes.Act:
        async with open_table(lane) as (account, _):
            return await indexes.add(account.dynamodb, lane.names.table, wanted, Patience(timeout), _tell)

    act = run(work())
    if json_:
        write_json({"index": name, "table": lane.names.table, "action": act.value, "ready": True})
    else:
        facts([("index", name), ("table", lane.names.table), ("done", _DONE[act])])
        note(f"Rows get into it by their keys: `afterturn aws index backfill {name}` stamps old ones.")


_DONE = {
    indexes.Act.CREATE: "created; it can be read",
    indexes.Act.WAIT: "waited for; it can be read",
    indexes.Act.NOTHING: "it was there, and can be read",
}


def _tell(progress: indexes.Progress) -> None:
    state = f"{progress.status}, backfilling" if progress.backfilling else progress.status
    note(f"index {progress.index}: {state}, after {progress.waited:.0f} s")


def backfill(
    whose: dict[str, Any],
    name: str,
    *,
    confirmed: str | None,
    through: str,
    rate: float | None,
    page: int,
    resume: bool,
    json_: bool,
) -> None:
    lane = Whose(**whose)
    wanted = indexes.named(name)
    write = confirm(lane.names.table, confirmed)
    way = backfilling.Way(write=write, through=Through(through), pace=Pace(rate), page=page, resume=resume)

    async def work() -> Tally:
        async with open_table(lane) as (account, opened):
            target = Target.of(wanted, await backfilling.layout(opened))
            total = await indexes.item_count(account.dynamodb, lane.names.table)
            meter = Meter()
            try:
                return await backfilling.backfill(opened, target, way, total=total, told=meter)
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
                ("right before", tally.right),
                ("stamped" if write else "to stamp", tally.stamped),
                ("deleted meanwhile", tally.gone),
                ("without keys", tally.problem_count),
            ]
        )
        if not write:
            note(f"Nothing was written; --confirm-table {lane.names.table} does it.")
    raise typer.Exit(Exit.FAILED if tally.problem_count else Exit.OK)


def verify(whose: dict[str, Any], name: str, *, through: str, page: int, json_: bool) -> None:
    lane = Whose(**whose)
    wanted = indexes.named(name)

    async def work() -> Verdict:
        async with open_table(lane) as (account, opened):
            target = Target.of(wanted, await backfilling.layout(opened))
            total = await indexes.item_count(account.dynamodb, lane.names.table)
            meter = Meter()
            try:
                return await compare(opened, target, through=Through(through), total=total, page=page, told=meter)
            finally:
                meter.end()

    found = run(work())
    if json_:
        write_json({"table": lane.names.table, **found.to_json()})
    else:
        _print_problems(found.problems)
        if found.differences:
            table(("ROW", "DRIFT"), [(one.name, one.drift.value) for one in found.differences])
            print()
        facts(
            [
                ("rows of the table", found.rows),
                ("without keys", len(found.problems)),
                ("wanted in the index", found.wanted),
                ("rightly there", found.indexed),
                ("differences", len(found.differences)),
            ]
        )
        if not found.clean:
            note(f"`afterturn aws index backfill {name}` mends rows that are missing or misplaced.")
    raise typer.Exit(Exit.OK if found.clean else Exit.OWED)


def _print_problems(problems: Sequence[Problem]) -> None:
    if problems:
        table(("ROW WITHOUT KEYS", "WHY"), [(one.name, one.why) for one in problems])
        print()
