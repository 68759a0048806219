"""Exit codes, the exit code of each error, and Ctrl-C: the first asks to stop, the second stops at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from afterturn.errors import (
    AfterturnError,
    ConfigError,
    EngineUnavailable,
    InvalidInput,
    NotFound,
    StoreError,
    StreamUnavailable,
)


class Exit(IntEnum):
    """Exit codes of the command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    OWED = 3
    STORE = 4
    INTERRUPTED = 130
    CLOSED = 141


HELP = {
    Exit.OK: "done",
    Exit.FAILED: "some records were invalid, or something failed; everything else was stored",
    Exit.USAGE: "wrong usage or invalid input; nothing was written",
    Exit.OWED: "reactions are overdue or failed, or there are dead letters; an index or a lane has differences",
    Exit.STORE: "the store cannot be used (busy, full, read-only, damaged, foreign); AWS or Temporal is unavailable",
    Exit.INTERRUPTED: "interrupted by Ctrl-C; run it again to continue",
    Exit.CLOSED: "the reader of the output closed the pipe",
}

EPILOG = "Exit codes:\n\n" + "\n".join(f"- `{code.value}` {text}" for code, text in HELP.items())
"""The codes as ``--help`` prints them."""

_AT_ONCE = 2.0
"""Seconds that the second signal leaves to code that does not react to it."""

_BY_ERROR: tuple[tuple[type[AfterturnError], Exit], ...] = (
    (InvalidInput, Exit.USAGE),
    (NotFound, Exit.USAGE),
    (ConfigError, Exit.USAGE),
    (StoreError, Exit.STORE),
    (StreamUnavailable, Exit.STORE),
    (EngineUnavailable, Exit.STORE),
)


def exit_of(error: AfterturnError) -> Exit:
    """The exit code of an error."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), Exit.FAILED)


class ExitCodeGroup(TyperGroup):
    """Ends every error of afterturn or the system with one line on stderr and an exit code."""

    def get_help_option(self, ctx: Any) -> Any:
        option: Any = super().get_help_option(ctx)
        option.metavar = ""
        return option

    def make_context(self, *args: Any, **more: Any) -> Any:
        # Help is printed by a rich console, too.
        Console.on_broken_pipe = _raise_broken_pipe  # type: ignore[method-assign, assignment]
        try:
            return super().make_context(*args, **more)
        except typer.BadParameter as error:
            raise _plain(error) from None
        except BrokenPipeError:
            raise _closed() from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            raise _plain(error) from None
        except BrokenPipeError:
            raise _closed() from None
        except AfterturnError as error:
            raise _report(error) from None
        except BaseExceptionGroup as group:
            if (ours := group.subgroup(AfterturnError)) is None:
                raise
            raise _report(_first(ours)) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            print(f"error: {where}{error.strerror or error}", file=sys.stderr)
            raise typer.Exit(Exit.FAILED) from None


def hide_types(command: Any, ctx: Any) -> None:
    """Leave Python types such as <bool> or <path> out of a command's help: names and metavars are enough."""
    command.get_help_option(ctx).metavar = ""
    for argument in command.params:
        if argument.param_type_name == "argument":
            argument.display_type_rich = _no_type
    for below in getattr(command, "commands", {}).values():
        hide_types(below, ctx)


def _no_type(ctx: Any) -> str:
    return ""


def _raise_broken_pipe(console: Console) -> None:
    """Otherwise rich would exit with 1."""
    raise BrokenPipeError


def _closed() -> typer.Exit:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return typer.Exit(Exit.CLOSED)


_PLAIN = (
    ("Value error, ", ""),
    ("Input should be greater than or equal to", "has to be at least"),
    ("Input should be less than or equal to", "has to be at most"),
    ("Input should be a valid integer", "has to be a whole number"),
    ("Input should be a valid number", "has to be a number"),
)
"""pydantic's message texts and ours."""


def _plain(error: typer.BadParameter) -> typer.BadParameter:
    for theirs, ours in _PLAIN:
        if error.message.startswith(theirs):
            error.message = ours + error.message.removeprefix(theirs).partition(", unable to parse")[0]
    return error


def _report(error: BaseException) -> typer.Exit:
    print(f"error: {error}", file=sys.stderr)
    return typer.Exit(exit_of(error) if isinstance(error, AfterturnError) else Exit.FAILED)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


@contextmanager
def interruptible(first: Callable[[], object], second: Callable[[], object]) -> Iterator[Callable[[], int]]:
    """Call ``first`` in the loop at the first SIGINT or SIGTERM and ``second`` at the next; yields their count.

    If ``second`` does not end the process soon, the process is ended: every write is a transaction, so it may end
    anywhere.
    """
    loop = asyncio.get_running_loop()
    received = 0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal received
        received += 1
        loop.call_soon_threadsafe(first if received == 1 else second)
        if received == 2:
            timer = threading.Timer(_AT_ONCE, _end)
            timer.daemon = True
            timer.start()

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(ValueError):  # not in the main thread: nobody can press Ctrl-C on us
            before[number] = signal.signal(number, on_signal)
    try:
        yield lambda: received
    finally:
        if received < 2:
            for number, handler in before.items():
                signal.signal(number, handler)


def _end() -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(Exit.INTERRUPTED)
