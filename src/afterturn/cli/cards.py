"""The inbox as people see it: two lines a conversation, at most 100 columns, with or without a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import datetime

from rich.text import Text

from afterturn.cli.output import WIDEST, cell, console, padded
from afterturn.inbox import InboxRow
from afterturn.inbox.presentation import age, alerts_of, consumers_in, grade_of, topics_of
from afterturn.model import UNASSIGNED
from afterturn.reactions.state import ReactionState

_INDENT = "      "
_GRADE_STYLES = {"A": "green", "B": "green", "C": "yellow", "D": "red", "F": "red"}


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
