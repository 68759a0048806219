"""What the commands on AWS share: where the lane is, and whether anything is done."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from afterturn.cli.options import flag_value, settings_of
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
DryRun = Annotated[bool, typer.Option("--dry-run", metavar="", help="Only tell what would be done.")]


def whose(
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


def seconds(flag: str, text: str) -> float:
    """A duration of a flag; raises InvalidRecord that names it."""
    return flag_value(flag, parse_duration, text).total_seconds()
