"""``inbox``, ``show`` and ``work-orders``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from afterturn.channels.outbox import sending_of
from afterturn.cli.cards import print_cards
from afterturn.cli.options import Db, Json, Limit, Profiled, open_existing, settings_of, with_filters
from afterturn.cli.output import console, note, table, timestamp, write_json
from afterturn.cli.thread import print_thread, thread_json
from afterturn.errors import InvalidRecord, NotFound
from afterturn.inbox import InboxPage, InboxQuery, InboxRow
from afterturn.inbox.filters import BY_FIELD
from afterturn.inbox.presentation import alerts_of, consumers_in, grade_of, topics_of
from afterturn.model import Direction, WorkOrder, parse
from afterturn.reactions.state import ReactionState


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
    _say_what_follows(page)


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


def _say_what_follows(page: InboxPage) -> None:
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
        going = [] if as_json else [one.id for one in messages if one.direction is Direction.OUTBOUND]
        sending = await sending_of(backbone.store, conversation_id, going)
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
    found = asyncio.run(_work_orders(ctx, db, conversation_id, open_only=not all_, limit=limit + 1))
    complete, found = len(found) <= limit, found[:limit]
    if json_:
        write_json({"workOrders": [order.to_json() for order in found], "complete": complete})
        return
    print_work_orders(found)
    if not found:
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
