"""``audit``, ``sweep`` and ``replay``: what is owed, and reminding of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from afterturn.cli.exits import Exit
from afterturn.cli.options import (
    Db,
    Json,
    Profiled,
    Property,
    Since,
    Until,
    cli_settings,
    open_existing,
    read_grace,
    require_consumers,
    selection,
    settings_of,
)
from afterturn.cli.output import facts, note, table, write_json
from afterturn.config import Settings
from afterturn.errors import InvalidInput
from afterturn.inbox.presentation import count, duration
from afterturn.ledger.debts import Debt
from afterturn.ledger.ledger import Audit, Selection

Grace = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="How long a reaction may be owed, on top of its own max_wait; 0s for none (AFTERTURN_GRACE).",
    ),
]

_PROGRESS_EVERY = 10_000


def audit(
    ctx: typer.Context,
    since: Since = None,
    until: Until = None,
    property_id: Property = None,
    grace: Grace = None,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
) -> None:
    """Name each reaction that is owed or has failed. Exits 0 where there is none, and 3 where there are."""
    settings = settings_of(ctx, db)
    found = asyncio.run(_audit(settings, selection(since, until, property_id), grace))
    if json_:
        write_json(found.to_json())
    else:
        if found.debts:
            _print_debts(found.debts)
            print()
        print_audit(found)
    raise typer.Exit(Exit.OK if found.clean else Exit.OWED)


async def _audit(settings: Settings, part: Selection, grace: str | None) -> Audit:
    async with open_existing(settings) as backbone:
        return await backbone.ledger.audit(part, grace=read_grace(grace, settings), progress=_counter("conversations"))


def print_audit(found: Audit) -> None:
    """The outcome in one line."""
    print(f"checked: {found.checked:,}  owed: {found.owed:,}  failed: {found.failed:,}")


def _print_debts(debts: Sequence[Debt]) -> None:
    table(
        ("CONVERSATION", "CONSUMER", "STATE", "FOR", "SINCE", "PROPERTY"),
        [
            (
                debt.conversation.id,
                debt.consumer,
                debt.state.value,
                duration(debt.age),
                debt.since,
                debt.conversation.property_id,
            )
            for debt in debts
        ],
    )


def sweep(
    ctx: typer.Context,
    since: Since = None,
    until: Until = None,
    property_id: Property = None,
    grace: Grace = None,
    everything: Annotated[
        bool, typer.Option("--everything", metavar="", help="Also what a sweep has reminded of just now.")
    ] = False,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
) -> None:
    """Put what is owed into the stream again, each debt at ages that double. `afterturn up` does it by itself."""
    settings = cli_settings(ctx, db)
    part = selection(since, until, property_id)
    caught = asyncio.run(_sweep(settings, None if part == Selection() else part, grace, everything=everything))
    if json_:
        write_json({"swept": len(caught), "debts": [debt.to_json() for debt in caught]})
        return
    if caught:
        _print_debts(caught)
        print()
    facts([("swept", len(caught))])
    if caught:
        note("`afterturn up` or `afterturn drain` runs them.")


async def _sweep(
    settings: Settings, part: Selection | None, grace: str | None, *, everything: bool
) -> tuple[Debt, ...]:
    async with open_existing(settings) as backbone:
        return await backbone.ledger.sweep(
            part, grace=read_grace(grace, settings), everything=everything, progress=_counter("conversations")
        )


def replay(
    ctx: typer.Context,
    since: Since = None,
    until: Until = None,
    property_id: Property = None,
    consumer: Annotated[
        list[str] | None,
        typer.Option(metavar="CONSUMER", help="For this consumer; for all where none is named. Repeatable."),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", metavar="", help="The whole of history, for all that are not retired.")
    ] = False,
    rate: Annotated[float | None, typer.Option(metavar="N", min=0.001, help="At most so many events a second.")] = None,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
) -> None:
    """Ask consumers for a part of history, such as one that was registered after it.

    Name a consumer or a part (`--since`, `--until`, `--property`), or give `--all`. What a consumer has seen to its end
    is left out. Stopped half-way, what was asked for is owed, and running it again goes on. History sends
    nothing out (AFTERTURN_EFFECTS_FOR_HISTORY lifts that).
    """
    part = selection(since, until, property_id)
    if (bool(consumer) or part != Selection()) == all_:
        raise InvalidInput(
            "name a consumer (--consumer) or a part of history (--since, --until, --property), or give --all for "
            "everything; nothing was replayed"
        )
    emitted = asyncio.run(_replay(cli_settings(ctx, db), part, consumer or (), rate))
    if json_:
        write_json({"emitted": emitted})
        return
    facts([("emitted", emitted)])
    if emitted:
        note("`afterturn up` or `afterturn drain` runs them.")
    else:
        note("Each consumer that was asked has seen each of these conversations to its end.")


async def _replay(settings: Settings, part: Selection, consumers: Sequence[str], rate: float | None) -> int:
    async with open_existing(settings) as backbone:
        require_consumers(consumers, list(await backbone.store.registrations()))
        return await backbone.ledger.replay(part, consumers=consumers, rate=rate, progress=_counter("events"))


def _counter(what: str) -> Callable[[int], None]:
    """Progress on stderr: on a terminal in place, elsewhere a line for every ten thousand."""
    last = 0
    screen = sys.stderr.isatty()

    def show(done: int) -> None:
        nonlocal last
        if done - last >= (500 if screen else _PROGRESS_EVERY):
            last = done
            if screen:
                print(f"\r{count(done, what[:-1])}", end="\r", file=sys.stderr, flush=True)
            else:
                note(count(done, what[:-1]))

    return show


__all__: list[Any] = ["audit", "print_audit", "replay", "sweep"]
