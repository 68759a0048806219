"""``reactions``: consumers, failed reactions, and retries."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from afterturn.cli.options import Db, Json, Limit, Profiled, open_existing, require_consumers, settings_of
from afterturn.cli.output import note, table, write_json
from afterturn.config import as_written
from afterturn.errors import InvalidInput, NotFound
from afterturn.inbox.presentation import age, count
from afterturn.store.port import ConsumerState, Failure
from afterturn.web.api import shapes

_ALL = 1_000_000

app = typer.Typer(help="Consumers and their failed reactions.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="CONSUMER", help="Name of the consumer.")]


@app.command("list")
def list_(ctx: typer.Context, json_: Json = False, profile: Profiled = None, db: Db = None) -> None:
    """List all registered consumers with their state and the number of failed reactions."""
    rows = asyncio.run(_list(ctx, db))
    if json_:
        write_json({"consumers": rows})
        return
    table(
        ("CONSUMER", "STATE", "REGISTERED", "MAX WAIT", "FAILED"),
        [
            (
                row["name"],
                row["state"],
                datetime.fromisoformat(row["registeredAt"]),
                as_written(timedelta(seconds=row["maxWaitSeconds"])),
                row["failed"],
            )
            for row in rows
        ],
    )
    if not rows:
        note("No consumer is registered yet; `afterturn up`, `drain` and `import` register those of their app.")


async def _list(ctx: typer.Context, db: Any) -> list[dict[str, Any]]:
    async with open_existing(settings_of(ctx, db)) as backbone:
        return shapes.consumers(await backbone.store.registrations(), await backbone.store.failures(limit=_ALL))


@app.command()
def failed(
    ctx: typer.Context, limit: Limit = 100, json_: Json = False, profile: Profiled = None, db: Db = None
) -> None:
    """List failed reactions."""
    failures, now = asyncio.run(_failures(ctx, db, limit + 1))
    complete, failures = len(failures) <= limit, failures[:limit]
    if json_:
        write_json({"failures": [shapes.failure(failure) for failure in failures], "complete": complete})
        return
    table(
        ("CONVERSATION", "CONSUMER", "ERROR", "TURN", "AGO"),
        [
            (
                failure.conversation_id,
                failure.consumer,
                failure.error,
                failure.failed_through,
                age(now - failure.failed_through),
            )
            for failure in failures
        ],
    )
    note("`afterturn reactions retry` runs them again." if failures else "No reaction has failed.")
    if not complete:
        note(f"There are more than {limit}; raise --limit.")


async def _failures(ctx: typer.Context, db: Any, limit: int) -> tuple[tuple[Failure, ...], Any]:
    async with open_existing(settings_of(ctx, db)) as backbone:
        return await backbone.store.failures(limit=limit), backbone.clock()


@app.command()
def retry(
    ctx: typer.Context,
    conversation_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Conversations whose failed reactions run again.")
    ] = None,
    consumer: Annotated[str | None, typer.Option(metavar="CONSUMER", help="Only reactions of this consumer.")] = None,
    all_: Annotated[
        bool, typer.Option("--all", metavar="", help="Retry the failed reactions of every conversation.")
    ] = False,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
) -> None:
    """Retry failed reactions; `up` or `drain` runs them."""
    if bool(conversation_ids) == all_:
        raise InvalidInput("name the conversations, or give --all")
    retried = asyncio.run(_retry(ctx, db, conversation_ids, consumer))
    if json_:
        write_json({"retried": [{"conversationId": id_, "consumer": name} for id_, name in retried]})
        return
    table(("CONVERSATION", "CONSUMER"), retried)
    note(f"{count(len(retried), 'reaction')} will run again; `afterturn up` or `afterturn drain` runs them.")


async def _retry(ctx: typer.Context, db: Any, ids: list[str] | None, consumer: str | None) -> list[tuple[str, str]]:
    async with open_existing(settings_of(ctx, db)) as backbone:
        if consumer is not None:
            require_consumers([consumer], list(await backbone.store.registrations()))
        chosen = [
            (failure.conversation_id, failure.consumer)
            for failure in await backbone.store.failures(limit=_ALL)
            if (not ids or failure.conversation_id in ids) and consumer in (None, failure.consumer)
        ]
        failed_ids = {conversation_id for conversation_id, _ in chosen}
        for requested in ids or ():
            if requested not in failed_ids:
                raise NotFound(
                    f"no failed reaction on conversation {requested!r}; `afterturn reactions failed` lists them"
                )
        for conversation_id, name in chosen:
            await backbone.engine.retry(name, conversation_id)
        return chosen


@app.command()
def promote(ctx: typer.Context, consumer: Name, profile: Profiled = None, db: Db = None) -> None:
    """Make a consumer in shadow, or a retired one, live: its stamps are shown, and it owes every new turn."""
    asyncio.run(_set_state(ctx, db, consumer, ConsumerState.LIVE))
    note(f"{consumer} is live.")


@app.command()
def retire(ctx: typer.Context, consumer: Name, profile: Profiled = None, db: Db = None) -> None:
    """Retire a consumer: it owes no reactions from now on. Its stamps stay."""
    asyncio.run(_set_state(ctx, db, consumer, ConsumerState.RETIRED))
    note(f"{consumer} is retired.")


async def _set_state(ctx: typer.Context, db: Any, consumer: str, state: ConsumerState) -> None:
    async with open_existing(settings_of(ctx, db)) as backbone:
        await backbone.store.set_state(consumer, state)
