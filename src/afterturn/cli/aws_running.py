"""How commands on AWS run: stopped by Ctrl-C without a loss, with their progress on stderr."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import typer

from afterturn.cli.exits import Exit
from afterturn.cli.output import note
from afterturn.errors import InvalidInput
from afterturn.inbox.presentation import duration
from afterturn.operations.walking import Progress

T = TypeVar("T")

_LINE_EVERY = 5.0


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, or until Ctrl-C: every write is one step of its own, so it may stop anywhere."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        note("Stopped. Run it again to go on from there.")
        raise typer.Exit(Exit.INTERRUPTED) from None


def confirm(table: str, confirmed: str | None) -> bool:
    """Whether to write. Raises InvalidInput where another table was confirmed than the one that is meant."""
    if confirmed is not None and confirmed != table:
        raise InvalidInput(f"--confirm-table names {confirmed}, but the table is {table}; nothing was done")
    return confirmed is not None


class Meter:
    """Progress on stderr: on a terminal in place, elsewhere a line every few seconds."""

    def __init__(self) -> None:
        self._shown = time.monotonic()
        self._in_place = sys.stderr.isatty()

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._shown < (0.2 if self._in_place else _LINE_EVERY):
            return
        self._shown = now
        line = told(progress)
        if self._in_place:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        else:
            note(line)

    def end(self) -> None:
        if self._in_place:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def told(progress: Progress) -> str:
    """``stamping: 12,000 of about 50,000 items, 3,400 rows, 120 stamped, about 4m left``."""
    of = "" if progress.total is None else f" of about {max(progress.total, progress.looked):,}"
    parts = [f"{progress.doing}: {progress.looked:,}{of} items", f"{progress.rows:,} rows"]
    if progress.written:
        parts.append(
            f"{progress.written:,} to stamp" if progress.doing == "looking" else f"{progress.written:,} stamped"
        )
    if (left := progress.seconds_left) is not None:
        parts.append(f"about {duration(timedelta(seconds=left))} left")
    return ", ".join(parts)
