"""What people and programs read: tables on stdout, JSON on stdout, notes on stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDEST = 100
"""Columns of what is laid out for people, also where there is no terminal."""

_BREAKS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")


def console() -> Console:
    """Stdout, coloured where it is a terminal; content is never taken for markup."""
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False)


def write_json(value: Any) -> None:
    """One line of JSON. What the terminal's encoding cannot show becomes a JSON escape."""
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    print(json.dumps(value, ensure_ascii=not encoding.startswith("utf"), allow_nan=False))


def note(text: str) -> None:
    """For people, on stderr."""
    print(text, file=sys.stderr, flush=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Rows under a head. Values are never cut: a terminal folds them, a pipe gets them whole, aligned by spaces."""
    cells = [[cell(value) for value in row] for row in rows]
    screen = console()
    if screen.is_terminal:
        shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for column in columns:
            shown.add_column(column, overflow="fold")
        for row in cells:
            shown.add_row(*map(Text, row))
        screen.print(shown)
        return
    lines = [list(columns), *cells]
    widths = [max(cell_len(line[number]) for line in lines) for number in range(len(columns))]
    for line in lines:
        print("  ".join(padded(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip())


def facts(pairs: Sequence[tuple[str, object]]) -> None:
    """Names and values, one a line."""
    width = max(cell_len(name) for name, _ in pairs)
    for name, value in pairs:
        print(f"{padded(name, width)}  {cell(value)}".rstrip())


def padded(text: str, width: int) -> str:
    """Filled with spaces up to so many terminal columns."""
    return text + " " * (width - cell_len(text))


def cell(value: object) -> str:
    """A value for a cell: none is a dash. Spaces stay as they are, since an id may have several; lines do not break."""
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return _BREAKS.sub(" ", str(value))


def timestamp(at: datetime) -> str:
    """A time for people: UTC, whole seconds."""
    return f"{at:%Y-%m-%dT%H:%M:%S}Z"
