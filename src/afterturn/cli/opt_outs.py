"""``opt-outs``: who wants no automatic messages."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from afterturn.cli.options import Db, Json, Profiled, open_existing, settings_of
from afterturn.cli.output import note, table, write_json
from afterturn.store.state import OptOut, OptOutKey

_PAGE = 1_000


def opt_outs(
    ctx: typer.Context,
    all_: Annotated[bool, typer.Option("--all", metavar="", help="Include addresses that opted in again.")] = False,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
) -> None:
    """List every address that opted out of automatic messages."""
    listed = [one for one in asyncio.run(_read(ctx, db)) if one.opted_out or all_]
    if json_:
        write_json({"optOuts": [one.to_json() for one in listed]})
        return
    table(
        ("CHANNEL", "ADDRESS", "STATE", "SINCE"),
        [(one.channel.value, one.address, "out" if one.opted_out else "in again", one.at) for one in listed],
    )
    if not listed:
        note("Nobody has opted out.")


async def _read(ctx: typer.Context, db: Any) -> list[OptOut]:
    found: list[OptOut] = []
    async with open_existing(settings_of(ctx, db)) as backbone:
        while page := await backbone.store.opt_outs(after=OptOutKey.of(found[-1]) if found else None, limit=_PAGE):
            found += page
    return found
