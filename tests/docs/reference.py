"""Writes the reference pages that follow from the code: ``python -m tests.docs.reference`` (or ``make docs``)."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from afterturn.cli.app import app
from afterturn.cli.exits import HELP, exit_of
from afterturn.config import Settings, as_written
from afterturn.errors import AfterturnError
from afterturn.event import event_schema

PAGES = Path(__file__).parents[2] / "docs/reference"

_CLI = """\
# The command

*Written by `make docs` from the code; a test compares.*

Results go to stdout, progress and problems to stderr. With `--json`, stdout is one line of JSON and nothing else.
Shared options may stand before or after the command's name, and each has a variable. `--help` works everywhere.
[What the exit codes mean](errors-and-exit-codes.md).
"""

_SETTINGS = """\
# Settings

*Written by `make docs` from the code; a test compares.*

Every setting is an environment variable, read once when an app is opened and fixed from then on. In Python the same
names are keyword arguments of `App.open`, and win over the environment. A duration is a number and a unit: `250ms`,
`90s`, `5m`, `1.5h`, `7d`. A setting that makes no sense is refused by name, with exit code 2. Of a name that is
almost one of these, the command says which was meant, and goes on. Secrets are masked wherever settings are printed.

| variable | default | what it sets |
|---|---|---|
"""

_COMMAND_ONLY = """
The command reads two more:

| variable | default | what it sets |
|---|---|---|
"""

_EXITS = """\
# Errors and exit codes

*Written by `make docs` from the code; a test compares.*

## Exit codes

| code | meaning |
|---|---|
"""

_ERRORS = """
## Errors

Every error that afterturn raises on purpose is an `afterturn.AfterturnError`; the kinds stand in `afterturn.errors`.
Its text says what is wrong, where, and what would be right; it never holds what somebody wrote. The command prints it
as one line on stderr.

| error | exit code | meaning |
|---|---|---|
"""


def pages() -> dict[str, str]:
    """The text of each page, by its name."""
    return {
        "cli.md": cli(),
        "settings.md": settings(),
        "errors-and-exit-codes.md": errors(),
        "event.schema.json": json.dumps(event_schema(), indent=2) + "\n",
    }


def cli() -> str:
    """Every command with its arguments and options."""
    root = typer.main.get_command(app)
    parts = [_CLI, "## Shared options\n", *_options(root)]
    for name, command in commands(root):
        parts += [f"## {name}\n", _prose(command.help), f"    {_usage(name, command)}\n", *_options(command)]
        shared = [option for parameter in command.params if _is_shared(parameter) for option in parameter.opts]
        if shared:
            parts.append(f"Shared: {', '.join(f'`{option}`' for option in shared)}.\n")
    return "\n".join(parts)


def commands(group: Any, name: str = "afterturn") -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its whole name."""
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


def settings() -> str:
    """Every setting with its variable and default, and the variables of the command alone."""
    rows = [
        f"| `AFTERTURN_{name.upper()}` | {_default(field.default)} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    known = {f"AFTERTURN_{name.upper()}" for name in Settings.model_fields}
    more = [
        f"| `{parameter.envvar}` | – | {_without_variable(parameter)} The flag is `{parameter.opts[0]}`. |"
        for parameter in typer.main.get_command(app).params
        if getattr(parameter, "envvar", None) and parameter.envvar not in known
    ]
    return _SETTINGS + "\n".join(rows) + "\n" + _COMMAND_ONLY + "\n".join(more) + "\n"


def errors() -> str:
    """The exit codes, and every error with its own."""
    codes = [f"| {code.value} | {text} |" for code, text in HELP.items()]
    kinds = [
        f"| {'&nbsp;' * 4 * depth}`{kind.__name__}` | {_exit(kind)} | {_line(kind)} |"
        for depth, kind in _tree(AfterturnError)
    ]
    return _EXITS + "\n".join(codes) + "\n" + _ERRORS + "\n".join(kinds) + "\n"


def _tree(kind: type[AfterturnError], depth: int = 0) -> Iterator[tuple[int, type[AfterturnError]]]:
    yield depth, kind
    for below in kind.__subclasses__():
        if below.__module__ == AfterturnError.__module__:
            yield from _tree(below, depth + 1)


def _exit(kind: type[AfterturnError]) -> int:
    return exit_of(kind.__new__(kind)).value


def _line(kind: type) -> str:
    return " ".join((inspect.getdoc(kind) or "").replace("``", "`").split())


def _usage(name: str, command: Any) -> str:
    return " ".join([name, "[OPTIONS]", *(p.metavar for p in command.params if p.param_type_name == "argument")])


def _options(command: Any) -> list[str]:
    rows = [
        f"| `{_flag(parameter)}` | {_cell(_prose(parameter.help))}{_given(parameter)} |"
        for parameter in command.params
        if parameter.help and not _is_shared(parameter) and "--help" not in parameter.opts
    ]
    return ["| | |\n|---|---|\n" + "\n".join(rows) + "\n"] if rows else []


def _is_shared(parameter: Any) -> bool:
    return getattr(parameter, "rich_help_panel", None) == "Shared options"


def _flag(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar)
    value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
    return (", ".join(parameter.opts) + value).replace("|", r"\|")


def _given(parameter: Any) -> str:
    default = parameter.default
    shown = isinstance(default, int | str) and not isinstance(default, bool)
    return f" Default: {default}." if shown else ""


def _default(value: object) -> str:
    if value in (None, ()):
        return "–"
    return f"`{value if (written := as_written(value)) is None else written}`"


def _without_variable(parameter: Any) -> str:
    return str(parameter.help).removesuffix(f" ({parameter.envvar})")


def _prose(text: str | None) -> str:
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(" ".join(one.split("\n")) for one in paragraphs) + "\n"


def _cell(text: str) -> str:
    return text.strip().replace("|", r"\|")


if __name__ == "__main__":
    for page, text in pages().items():
        (PAGES / page).write_text(text, "utf-8")
