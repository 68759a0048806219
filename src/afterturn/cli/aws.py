"""``aws``: an account's table, indexes, queues and alarms. What these commands need is loaded when one is run."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from afterturn.cli.options import Json, flag_value, settings_of
from afterturn.clock import parse_duration
from afterturn.config import Lane
from afterturn.errors import InvalidInput

_PANEL = "Where"

LaneName = Annotated[
    Lane | None,
    typer.Option("--lane", metavar="LANE", rich_help_panel=_PANEL, help="prod, preview or dev (AFTERTURN_LANE)."),
]
Table = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", rich_help_panel=_PANEL, help="The table, where it is not afterturn-{lane} (AFTERTURN_TABLE)."
    ),
]
Region = Annotated[
    str | None,
    typer.Option(metavar="REGION", rich_help_panel=_PANEL, help="The AWS region (AFTERTURN_AWS_REGION, AWS_REGION)."),
]
Endpoint = Annotated[
    str | None,
    typer.Option(
        "--endpoint-url",
        metavar="URL",
        rich_help_panel=_PANEL,
        help="Another endpoint than AWS, such as an emulator (AFTERTURN_AWS_ENDPOINT_URL).",
    ),
]
Account = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        rich_help_panel=_PANEL,
        envvar="AFTERTURN_AWS_ACCOUNT",
        show_envvar=False,
        help="The account that the lane belongs to; with credentials of another one nothing is done "
        "(AFTERTURN_AWS_ACCOUNT).",
    ),
]
Notify = Annotated[
    list[str] | None,
    typer.Option(metavar="ARN", help="Where alarms go, in place of the SNS topic afterturn-{lane}-alarms. Repeatable."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", metavar="", help="Only tell what would be done.")]
Confirm = Annotated[
    str | None,
    typer.Option("--confirm-table", metavar="NAME", help="Write, to the table of this name; without it, only look."),
]
Rate = Annotated[float | None, typer.Option(metavar="N", min=0.1, help="At most so many rows written a second.")]
PageSize = Annotated[int, typer.Option("--page", metavar="N", min=1, max=10_000, help="Items read at a time.")]
Index = Annotated[str, typer.Argument(metavar="INDEX", help="Its name, such as conv-recency-index.")]


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
    help="Table, indexes, queues and alarms in AWS. Nothing is done where lane, account and credentials disagree.",
    no_args_is_help=True,
)
index = typer.Typer(help="One index of the table.", no_args_is_help=True)
layout = typer.Typer(help="How the recency index is spread over partitions.", no_args_is_help=True)
app.add_typer(index, name="index")
app.add_typer(layout, name="layout")
lanes = typer.Typer(help="The runtimes of a lane.", no_args_is_help=True)
app.add_typer(lanes, name="lane")


@app.command()
def provision(
    ctx: typer.Context,
    dry_run: DryRun = False,
    notify: Notify = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", metavar="", help="Take what is there and bears no lane (tag afterturn:lane).")
    ] = False,
    timeout: Timeout = "1h",
    json_: Json = False,
    lane: LaneName = None,
    table: Table = None,
    region: Region = None,
    endpoint: Endpoint = None,
    account: Account = None,
) -> None:
    """Make what the lane lacks: table, indexes, queues, dead-letter queues, alarms. Run again, it changes nothing."""
    from afterturn.cli import aws_lane  # noqa: PLC0415 - slow to load

    aws_lane.provision(
        _whose(ctx, lane, table, region, endpoint, account),
        notify=notify or (),
        adopt=adopt,
        dry_run=dry_run,
        timeout=_seconds("--timeout", timeout),
        json_=json_,
    )


@app.command()
def alarms(
    ctx: typer.Context,
    dry_run: DryRun = False,
    notify: Notify = None,
    json_: Json = False,
    lane: LaneName = None,
    table: Table = None,
    region: Region = None,
    endpoint: Endpoint = None,
    account: Account = None,
) -> None:
    """Set the lane's alarms: first dead letter, age of the oldest message, throttling."""
    from afterturn.cli import aws_lane  # noqa: PLC0415 - slow to load

    aws_lane.alarms(
        _whose(ctx, lane, table, region, endpoint, account), notify=notify or (), dry_run=dry_run, json_=json_
    )


@index.command("add")
def index_add(
    ctx: typer.Context,
    name: Index,
    timeout: Timeout = "1h",
    json_: Json = False,
    lane: LaneName = None,
    table: Table = None,
    region: Region = None,
    endpoint: Endpoint = None,
    account: Account = None,
) -> None:
    """Add an index and wait until it can be read.

    AWS makes one index at a time, and goes on with it also where this command is stopped: run it again to wait on.
    """
    from afterturn.cli import aws_index  # noqa: PLC0415 - slow to load

    aws_index.add(
        _whose(ctx, lane, table, region, endpoint, account),
        name,
        timeout=_seconds("--timeout", timeout),
        json_=json_,
    )


@index.command("backfill")
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
    lane: LaneName = None,
    table: Table = None,
    region: Region = None,
    endpoint: Endpoint = None,
    account: Account = None,
) -> None:
    """Give old rows the keys of an index, while the table is in use.

    Only key attributes are written, and only to rows that are as they were read: no live write is undone. Stopped, it
    goes on from there when it is run again. Rows that carry no time are named, and exit 1 says that there are some.
    """
    from afterturn.cli import aws_index  # noqa: PLC0415 - slow to load

    aws_index.backfill(
        _whose(ctx, lane, table, region, endpoint, account),
        name,
        confirmed=confirm_table,
        through=through.value,
        rate=rate,
        page=page,
        resume=not restart,
        json_=json_,
    )


@index.command("verify")
def index_verify(
    ctx: typer.Context,
    name: Index,
    through: Through = Way.SCAN,
    page: PageSize = 1_000,
    json_: Json = False,
    lane: LaneName = None,
    table: Table = None,
    region: Region = None,
    endpoint: Endpoint = None,
    account: Account = None,
) -> None:
    """Compare an index with the table, row by row. Exits 3 where they differ, and names each difference."""
    from afterturn.cli import aws_index  # noqa: PLC0415 - slow to load

    aws_index.verify(
        _whose(ctx, lane, table, region, endpoint, account), name, through=through.value, page=page, json_=json_
    )


@layout.command("show")
def layout_show(
    ctx: typer.Context,
    json_: Json = False,
    lane: LaneName = None,
    table: Table = None,
    region: Region = None,
    endpoint: Endpoint = None,
    account: Account = None,
) -> None:
    """Show the layout of the recency index, and how far a change of it is."""
    from afterturn.cli import aws_layout  # noqa: PLC0415 - slow to load

    aws_layout.show(_whose(ctx, lane, table, region, endpoint, account), json_=json_)


@layout.command("change")
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
    lane: LaneName = None,
    table: Table = None,
    region: Region = None,
    endpoint: Endpoint = None,
    account: Account = None,
) -> None:
    """Change the layout of the recency index while it is in use: no read misses a row at any moment.

    Both layouts are written, old rows are stamped, the new one is verified, the readers flip, the old keys go. Each
    stage stands in the table: run again, it goes on from there. Naming the old layout goes back.
    """
    from afterturn.cli import aws_layout  # noqa: PLC0415 - slow to load

    aws_layout.change(
        _whose(ctx, lane, table, region, endpoint, account),
        wanted,
        confirmed=confirm_table,
        until=until.value,
        drain=_seconds("--drain", drain),
        rate=rate,
        page=page,
        timeout=_seconds("--timeout", timeout),
        json_=json_,
    )


@lanes.command("audit")
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
    lane: LaneName = None,
    table: Table = None,
    region: Region = None,
    endpoint: Endpoint = None,
    account: Account = None,
) -> None:
    """Compare what each runtime is really configured with to what the lane wants. Exits 3 on a missing or crossed wire.

    It looks at the lane's own functions and at what is named. A role is web, inbound-lambda, bridge, worker, or up
    (bridge and worker in one). Nothing is written, and no secret is read.
    """
    from afterturn.cli import aws_lanes  # noqa: PLC0415 - slow to load

    settings = settings_of(ctx, None, temporal_address=temporal_address, temporal_namespace=temporal_namespace)
    said = settings.model_fields_set
    aws_lanes.audit(
        _whose(ctx, lane, table, region, endpoint, account),
        {"lambda": functions or (), "ecs": services or (), "vercel": projects or (), "dotenv": files or ()},
        temporal_address=settings.temporal_address if "temporal_address" in said else None,
        temporal_namespace=settings.temporal_namespace if "temporal_namespace" in said else None,
        team=team,
        vercel_url=vercel_url,
        strict=strict,
        json_=json_,
    )


def _whose(
    ctx: typer.Context,
    lane: Lane | None,
    table: str | None,
    region: str | None,
    endpoint: str | None,
    account: str | None,
) -> dict[str, Any]:
    """As :class:`afterturn.operations.account.Whose` takes it."""
    settings = settings_of(ctx, None, lane=lane, table=table, aws_region=region, aws_endpoint_url=endpoint)
    if account is not None and not (account.isascii() and account.isdigit() and len(account) == 12):
        raise InvalidInput(f"--account: {account!r} is no account id; it has 12 digits")
    return {
        "lane": settings.lane.value,
        "table": settings.table,
        "region": settings.aws_region,
        "endpoint": settings.aws_endpoint_url,
        "account": account,
    }


def _seconds(flag: str, text: str) -> float:
    return flag_value(flag, parse_duration, text).total_seconds()
