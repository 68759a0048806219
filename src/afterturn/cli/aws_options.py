"""What the commands on AWS share: where the lane is, and whether anything is done."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
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
Whose = dict[str, Any]
"""What :class:`afterturn.operations.account.Whose` takes."""
DryRun = Annotated[bool, typer.Option("--dry-run", metavar="", help="Only tell what would be done.")]


def on_a_lane(command: Callable[..., None]) -> Callable[..., None]:
    """A command that has the flags which say where its lane is, and gets them as ``whose``, its last parameter."""
    own, flags = _parameters(command), _parameters(_whose)[1:]

    @functools.wraps(command)
    def run(ctx: typer.Context, **given: Any) -> None:
        where = {flag.name: given.pop(flag.name) for flag in flags}
        command(ctx, **given, whose=_whose(ctx, **where))

    shown = [own[0], *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own[1:-1], *flags))]
    run.__dict__["__signature__"] = inspect.Signature(shown)
    run.__annotations__ = {one.name: one.annotation for one in shown}
    return run


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())


def _whose(
    ctx: typer.Context,
    lane: LaneName = None,
    table: Table = None,
    region: Region = None,
    endpoint: Endpoint = None,
    account: Account = None,
) -> Whose:
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
