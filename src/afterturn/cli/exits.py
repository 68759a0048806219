"""Exit codes, and which error ends in which."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from enum import IntEnum
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
    """What the shell is told."""

    OK = 0
    FAILED = 1
    USAGE = 2
    OWED = 3
    STORE = 4
    INTERRUPTED = 130
    CLOSED = 141


HELP = {
    Exit.OK: "done",
    Exit.FAILED: "some records were bad, or something failed; the rest is in",
    Exit.USAGE: "wrong usage or bad input; nothing was written",
    Exit.OWED: "reactions are owed, failed, or lie in the dead letters; an index drifted; a wire is crossed or missing",
    Exit.STORE: "the store cannot be used (busy, full, read-only, damaged, foreign); AWS or Temporal does not answer",
    Exit.INTERRUPTED: "stopped by Ctrl-C; running it again goes on",
    Exit.CLOSED: "whoever read the output went away",
}

EPILOG = "Exit codes:\n\n" + "\n".join(f"- `{code.value}` {text}" for code, text in HELP.items())
"""The codes as ``--help`` prints them."""

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


class Commands(TyperGroup):
    """The root of all commands: an error that is ours, or the system's, is one line on stderr and an exit code."""

    def get_help_option(self, ctx: Any) -> Any:
        for command in _below(self):
            _without_kinds(command, command.get_help_option(ctx))
        option = super().get_help_option(ctx)
        _without_kinds(self, option)
        return option

    def make_context(self, *args: Any, **more: Any) -> Any:
        # Also what prints help is a console of rich.
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
            raise _told(error) from None
        except BaseExceptionGroup as group:
            if (ours := group.subgroup(AfterturnError)) is None:
                raise
            raise _told(_first(ours)) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            print(f"error: {where}{error.strerror or error}", file=sys.stderr)
            raise typer.Exit(Exit.FAILED) from None


def _below(group: Any) -> Iterator[Any]:
    for command in group.commands.values():
        yield command
        if hasattr(command, "commands"):
            yield from _below(command)


def _without_kinds(command: Any, help_option: Any) -> None:
    """Beside a name that says it, a kind of the language such as <bool>, <path> or <str> only puzzles."""
    help_option.metavar = ""
    for argument in command.params:
        if argument.param_type_name == "argument":
            argument.display_type_rich = _unsaid


def _unsaid(ctx: Any) -> str:
    return ""


def _raise_broken_pipe(console: Console) -> None:
    """As for everything else that is printed; rich would exit with 1."""
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
"""What pydantic says, and what we say in its place."""


def _plain(error: typer.BadParameter) -> typer.BadParameter:
    for theirs, ours in _PLAIN:
        if error.message.startswith(theirs):
            error.message = ours + error.message.removeprefix(theirs).partition(", unable to parse")[0]
    return error


def _told(error: BaseException) -> typer.Exit:
    print(f"error: {error}", file=sys.stderr)
    return typer.Exit(exit_of(error) if isinstance(error, AfterturnError) else Exit.FAILED)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
