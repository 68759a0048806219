"""The commands, as ``afterturn --help`` lists them."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from afterturn.cli import aws, dead_letters, demo, inbox, ledger, reactions, run, settle, simulate, stats, tokens, up
from afterturn.cli.exits import EPILOG, Commands
from afterturn.cli.options import RootApp, RootDb, RootLogLevel, RootProfile, SharedOptions, set_up_logging
from afterturn.cli.output import note
from afterturn.operations.wires.settings import misspelt

app = typer.Typer(
    cls=Commands,
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_START = "Start here"
_RUN = "Bring turns in, run reactions"
_LOOK = "Look"
_REPAIR = "Check and repair"

app.command("demo", rich_help_panel=_START)(demo.demo)
app.command("import", rich_help_panel=_RUN)(settle.import_)
app.command("settle", rich_help_panel=_RUN)(settle.settle)
app.command("simulate", rich_help_panel=_RUN)(simulate.simulate)
app.command("up", rich_help_panel=_RUN)(up.up)
app.command("bridge", rich_help_panel=_RUN)(run.bridge)
app.command("worker", rich_help_panel=_RUN)(run.worker)
app.command("drain", rich_help_panel=_RUN)(run.drain)
app.command("inbox", rich_help_panel=_LOOK)(inbox.inbox)
app.command("show", rich_help_panel=_LOOK)(inbox.show)
app.command("work-orders", rich_help_panel=_LOOK)(inbox.work_orders)
app.command("stats", rich_help_panel=_LOOK)(stats.stats)
app.command("audit", rich_help_panel=_REPAIR)(ledger.audit)
app.command("sweep", rich_help_panel=_REPAIR)(ledger.sweep)
app.command("replay", rich_help_panel=_REPAIR)(ledger.replay)
app.add_typer(reactions.app, name="reactions", rich_help_panel=_REPAIR)
app.add_typer(dead_letters.app, name="dead-letters", rich_help_panel=_REPAIR)
app.add_typer(tokens.app, name="token", rich_help_panel=_RUN)
app.add_typer(aws.app, name="aws", rich_help_panel=_REPAIR)


def _show_version(wanted: bool) -> None:
    if wanted:
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

    Conversations come in (`import`, `settle`), reactions run (`up`, `drain`), the inbox shows them newest first with
    what the reactions stamped (`inbox`, `show`), and the ledger proves that nothing is owed (`audit`).
    Start with `afterturn demo`.
    """
    ctx.obj = SharedOptions(profile=profile, db=db, app=app_name, log_level=log_level)
    set_up_logging(ctx, None)
    for name, near in misspelt(os.environ):
        note(f"{name} is no setting of afterturn, and is ignored; did you mean {near}?")
