"""``stats``: how much is in each stage."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import typer

from afterturn.cli.exits import Exit
from afterturn.cli.options import Db, Json, Profiled, open_existing, settings_of
from afterturn.cli.output import facts, note, table, write_json
from afterturn.errors import AfterturnError
from afterturn.inbox.presentation import duration
from afterturn.web.api.shapes import read_stats

_UNAVAILABLE = "unavailable"


def stats(ctx: typer.Context, json_: Json = False, profile: Profiled = None, db: Db = None) -> None:
    """Count what is in each stage, and how old the oldest entry is.

    Unreachable stages are reported as unavailable; the exit code is 4 then.
    """
    found, problems, now = asyncio.run(_stats(ctx, db))
    if json_:
        write_json(found)
    else:
        _print(found, now)
    for problem in problems:
        note(f"error: {problem}")
    raise typer.Exit(Exit.STORE if problems else Exit.OK)


def _print(found: dict[str, Any], now: datetime) -> None:
    def oldest(stage: dict[str, Any] | None) -> str | None:
        at = None if stage is None else stage["oldestAt"]
        return None if at is None else duration(max(now - datetime.fromisoformat(at), timedelta(0)))

    def value_of(stage: dict[str, Any] | None, name: str) -> object:
        return _UNAVAILABLE if stage is None or stage[name] is None else stage[name]

    facts(
        [
            *((name, found[name]) for name in ("conversations", "messages", "turns", "stamps")),
            ("open work orders", found["openWorkOrders"]),
        ]
    )
    print()
    stream, reactions = found["stream"], found["reactions"]
    waits = stream is not None and stream["main"]
    table(
        ("STAGE", "COUNT", "OLDEST"),
        [
            ("stream, main queue", value_of(stream, "main"), oldest(stream) if waits else None),
            ("stream, retry queue", value_of(stream, "retry"), None if waits else oldest(stream)),
            ("waiting reactions", value_of(reactions, "waiting"), oldest(reactions)),
            ("failed reactions", reactions["failed"], None),
            ("replies, sends, calls", found["jobs"], None),
            ("dead letters", value_of(stream, "dead"), None),
        ],
    )


async def _stats(ctx: typer.Context, db: Any) -> tuple[dict[str, Any], list[AfterturnError], datetime]:
    async with open_existing(settings_of(ctx, db)) as backbone:
        counts, problems = await read_stats(backbone)
        return counts, problems, backbone.clock()
