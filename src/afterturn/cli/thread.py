"""One conversation, whole: for people, and as a line that ``import`` takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from afterturn.channels.outbox import DeliverySummary, SendOutcome, delivery_summary
from afterturn.cli.output import cell, console, facts, padded, table, timestamp
from afterturn.importers.jsonl import TurnEnd, document
from afterturn.inbox import InboxRow
from afterturn.inbox.presentation import one_line
from afterturn.model import Message, SettledTurn, WorkOrder

_ROLE = 9
_STAMP = 120
"""Characters of a stamp as people see it."""


def thread_json(
    row: InboxRow, messages: Sequence[Message], turns: Sequence[SettledTurn], orders: Sequence[WorkOrder]
) -> dict[str, Any]:
    """An own JSON Lines document, with the states of the reactions and the work orders beside it."""
    line = document(row.conversation, messages, turn_ends(messages, turns))
    line["states"] = {name: state.value for name, state in row.states.items()}
    line["workOrders"] = [order.to_json() for order in orders]
    return line


def turn_ends(messages: Sequence[Message], turns: Sequence[SettledTurn]) -> list[TurnEnd]:
    """Where each turn ended, in thread order, by the number of messages until then.

    Where a message came late, that is not the message that ended the turn, but the number of messages and the order
    of turns are kept. A turn before any message has no place in a document.
    """
    return [
        TurnEnd(through=messages[turn.last_seq - 1].id, at=turn.occurred_at, flush_mode=turn.flush_mode)
        for turn in turns
        if 0 < turn.last_seq <= len(messages)
    ]


def print_thread(
    row: InboxRow,
    messages: Sequence[Message],
    turns: Sequence[SettledTurn],
    orders: Sequence[WorkOrder],
    sending: Mapping[str, SendOutcome],
) -> None:
    """Everything that is known of a conversation. ``sending``: by message."""
    conversation = row.conversation
    flags = [name for name in ("synthetic", "gauntlet") if getattr(conversation, name)]
    facts(
        [
            ("conversation", conversation.id),
            ("channel", conversation.channel.value),
            ("property", conversation.property_id or "unassigned"),
            ("type", conversation.type),
            ("status", " ".join([conversation.status.value, *flags])),
            ("participants", ", ".join(conversation.participants)),
            ("assignee", conversation.assignee),
            ("created", conversation.created_at),
            ("last message", conversation.last_message_at),
            ("settled", conversation.settled_at),
        ]
    )
    _section(f"Messages ({len(messages):,})")
    for message in messages:
        _print_message(message, delivery_summary(sending.get(message.id)))
    _section(f"Turns ({len(turns):,})")
    table(
        ("OCCURRED", "RECORDED", "MESSAGES", "FLUSH", "EMITTER"),
        [(turn.occurred_at, turn.recorded_at, turn.last_seq, turn.flush_mode.value, turn.emitter) for turn in turns],
    )
    _section("Reactions")
    _print_reactions(row)
    if orders:
        _section(f"Work orders ({len(orders):,})")
        table(
            ("URGENCY", "CATEGORY", "OPENED", "STATUS", "ID"),
            [(order.urgency.value, order.category, order.opened_at, order.status.value, order.id) for order in orders],
        )


def _print_reactions(row: InboxRow) -> None:
    lines = [
        (
            name,
            state.value,
            None if stamp is None else stamp.through,
            None if stamp is None else stamp.error,
            summary(row.stamp(name)),
        )
        for name, state in row.states.items()
        for stamp in [row.conversation.reactions.get(name)]
    ]
    columns = ("CONSUMER", "STATE", "THROUGH", "ERROR", "STAMP")
    if console().is_terminal:
        # Beside the rest a stamp would be folded into a narrow column.
        table(columns[:-1], [line[:-1] for line in lines])
        _section("Stamps")
        table(("CONSUMER", "STAMP"), [(line[0], line[-1]) for line in lines])
    else:
        table(columns, lines)


def summary(stamp: Mapping[str, Any]) -> str:
    """A stamp for people: what it says first, in a line; ``--json`` has it whole.

    Empty values are left out; nested values are shown by their size, as in ``open: (2)``.
    """
    text = ""
    for name, value in stamp.items():
        brief = _brief(value)
        if not brief:
            continue
        more = f"{text}, {name}: {brief}" if text else f"{name}: {brief}"
        if len(more) > _STAMP:
            return f"{text or more[:_STAMP]} …"
        text = more
    return text


def _brief(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return one_line(value)
        case dict() | list() if not value:
            return ""
        case dict():
            return f"({len(value)})"
        case list():
            plain = all(isinstance(item, str | int | float) for item in value)
            return " ".join(map(one_line, value)) if plain else f"({len(value)})"
        case _:
            return json.dumps(value)


def _section(title: str) -> None:
    screen = console()
    screen.print()
    screen.print(Text(title, "bold"))


def _print_message(message: Message, sending: DeliverySummary | None) -> None:
    head = f"{timestamp(message.at)}  {padded(message.role.value, _ROLE)}"
    lines = message.text.splitlines()
    lines += [
        f"[{cell(attachment.name or attachment.media_type)}: {cell(attachment.url)}]"
        for attachment in message.attachments
    ]
    screen = console()
    for number, line in enumerate(lines or [""]):
        text = Text(f"{head if number == 0 else ' ' * len(head)}  ", "dim")
        text.append(line, "" if message.direction == "inbound" else "cyan")
        screen.print(text, soft_wrap=True)
    if sending is not None:
        style = "bold red" if sending.bad else "dim"
        screen.print(Text(f"{' ' * len(head)}  ({cell(sending.text)})", style), soft_wrap=True)
