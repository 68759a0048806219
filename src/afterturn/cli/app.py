"""The root of the command. Each command's module is imported only when that command is called."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from afterturn.cli.exits import EPILOG, ExitCodeGroup, hide_types
from afterturn.cli.options import RootApp, RootDb, RootLogLevel, RootProfile, SharedOptions, set_up_logging
from afterturn.cli.output import note
from afterturn.config import misspelt

_MARKUP: Any = "markdown"
_START = "Start here"
_RUN = "Bring turns in, run reactions"
_LOOK = "Look"
_REPAIR = "Check and repair"


@dataclass(frozen=True, slots=True)
class Entry:
    """A command or a group of commands: where it is defined, and its line in ``afterturn --help``."""

    name: str
    module: str
    attribute: str
    panel: str
    help: str

    def load(self) -> Any:
        """Import the module and build the command."""
        target = getattr(importlib.import_module(f"afterturn.cli.{self.module}"), self.attribute)
        parent = typer.Typer(rich_markup_mode=_MARKUP)
        parent.callback()(lambda: None)
        if isinstance(target, typer.Typer):
            parent.add_typer(target, name=self.name)
        else:
            parent.command(self.name)(target)
        group: Any = typer.main.get_command(parent)
        return group.commands[self.name]


ENTRIES = (
    Entry("demo", "demo", "demo", _START, "Run sample conversations through every stage: settle, react, inbox, audit."),
    Entry("import", "settle", "import_", _RUN, "Import conversations from a file."),
    Entry("settle", "settle", "settle", _RUN, "Settle one turn, given as JSON on stdin."),
    Entry("simulate", "simulate", "simulate", _RUN, "Play past conversations as if they happened now, but faster."),
    Entry("up", "up", "up", _RUN, "Run bridge, reactions and sweeps, and serve the inbox, the HTTP API and webhooks."),
    Entry("bridge", "run", "bridge", _RUN, "Run the bridge alone: read the stream and signal every consumer."),
    Entry("worker", "run", "worker", _RUN, "Run reactions and sweeps without the bridge."),
    Entry("drain", "run", "drain", _RUN, "Run until nothing waits and nothing is owed, then report what is left."),
    Entry("token", "tokens", "app", _RUN, "Bearer tokens of the HTTP API."),
    Entry("inbox", "inbox", "inbox", _LOOK, "List conversations, newest first."),
    Entry("show", "inbox", "show", _LOOK, "Show a conversation: messages, delivery, turns, stamps and work orders."),
    Entry("work-orders", "inbox", "work_orders", _LOOK, "List work orders, most urgent first."),
    Entry("opt-outs", "inbox", "opt_outs", _LOOK, "List every address that opted out of automatic messages."),
    Entry("stats", "ledger", "stats", _LOOK, "Count what is in each stage, and how old the oldest entry is."),
    Entry(
        "audit",
        "ledger",
        "audit",
        _REPAIR,
        "List each reaction that is overdue or failed, and count those that are owed.",
    ),
    Entry("sweep", "ledger", "sweep", _REPAIR, "Re-emit overdue reactions into the stream."),
    Entry("replay", "ledger", "replay", _REPAIR, "Re-run consumers over past conversations."),
    Entry("reactions", "reactions", "app", _REPAIR, "Consumers and their failed reactions."),
    Entry("dead-letters", "dead_letters", "app", _REPAIR, "Stream records that cannot be handled."),
    Entry("aws", "aws", "app", _REPAIR, "Table, queues, alarms and functions of a lane in AWS."),
)


class LazyGroup(ExitCodeGroup):
    """Lists every command from :data:`ENTRIES`, and imports the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for entry in ENTRIES:
            self.commands[entry.name] = TyperCommand(entry.name, help=entry.help, rich_help_panel=entry.panel)
        self._entries = {entry.name: entry for entry in ENTRIES}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if name in self._entries:
            command = self.load(name)
            hide_types(command, ctx)
        return name, command, rest

    def load(self, name: str) -> Any:
        """A command with its arguments and options."""
        return self._entries[name].load()


app = typer.Typer(
    cls=LazyGroup,
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=_MARKUP,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(requested: bool) -> None:
    if requested:
        try:
            print(version("afterturn"))
        except PackageNotFoundError:
            print("not installed")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    profile: RootProfile = None,
    db: RootDb = None,
    app_name: RootApp = None,
    log_level: RootLogLevel = None,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", metavar="", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """The durable backbone behind an AI agent that talks to customers.

    `import` and `settle` store conversations, `up` and `drain` run reactions, `inbox` and `show` list conversations
    with what the reactions stamped, and `audit` checks that nothing is owed. Start with `afterturn demo`.
    """
    ctx.obj = SharedOptions(profile=profile, db=db, app=app_name, log_level=log_level)
    set_up_logging(ctx, None)
    for name, near in misspelt(os.environ):
        note(f"{name} is not a setting of afterturn and is ignored; did you mean {near}?")
