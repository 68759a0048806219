"""What ``aws layout`` does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from afterturn.cli.aws_running import Meter, confirm, run
from afterturn.cli.output import facts, note, table, write_json
from afterturn.operations.account import Whose, open_table
from afterturn.operations.backfill import Way
from afterturn.operations.indexes import Patience
from afterturn.operations.layouts import Change, Manner, Stage, State, check_drain, read_layout, way_to
from afterturn.operations.walking import Pace


def show(whose: dict[str, Any], *, json_: bool) -> None:
    lane = Whose(**whose)

    async def work() -> State:
        async with open_table(lane) as (account, opened):
            return await Change(opened, account.dynamodb).state()

    _print(lane, run(work()), json_=json_)


def change(
    whose: dict[str, Any],
    wanted: str,
    *,
    confirmed: str | None,
    until: str,
    drain: float,
    rate: float | None,
    page: int,
    timeout: float,
    json_: bool,
) -> None:
    lane = Whose(**whose)
    layout = read_layout(wanted)
    write = confirm(lane.names.table, confirmed)
    manner = Manner(
        until=Stage(until),
        drain=timedelta(seconds=drain),
        way=Way(write=True, pace=Pace(rate), page=page),
        patience=Patience(timeout),
    )
    meter = Meter()

    def tell(state: State, doing: str) -> None:
        meter.end()
        note(f"stage {state.stage}: {doing}")

    async def work() -> State:
        async with open_table(lane) as (account, opened):
            check_drain(manner.drain, emulated=account.emulated)
            changing = Change(opened, account.dynamodb, manner, told=tell, progress=meter)
            if write:
                return await changing.carry_out(layout)
            state = await changing.state()
            _print_way(way_to(state, layout), json_=json_)
            return state

    try:
        state = run(work())
    finally:
        meter.end()
    if write:
        _print(lane, state, json_=json_)
    else:
        note(f"Nothing was done; --confirm-table {lane.names.table} does it.")


def _print_way(states: list[State], *, json_: bool) -> None:
    if json_:
        write_json({"dryRun": True, "steps": [{key: one.to_json()[key] for key in _SHOWN} for one in states]})
    else:
        table(("STAGE", "READ", "WRITTEN"), [(one.stage.value, one.layouts.read, _written(one)) for one in states])


_SHOWN = ("stage", "read", "write")


def _print(lane: Whose, state: State, *, json_: bool) -> None:
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


def _written(state: State) -> str:
    return ", ".join(map(str, state.layouts.write))
