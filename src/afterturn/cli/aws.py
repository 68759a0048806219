"""``aws``: what a lane has in an account. What these commands need is loaded when one is run."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from afterturn.cli import aws_functions
from afterturn.cli.aws_options import DryRun, Whose, on_a_lane, seconds
from afterturn.cli.options import Json, settings_of

Notify = Annotated[
    list[str] | None,
    typer.Option(metavar="ARN", help="Where alarms go, in place of the SNS topic afterturn-{lane}-alarms. Repeatable."),
]
Confirm = Annotated[
    str | None,
    typer.Option("--confirm-table", metavar="NAME", help="Write, to the table of this name; without it, only look."),
]
Rate = Annotated[float | None, typer.Option(metavar="N", min=0.1, help="At most so many rows written a second.")]
PageSize = Annotated[int, typer.Option("--page", metavar="N", min=1, max=10_000, help="Items read at a time.")]
Index = Annotated[str, typer.Argument(metavar="INDEX", help="Its name; `afterturn aws index list` lists them.")]


class Way(StrEnum):
    SCAN = "scan"
    ENTITY = "entity-index"


class Last(StrEnum):
    BOTH = "both"
    FLIPPED = "flipped"
    SETTLED = "settled"


Through = Annotated[
    Way,
    typer.Option(
        metavar="WAY",
        help="How rows are found: scan reads the whole table; entity-index reads conversations only, and misses those "
        "that do not stand in that index.",
    ),
]
Timeout = Annotated[str, typer.Option(metavar="DURATION", help="How long to wait for an index of AWS.")]

app = typer.Typer(
    help="Table, queues, alarms and functions of a lane in AWS.\n\n"
    "Nothing is done if lane, account and credentials disagree.",
    no_args_is_help=True,
)
index = typer.Typer(help="The indexes of the table.", no_args_is_help=True)
layout = typer.Typer(help="How the recency index is spread over partitions.", no_args_is_help=True)
app.add_typer(index, name="index")
app.add_typer(layout, name="layout")
lanes = typer.Typer(help="The runtimes of a lane.", no_args_is_help=True)
app.add_typer(lanes, name="lane")


@app.command()
@on_a_lane
def provision(
    ctx: typer.Context,
    dry_run: DryRun = False,
    notify: Notify = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", metavar="", help="Take what is there and bears no lane (tag afterturn:lane).")
    ] = False,
    timeout: Timeout = "1h",
    json_: Json = False,
    *,
    whose: Whose,
) -> None:
    """Make what the lane lacks: table, indexes, queues, dead-letter queues, alarms. Run again, it changes nothing."""
    from afterturn.cli import aws_lane  # noqa: PLC0415 - slow to load

    aws_lane.provision(
        whose,
        notify=notify or (),
        adopt=adopt,
        dry_run=dry_run,
        timeout=seconds("--timeout", timeout),
        json_=json_,
    )


@app.command()
@on_a_lane
def alarms(
    ctx: typer.Context,
    dry_run: DryRun = False,
    notify: Notify = None,
    json_: Json = False,
    *,
    whose: Whose,
) -> None:
    """Set the lane's alarms: first dead letter, age of the oldest message, throttling."""
    from afterturn.cli import aws_lane  # noqa: PLC0415 - slow to load

    aws_lane.alarms(whose, notify=notify or (), dry_run=dry_run, json_=json_)


app.command("deploy")(aws_functions.deploy)
app.command("rollback")(aws_functions.rollback)


@index.command("list")
@on_a_lane
def index_list(
    ctx: typer.Context,
    json_: Json = False,
    *,
    whose: Whose,
) -> None:
    """List the indexes that the table needs, whether each can be read, and any other that it has."""
    from afterturn.cli import aws_index  # noqa: PLC0415 - slow to load

    aws_index.list_(whose, json_=json_)


@index.command("add")
@on_a_lane
def index_add(
    ctx: typer.Context,
    name: Index,
    timeout: Timeout = "1h",
    json_: Json = False,
    *,
    whose: Whose,
) -> None:
    """Add an index and wait until it can be read.

    AWS makes one index at a time, and goes on with it also where this command is stopped: run it again to wait on.
    """
    from afterturn.cli import aws_index  # noqa: PLC0415 - slow to load

    aws_index.add(
        whose,
        name,
        timeout=seconds("--timeout", timeout),
        json_=json_,
    )


@index.command("backfill")
@on_a_lane
def index_backfill(
    ctx: typer.Context,
    name: Index,
    confirm_table: Confirm = None,
    through: Through = Way.SCAN,
    rate: Rate = None,
    page: PageSize = 1_000,
    restart: Annotated[
        bool, typer.Option("--restart", metavar="", help="From the beginning, not from where the last run was stopped.")
    ] = False,
    json_: Json = False,
    *,
    whose: Whose,
) -> None:
    """Give old rows the keys of an index, while the table is in use.

    Only key attributes are written, and only to rows that are as they were read: no live write is undone. Stopped, it
    goes on from there when it is run again. Rows that carry no time are named, and exit 1 says that there are some.
    """
    from afterturn.cli import aws_index  # noqa: PLC0415 - slow to load

    aws_index.backfill(
        whose,
        name,
        confirmed=confirm_table,
        through=through.value,
        rate=rate,
        page=page,
        resume=not restart,
        json_=json_,
    )


@index.command("verify")
@on_a_lane
def index_verify(
    ctx: typer.Context,
    name: Index,
    through: Through = Way.SCAN,
    page: PageSize = 1_000,
    json_: Json = False,
    *,
    whose: Whose,
) -> None:
    """Compare an index with the table, row by row. Exits 3 where they differ, and names each difference."""
    from afterturn.cli import aws_index  # noqa: PLC0415 - slow to load

    aws_index.verify(whose, name, through=through.value, page=page, json_=json_)


@layout.command("show")
@on_a_lane
def layout_show(
    ctx: typer.Context,
    json_: Json = False,
    *,
    whose: Whose,
) -> None:
    """Show the layout of the recency index, and how far a change of it is."""
    from afterturn.cli import aws_layout  # noqa: PLC0415 - slow to load

    aws_layout.show(whose, json_=json_)


@layout.command("change")
@on_a_lane
def layout_change(
    ctx: typer.Context,
    wanted: Annotated[str, typer.Argument(metavar="LAYOUT", help="single, monthly, or sharded:N.")],
    confirm_table: Confirm = None,
    until: Annotated[
        Last,
        typer.Option(
            metavar="STAGE",
            help="How far to go: both (both are written and whole, the old one is read), flipped (the new one is "
            "read), settled (the old one is gone).",
        ),
    ] = Last.SETTLED,
    drain: Annotated[
        str, typer.Option(metavar="DURATION", help="How long processes are given to see each stage.")
    ] = "3m",
    rate: Rate = None,
    page: PageSize = 1_000,
    timeout: Timeout = "1h",
    json_: Json = False,
    *,
    whose: Whose,
) -> None:
    """Change the layout of the recency index while it is in use: no read misses a row at any moment.

    Both layouts are written, old rows are stamped, the new one is verified, the readers flip, the old keys go. Each
    stage stands in the table: run again, it goes on from there. Naming the old layout goes back.
    """
    from afterturn.cli import aws_layout  # noqa: PLC0415 - slow to load

    aws_layout.change(
        whose,
        wanted,
        confirmed=confirm_table,
        until=until.value,
        drain=seconds("--drain", drain),
        rate=rate,
        page=page,
        timeout=seconds("--timeout", timeout),
        json_=json_,
    )


@lanes.command("audit")
@on_a_lane
def lane_audit(
    ctx: typer.Context,
    functions: Annotated[
        list[str] | None,
        typer.Option("--lambda", metavar="NAME[:ALIAS][=ROLE]", help="A function, besides the lane's own. Repeatable."),
    ] = None,
    services: Annotated[
        list[str] | None,
        typer.Option("--ecs", metavar="CLUSTER/SERVICE[:CONTAINER][=ROLE]", help="An ECS service. Repeatable."),
    ] = None,
    projects: Annotated[
        list[str] | None,
        typer.Option(
            "--vercel",
            metavar="PROJECT[:TARGET][=ROLE]",
            help="A Vercel project (VERCEL_TOKEN); the target is the lane's where none is named. Repeatable.",
        ),
    ] = None,
    files: Annotated[
        list[str] | None, typer.Option("--dotenv", metavar="PATH[=ROLE]", help="A dotenv file. Repeatable.")
    ] = None,
    team: Annotated[
        str | None,
        typer.Option(
            "--vercel-team",
            metavar="TEAM",
            envvar="VERCEL_ORG_ID",
            show_envvar=False,
            help="The team of the projects, by id or slug (VERCEL_ORG_ID).",
        ),
    ] = None,
    vercel_url: Annotated[
        str, typer.Option("--vercel-url", metavar="URL", help="Where the API of Vercel is.")
    ] = "https://api.vercel.com",
    temporal_address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The lane's Temporal (AFTERTURN_TEMPORAL_ADDRESS).")
    ] = None,
    temporal_namespace: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its namespace (AFTERTURN_TEMPORAL_NAMESPACE).")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", metavar="", help="Exit 3 also where a value, not a secret's, cannot be read.")
    ] = False,
    json_: Json = False,
    *,
    whose: Whose,
) -> None:
    """Compare what each runtime is really configured with to what the lane wants. Exits 3 on a missing or crossed wire.

    It looks at the lane's own functions and at what is named. A role is web, inbound-lambda, bridge, worker, or up
    (bridge and worker in one). Nothing is written, and no secret is read.
    """
    from afterturn.cli import aws_lanes  # noqa: PLC0415 - slow to load

    settings = settings_of(ctx, None, temporal_address=temporal_address, temporal_namespace=temporal_namespace)
    said = settings.model_fields_set
    aws_lanes.audit(
        whose,
        {"lambda": functions or (), "ecs": services or (), "vercel": projects or (), "dotenv": files or ()},
        temporal_address=settings.temporal_address if "temporal_address" in said else None,
        temporal_namespace=settings.temporal_namespace if "temporal_namespace" in said else None,
        team=team,
        vercel_url=vercel_url,
        strict=strict,
        json_=json_,
    )
