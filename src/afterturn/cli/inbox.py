"""``inbox``, ``show``, ``work-orders`` and ``opt-outs``."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from afterturn.channels.outbox import send_outcomes
from afterturn.cli.options import Db, Json, Limit, Profiled, open_existing, settings_of, with_filters
from afterturn.cli.output import WIDEST, cell, console, note, padded, table, timestamp, write_json
from afterturn.cli.thread import print_thread, thread_json
from afterturn.errors import InvalidRecord, NotFound
from afterturn.inbox import InboxPage, InboxQuery, InboxRow
from afterturn.inbox.filters import BY_FIELD
from afterturn.inbox.presentation import age, alerts_of, consumers_in, grade_of, topics_of
from afterturn.model import UNASSIGNED, Direction, WorkOrder, parse
from afterturn.reactions.state import ReactionState
from afterturn.store.state import OptOut, OptOutKey

_INDENT = "      "
_GRADE_STYLES = {"A": "green", "B": "green", "C": "yellow", "D": "red", "F": "red"}


@with_filters
def inbox(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(metavar="N", help="Conversations a page, 1 to 500.")] = 50,
    cursor: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="The cursor that the last page ended with.")
    ] = None,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
    **filters: Any,
) -> None:
    """List conversations, newest first."""
    try:
        query = parse(InboxQuery, {**filters, "limit": limit})
    except InvalidRecord as error:
        field = error.field.partition("[")[0]
        option = BY_FIELD[field].filter.option if field in BY_FIELD else f"--{field}" if field else ""
        raise InvalidRecord(option, error.problem) from None
    asyncio.run(_inbox(ctx, db, query, cursor, as_json=json_))


async def _inbox(ctx: typer.Context, db: Any, query: InboxQuery, cursor: str | None, *, as_json: bool) -> None:
    async with open_existing(settings_of(ctx, db)) as backbone:
        page = await backbone.inbox.page(query, cursor)
        now = backbone.clock()
    if as_json:
        write_json(page.to_json())
        return
    if console().is_terminal:
        print_cards(page.rows, now)
    else:
        _print_rows(page.rows)
    _note_next_page(page)


def print_cards(rows: Sequence[InboxRow], now: datetime) -> None:
    """Time ago, channel, property, id, grade, alert and repairs; then the last words and the topics."""
    screen = console()
    width = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST) if screen.is_terminal else WIDEST
    for row in rows:
        screen.print(_first_line(row, now), soft_wrap=True)
        screen.print(_second_line(row, width), soft_wrap=True)


def _first_line(row: InboxRow, now: datetime) -> Text:
    conversation = row.conversation
    line = Text()
    line.append(f"{age(now - conversation.recency):>4}  ", "cyan")
    line.append(padded(conversation.channel.value, 8) + "  ")
    line.append(padded(cell(conversation.property_id or UNASSIGNED), 17) + "  ", "dim")
    line.append(padded(cell(conversation.id), 26), "bold")
    grade = grade_of(row)
    line.append(f"  {grade or '-'}", _GRADE_STYLES.get(grade or "", "dim"))
    for kind in alerts_of(row):
        line.append(f"  ● {kind}", "bold red")
    for state, style in ((ReactionState.OWED, "yellow"), (ReactionState.FAILED, "red")):
        if names := consumers_in(row, state):
            line.append(f"  {state.value}: {', '.join(names)}", style)
    if conversation.synthetic or conversation.gauntlet:
        line.append("  synthetic", "dim")
    return line


def _second_line(row: InboxRow, width: int) -> Text:
    topics = ", ".join(topics_of(row))
    right = Text(f"  [{topics}]" if topics else "", "magenta")
    right.truncate(width // 2, overflow="ellipsis")
    left = Text(_INDENT)
    if row.role is not None:
        left.append(f"{row.role.value}: {row.text}", "dim")
        left.truncate(max(width - right.cell_len, 20), overflow="ellipsis", pad=bool(topics))
    return left + right


def _print_rows(rows: Sequence[InboxRow]) -> None:
    columns = ("LAST", "CHANNEL", "PROPERTY", "CONVERSATION", "TYPE", "STATUS", "GRADE", "TOPICS", "ALERTS", "OWED")
    lines = []
    for row in rows:
        conversation = row.conversation
        lines.append(
            (
                timestamp(conversation.recency),
                conversation.channel.value,
                conversation.property_id,
                conversation.id,
                conversation.type,
                conversation.status.value,
                grade_of(row),
                ",".join(topics_of(row)),
                ",".join(alerts_of(row)),
                ",".join(consumers_in(row, ReactionState.OWED)),
                ",".join(consumers_in(row, ReactionState.FAILED)),
                None if row.role is None else f"{row.role.value}: {row.text}",
            )
        )
    table((*columns, "FAILED", "LAST WORDS"), lines)


def _note_next_page(page: InboxPage) -> None:
    if not page.rows and page.complete:
        note("No conversations.")
    if not page.complete and page.next_cursor is not None:
        note(f"{page.scanned:,} rows were read before the page was full; there may be more.")
    if page.next_cursor is not None:
        note(f"Next page: --cursor {page.next_cursor}")


def show(
    ctx: typer.Context,
    conversation_id: Annotated[str, typer.Argument(metavar="ID", help="The conversation.")],
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
) -> None:
    """Show a conversation: messages, delivery, turns, stamps and work orders.

    With --json it is a line that `import` accepts.
    """
    asyncio.run(_show(ctx, db, conversation_id, as_json=json_))


async def _show(ctx: typer.Context, db: Any, conversation_id: str, *, as_json: bool) -> None:
    async with open_existing(settings_of(ctx, db)) as backbone:
        row = await backbone.inbox.row(conversation_id)
        if row is None:
            raise NotFound(f"there is no conversation {conversation_id!r}; `afterturn inbox --window all` lists them")
        messages = await backbone.store.messages(conversation_id)
        turns = await backbone.store.turns(conversation_id, limit=10_000_000)
        orders = await backbone.store.work_orders(conversation_id=conversation_id, open_only=False, limit=100_000)
        outbound = [] if as_json else [each.id for each in messages if each.direction is Direction.OUTBOUND]
        sending = await send_outcomes(backbone.store, conversation_id, outbound)
    if as_json:
        write_json(thread_json(row, messages, turns, orders))
    else:
        print_thread(row, messages, turns, orders, sending)


def work_orders(
    ctx: typer.Context,
    conversation_id: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="Only those of this conversation.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", metavar="", help="Include closed ones.")] = False,
    limit: Limit = 100,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
) -> None:
    """List work orders, most urgent first."""
    orders = asyncio.run(_work_orders(ctx, db, conversation_id, open_only=not all_, limit=limit + 1))
    complete, orders = len(orders) <= limit, orders[:limit]
    if json_:
        write_json({"workOrders": [order.to_json() for order in orders], "complete": complete})
        return
    print_work_orders(orders)
    if not orders:
        note("No work orders.")
    if not complete:
        note(f"There are more than {limit}; raise --limit.")


async def _work_orders(
    ctx: typer.Context, db: Any, conversation_id: str | None, *, open_only: bool, limit: int
) -> tuple[WorkOrder, ...]:
    async with open_existing(settings_of(ctx, db)) as backbone:
        if conversation_id is not None and await backbone.store.conversation(conversation_id) is None:
            raise NotFound(f"there is no conversation {conversation_id!r}")
        return await backbone.store.work_orders(conversation_id=conversation_id, open_only=open_only, limit=limit)


def print_work_orders(orders: Sequence[WorkOrder]) -> None:
    """One line each."""
    table(
        ("URGENCY", "CATEGORY", "OPENED", "STATUS", "PROPERTY", "CONVERSATION", "ID"),
        [
            (
                order.urgency.value,
                order.category,
                order.opened_at,
                order.status.value,
                order.property_id,
                order.conversation_id,
                order.id,
            )
            for order in orders
        ],
    )


def opt_outs(
    ctx: typer.Context,
    all_: Annotated[bool, typer.Option("--all", metavar="", help="Include addresses that opted in again.")] = False,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
) -> None:
    """List every address that opted out of automatic messages."""
    records = [record for record in asyncio.run(_opt_outs(ctx, db)) if record.opted_out or all_]
    if json_:
        write_json({"optOuts": [record.to_json() for record in records]})
        return
    table(
        ("CHANNEL", "ADDRESS", "STATE", "SINCE"),
        [(each.channel.value, each.address, "out" if each.opted_out else "in again", each.at) for each in records],
    )
    if not records:
        note("Nobody has opted out.")


async def _opt_outs(ctx: typer.Context, db: Any) -> list[OptOut]:
    records: list[OptOut] = []
    async with open_existing(settings_of(ctx, db)) as backbone:
        while page := await backbone.store.opt_outs(after=OptOutKey.of(records[-1]) if records else None, limit=1_000):
            records += page
    return records
