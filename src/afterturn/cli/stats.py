"""``stats``: what is in each stage, also while one of them does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import typer

from afterturn.cli.exits import Exit
from afterturn.cli.options import Db, Json, Profiled, open_existing, settings_of
from afterturn.cli.output import facts, note, table, write_json
from afterturn.clock import to_text
from afterturn.errors import AfterturnError, EngineUnavailable, StreamUnavailable
from afterturn.inbox.presentation import duration

T = TypeVar("T")

_EVERY_FAILURE = 1_000_000
_SILENT = "does not answer"


def stats(ctx: typer.Context, json_: Json = False, profile: Profiled = None, db: Db = None) -> None:
    """Count what is in each stage, and how old the oldest is.

    A stage that does not answer is said not to, beside what the others say; then the exit code is 4.
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

    def told(stage: dict[str, Any] | None, name: str) -> object:
        return _SILENT if stage is None or stage[name] is None else stage[name]

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
            ("stream, for every consumer", told(stream, "main"), oldest(stream) if waits else None),
            ("stream, for one consumer", told(stream, "retry"), None if waits else oldest(stream)),
            ("reactions that wait", told(reactions, "waiting"), oldest(reactions)),
            ("reactions that failed", reactions["failed"], None),
            ("answers, sends, calls", found["jobs"], None),
            ("dead letters", told(stream, "dead"), None),
        ],
    )


async def _stats(ctx: typer.Context, db: Any) -> tuple[dict[str, Any], list[AfterturnError], datetime]:
    problems: list[AfterturnError] = []

    async def answered(ask: Callable[[], Awaitable[T]]) -> T | None:
        try:
            return await ask()
        except (StreamUnavailable, EngineUnavailable) as error:
            problems.append(error)
            return None

    async with open_existing(settings_of(ctx, db)) as backbone:

        async def stream() -> dict[str, Any]:
            depth = await backbone.stream.depth()
            at = None if depth.oldest is None else to_text(depth.oldest)
            return {"main": depth.main, "retry": depth.retry, "dead": depth.dead_letters, "oldestAt": at}

        async def reactions() -> dict[str, Any]:
            oldest = await backbone.engine.oldest()
            at = None if oldest is None else to_text(oldest)
            return {"waiting": await backbone.engine.waiting(), "oldestAt": at}

        failed = len(await backbone.store.failures(limit=_EVERY_FAILURE))
        waiting = await answered(reactions)
        found = {
            **await backbone.store.counts(),
            "stream": await answered(stream),
            "reactions": {"waiting": None, "oldestAt": None, **(waiting or {}), "failed": failed},
        }
        return found, problems, backbone.clock()
