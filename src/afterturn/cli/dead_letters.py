"""``dead-letters``: stream records that cannot be handled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from afterturn.cli.options import Db, Json, Limit, Profiled, cli_settings, open_existing, settings_of
from afterturn.cli.output import facts, note, table, write_json
from afterturn.errors import InvalidInput, NotFound
from afterturn.inbox.presentation import count
from afterturn.stream.port import DeadLetter
from afterturn.web.api import shapes

_ALL = 1_000_000

app = typer.Typer(help="Stream records that cannot be handled.", no_args_is_help=True)


@app.command("list")
def list_(ctx: typer.Context, limit: Limit = 100, json_: Json = False, profile: Profiled = None, db: Db = None) -> None:
    """List dead letters, oldest first."""
    dead_letters = asyncio.run(_dead_letters(ctx, db, limit + 1))
    complete, dead_letters = len(dead_letters) <= limit, dead_letters[:limit]
    if json_:
        write_json({"deadLetters": [shapes.dead_letter(each) for each in dead_letters], "complete": complete})
        return
    table(
        ("ID", "QUEUE", "GROUP", "CONSUMER", "RECEIVES", "DIED", "REASON"),
        [
            (each.id, each.queue.value, each.group, each.consumer, each.receives, each.died_at, each.reason)
            for each in dead_letters
        ],
    )
    note("`afterturn dead-letters redrive` sends them again." if dead_letters else "There are no dead letters.")
    if not complete:
        note(f"There are more than {limit}; raise --limit.")


@app.command()
def show(
    ctx: typer.Context,
    dead_letter_id: Annotated[str, typer.Argument(metavar="ID", help="The dead letter.")],
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
) -> None:
    """Show a dead letter with its body."""
    record = _chosen(asyncio.run(_dead_letters(ctx, db, _ALL)), [dead_letter_id])[0]
    if json_:
        write_json(shapes.dead_letter(record))
    else:
        facts([(name, value) for name, value in shapes.dead_letter(record).items()])


@app.command()
def redrive(
    ctx: typer.Context,
    dead_letters: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The dead letters.")] = None,
    all_: Annotated[bool, typer.Option("--all", metavar="", help="Redrive every dead letter.")] = False,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
) -> None:
    """Send dead letters to their queue again. Turns that were handled since are not handled twice."""
    if bool(dead_letters) == all_:
        raise InvalidInput("name the dead letters, or give --all")
    moved = asyncio.run(_redrive(ctx, db, dead_letters))
    if json_:
        write_json({"redriven": moved})
    else:
        facts([("redriven", moved)])
        note(f"{count(moved, 'record')} sent to the stream again; `afterturn up` or `afterturn drain` handles them.")


async def _dead_letters(ctx: typer.Context, db: Any, limit: int) -> Sequence[DeadLetter]:
    async with open_existing(settings_of(ctx, db)) as backbone:
        return await backbone.stream.dead_letters(limit=limit)


async def _redrive(ctx: typer.Context, db: Any, dead_letters: list[str] | None) -> int:
    async with open_existing(cli_settings(ctx, db)) as backbone:
        dead = await backbone.stream.dead_letters(limit=_ALL)
        chosen = dead if dead_letters is None else _chosen(dead, dead_letters)
        return await backbone.stream.redrive([record.id for record in chosen])


def _chosen(records: Sequence[DeadLetter], ids: Sequence[str]) -> list[DeadLetter]:
    by_id = {record.id: record for record in records}
    for dead_letter_id in ids:
        if dead_letter_id not in by_id:
            raise NotFound(f"there is no dead letter {dead_letter_id!r}; `afterturn dead-letters list` lists them")
    return [by_id[dead_letter_id] for dead_letter_id in dict.fromkeys(ids)]
