"""``stats``, ``audit``, ``sweep`` and ``replay``: count, find what is owed, re-emit it, re-run history."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
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
from afterturn.errors import AfterturnError, InvalidInput
from afterturn.inbox.presentation import count, duration
from afterturn.ledger.ledger import Audit, OwedReaction, Selection
from afterturn.web.api.shapes import read_stats

Grace = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Time that a reaction may be owed beyond its own max_wait; 0s: none (AFTERTURN_GRACE).",
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
    """List each reaction that is overdue or failed, and count those that are owed.

    Exits 3 if any is overdue or failed. Owed: waiting (its debounce may still run), overdue (it should have run) or
    failed (its attempts are used up). Those that wait are only counted.
    """
    settings = settings_of(ctx, db)
    report = asyncio.run(_audit(settings, selection(since, until, property_id), grace))
    if json_:
        write_json(report.to_json())
    else:
        if report.reactions:
            _print_owed(report.reactions)
            print()
        print_audit(report)
    raise typer.Exit(Exit.OK if report.clean else Exit.OWED)


async def _audit(settings: Settings, part: Selection, grace: str | None) -> Audit:
    async with open_existing(settings) as backbone:
        return await backbone.ledger.audit(part, grace=read_grace(grace, settings), progress=_counter("conversations"))


def print_audit(report: Audit) -> None:
    """The result in one line."""
    parts = f"waiting {len(report.waiting):,}, overdue {report.overdue:,}, failed {report.failed:,}"
    print(f"checked: {report.checked:,}  owed: {report.owed:,} ({parts})")


def _print_owed(reactions: Sequence[OwedReaction]) -> None:
    table(
        ("CONVERSATION", "CONSUMER", "STATE", "FOR", "SINCE", "PROPERTY"),
        [
            (
                reaction.conversation.id,
                reaction.consumer,
                reaction.state.value,
                duration(reaction.age),
                reaction.since,
                reaction.conversation.property_id,
            )
            for reaction in reactions
        ],
    )


def sweep(
    ctx: typer.Context,
    since: Since = None,
    until: Until = None,
    property_id: Property = None,
    grace: Grace = None,
    everything: Annotated[
        bool, typer.Option("--everything", metavar="", help="Include reactions that were re-emitted recently.")
    ] = False,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
) -> None:
    """Re-emit overdue reactions into the stream.

    Each is re-emitted at ages that double. `afterturn up` sweeps automatically.
    """
    settings = cli_settings(ctx, db)
    part = selection(since, until, property_id)
    caught = asyncio.run(_sweep(settings, None if part == Selection() else part, grace, everything=everything))
    if json_:
        write_json({"swept": len(caught), "reactions": [reaction.to_json() for reaction in caught]})
        return
    if caught:
        _print_owed(caught)
        print()
    facts([("swept", len(caught))])
    if caught:
        note("`afterturn up` or `afterturn drain` runs them.")


async def _sweep(
    settings: Settings, part: Selection | None, grace: str | None, *, everything: bool
) -> tuple[OwedReaction, ...]:
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
        typer.Option(metavar="CONSUMER", help="Consumer to re-run; default: all that are not retired. Repeatable."),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", metavar="", help="The whole history, for all consumers that are not retired.")
    ] = False,
    rate: Annotated[
        float | None, typer.Option(metavar="N", min=0.001, help="Maximum number of events per second.")
    ] = None,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
) -> None:
    """Re-run consumers over past conversations.

    For example after registering a new one. Name a consumer or a part of history (`--since`, `--until`, `--property`),
    or give `--all`. Conversations that a consumer has seen fully are left out. If it is interrupted, run it again to
    continue; what was requested until then is owed. Reactions to history send nothing out, unless
    AFTERTURN_EFFECTS_FOR_HISTORY is set.
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
        note("These consumers have seen all of these conversations already.")


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


def stats(ctx: typer.Context, json_: Json = False, profile: Profiled = None, db: Db = None) -> None:
    """Count what is in each stage, and how old the oldest entry is.

    Unreachable stages are reported as unavailable; the exit code is 4 then.
    """
    counts, problems, now = asyncio.run(_stats(ctx, db))
    if json_:
        write_json(counts)
    else:
        _print_stats(counts, now)
    for problem in problems:
        note(f"error: {problem}")
    raise typer.Exit(Exit.STORE if problems else Exit.OK)


def _print_stats(counts: dict[str, Any], now: datetime) -> None:
    def oldest(stage: dict[str, Any] | None) -> str | None:
        at = None if stage is None else stage["oldestAt"]
        return None if at is None else duration(max(now - datetime.fromisoformat(at), timedelta(0)))

    def value_of(stage: dict[str, Any] | None, name: str) -> object:
        return "unavailable" if stage is None or stage[name] is None else stage[name]

    facts(
        [
            *((name, counts[name]) for name in ("conversations", "messages", "turns", "stamps")),
            ("open work orders", counts["openWorkOrders"]),
        ]
    )
    print()
    stream, reactions = counts["stream"], counts["reactions"]
    is_waiting = stream is not None and stream["main"]
    table(
        ("STAGE", "COUNT", "OLDEST"),
        [
            ("stream, main queue", value_of(stream, "main"), oldest(stream) if is_waiting else None),
            ("stream, retry queue", value_of(stream, "retry"), None if is_waiting else oldest(stream)),
            ("waiting reactions", value_of(reactions, "waiting"), oldest(reactions)),
            ("failed reactions", reactions["failed"], None),
            ("replies, sends, calls", counts["jobs"], None),
            ("dead letters", value_of(stream, "dead"), None),
        ],
    )


async def _stats(ctx: typer.Context, db: Any) -> tuple[dict[str, Any], list[AfterturnError], datetime]:
    async with open_existing(settings_of(ctx, db)) as backbone:
        counts, problems = await read_stats(backbone)
        return counts, problems, backbone.clock()
