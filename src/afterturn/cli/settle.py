"""``import`` and ``settle``: write turns to the store."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from afterturn.app import App
from afterturn.cli.exits import Exit, exit_of, interruptible
from afterturn.cli.loader import ImportCounts, Loader, first
from afterturn.cli.options import (
    AppName,
    Db,
    Json,
    LogLevel,
    Profiled,
    app_of,
    cli_settings,
    flag_value,
    set_up_logging,
)
from afterturn.cli.output import cell, facts, note, write_json
from afterturn.clock import to_text
from afterturn.config import Settings
from afterturn.errors import AfterturnError, InvalidInput
from afterturn.importers import BadRecord, Reader, read
from afterturn.inbox.presentation import count
from afterturn.model import UNASSIGNED, Turn, check_id, parse
from afterturn.settle import SettleResult
from afterturn.strict_json import read_json

_BAD_SHOWN = 20
_TICK_SCREEN, _TICK_LOG = 0.1, 5.0


def import_(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(help="The file; .jsonl can be compressed (.jsonl.gz).", metavar="PATH")],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="afterturn, dialogues, mbox, telegram or sms; default: detected.",
        ),
    ] = None,
    own: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS", help="Your own address, number, id or name: messages from it are outbound. Repeatable."
        ),
    ] = None,
    property_id: Annotated[
        str | None,
        typer.Option("--property", metavar="ID", help="Property of conversations for which the file names none."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Import only the first N conversations."),
    ] = None,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
    app: AppName = None,
    log_level: LogLevel = None,
) -> None:
    """Import conversations from a file.

    Formats: afterturn's own JSON Lines, research dialogues, mbox, a Telegram Desktop export (result.json), and the XML
    of "SMS Backup & Restore". A second import of the same file adds nothing. Invalid records are reported with their
    position and skipped (exit 1). Ctrl-C stops between turns; run it again to continue.
    """
    set_up_logging(ctx, log_level)
    if property_id is not None:
        flag_value("--property", _check_property, property_id)
    reader = read(path, format=format_, own=own or (), property_id=property_id)
    with reader:
        tally, interrupted, problem = asyncio.run(
            _import(app_of(ctx, app), cli_settings(ctx, db), reader, limit, quiet=json_),
        )
    if json_:
        write_json({**tally.to_json(), "format": reader.format.value, "interrupted": interrupted})
    else:
        _summary(reader, tally)
    if problem is not None:
        note(f"error: {problem}")
        note("Everything counted above was imported. Run the import again to continue.")
        # Exit code 2 means that nothing was written, which is wrong in the middle of a file.
        cut_off = isinstance(problem, InvalidInput) and tally.conversations
        raise typer.Exit(Exit.FAILED if cut_off else exit_of(problem))
    if interrupted:
        note("Stopped. Everything counted above was imported; run the import again to continue.")
        raise typer.Exit(Exit.INTERRUPTED)
    if tally.new_turns and not json_:
        note("Next: `afterturn drain --now` runs the reactions, `afterturn inbox` shows the conversations.")
    raise typer.Exit(Exit.FAILED if tally.bad else Exit.OK)


def _check_property(text: str) -> None:
    check_id(text)
    if text == UNASSIGNED:
        raise ValueError(f"{UNASSIGNED!r} is reserved; leave the flag out for unassigned conversations")


async def _import(
    app: App, settings: Settings, reader: Reader, limit: int | None, *, quiet: bool
) -> tuple[ImportCounts, bool, AfterturnError | None]:
    """What came in, whether a signal stopped it, and the error that did."""
    shown = 0

    def on_bad(record: BadRecord) -> None:
        nonlocal shown
        shown += 1
        if shown <= _BAD_SHOWN:
            note(f"bad: {record}")
        elif shown == _BAD_SHOWN + 1 and not quiet:
            note("bad: there are more; --json lists them all")

    async with app.open(settings) as backbone:
        loader = Loader(backbone, on_bad)
        stop = asyncio.Event()
        problem: AfterturnError | None = None
        loading = asyncio.create_task(loader.load(first(reader, limit), stop))
        with interruptible(stop.set, loading.cancel) as received:
            try:
                async with _progress(reader, loader.counts):
                    await loading
            except* AfterturnError as group:
                problem = _first(group)
            except* asyncio.CancelledError:
                pass
            return loader.counts, received() > 0, problem


def _first(group: BaseExceptionGroup[Any]) -> AfterturnError:
    first = group.exceptions[0]
    if isinstance(first, BaseExceptionGroup):
        return _first(first)
    assert isinstance(first, AfterturnError)
    return first


@asynccontextmanager
async def _progress(reader: Reader, tally: ImportCounts) -> AsyncIterator[None]:
    """A bar by bytes on a terminal; elsewhere a line every few seconds."""
    screen = Console(file=sys.stderr)
    if not screen.is_terminal:
        ticking = asyncio.create_task(_tick(lambda: note(f"{_share(reader)}  {_so_far(tally)}"), _TICK_LOG))
        try:
            yield
        finally:
            ticking.cancel()
        return
    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TextColumn("{task.fields[what]}"))
    with Progress(*columns, TimeRemainingColumn(), console=screen, transient=True) as bar:
        task = bar.add_task("import", total=reader.total_bytes, what="")
        ticking = asyncio.create_task(
            _tick(lambda: bar.update(task, completed=reader.bytes_read, what=_so_far(tally)), _TICK_SCREEN)
        )
        try:
            yield
        finally:
            ticking.cancel()


async def _tick(show: Any, pause: float) -> None:
    while True:
        await asyncio.sleep(pause)
        show()


def _share(reader: Reader) -> str:
    return f"{100 * reader.bytes_read // max(reader.total_bytes, 1):>3}%"


def _so_far(tally: ImportCounts) -> str:
    return f"{count(tally.conversations, 'conversation')}, {count(tally.messages, 'message')}"


def _summary(reader: Reader, tally: ImportCounts) -> None:
    def line(total: int, new: int) -> str:
        return f"{total:,} ({new:,} new)"

    print(f"{cell(reader.path)}: {reader.format.label}")
    facts(
        [
            ("conversations", line(tally.conversations, tally.new_conversations)),
            ("turns", line(tally.turns, tally.new_turns)),
            ("messages", line(tally.messages, tally.new_messages)),
            ("bad records", len(tally.bad)),
        ]
    )


def settle(
    ctx: typer.Context,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
    app: AppName = None,
    log_level: LogLevel = None,
) -> None:
    """Settle one turn, given as JSON on stdin.

    {"conversation": {"id": "c-1", "channel": "sms"}, "messages": [{"id": "m-1", "direction": "inbound", "role":
    "customer", "text": "Hi", "at": "2026-03-01T12:00:05Z"}], "key": "optional: settled once, however often it is sent"}

    Every message needs "at". The turn can have one, too, for history; default: now. "flushMode": "immediate" skips
    the quiet periods.
    """
    set_up_logging(ctx, log_level)
    if sys.stdin.isatty():
        note("Reading one turn as JSON; end it with Ctrl-D.")
    document = read_json(sys.stdin.buffer.read(), where="stdin")
    if not isinstance(document, dict):
        raise InvalidInput("stdin: is JSON, but not an object; give one turn")
    turn = parse(Turn, document)
    receipt = asyncio.run(_settle(app_of(ctx, app), cli_settings(ctx, db), turn))
    event = receipt.event
    if json_:
        write_json({"eventId": event.event_id, "occurredAt": to_text(event.occurred_at), "new": receipt.new})
    else:
        new = "yes" if receipt.new else "no: it was settled before, and nothing changed"
        facts([("eventId", event.event_id), ("occurredAt", to_text(event.occurred_at)), ("new", new)])


async def _settle(app: App, settings: Settings, turn: Turn) -> SettleResult:
    async with app.open(settings) as backbone:
        return await backbone.settle(turn)
