"""What the commands on AWS share: where the lane is, whether to write, progress on stderr, and Ctrl-C."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import time
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from afterturn.aws.account import LaneTarget
from afterturn.cli.exits import Exit, interruptible
from afterturn.cli.options import flag_value, settings_of
from afterturn.cli.output import note
from afterturn.clock import parse_duration
from afterturn.config import Lane
from afterturn.errors import InvalidInput
from afterturn.inbox.presentation import duration

if TYPE_CHECKING:
    from afterturn.store.dynamodb.backfill import Progress

T = TypeVar("T")
_CANCEL_AGAIN_S = 0.5

_PANEL = "Lane"
_LINE_EVERY_S = 5.0

LaneName = Annotated[
    Lane | None,
    typer.Option("--lane", metavar="LANE", rich_help_panel=_PANEL, help="prod, preview or dev (AFTERTURN_LANE)."),
]
Table = Annotated[
    str | None,
    typer.Option(metavar="NAME", rich_help_panel=_PANEL, help="Table; default: afterturn-{lane} (AFTERTURN_TABLE)."),
]
Region = Annotated[
    str | None,
    typer.Option(metavar="REGION", rich_help_panel=_PANEL, help="AWS region (AFTERTURN_AWS_REGION, AWS_REGION)."),
]
Endpoint = Annotated[
    str | None,
    typer.Option(
        "--endpoint-url",
        metavar="URL",
        rich_help_panel=_PANEL,
        help="An endpoint other than AWS, such as an emulator (AFTERTURN_AWS_ENDPOINT_URL).",
    ),
]
AccountId = Annotated[
    str | None,
    typer.Option(
        "--account",
        metavar="ID",
        rich_help_panel=_PANEL,
        envvar="AFTERTURN_AWS_ACCOUNT",
        show_envvar=False,
        help="Account of the lane; with credentials of another one nothing is done (AFTERTURN_AWS_ACCOUNT).",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", metavar="", help="Only show what would be done.")]
Timeout = Annotated[str, typer.Option(metavar="DURATION", help="How long to wait for AWS.")]
Confirm = Annotated[
    str | None,
    typer.Option("--confirm-table", metavar="NAME", help="Name of the table, to write to it. Default: only look."),
]
Rate = Annotated[float | None, typer.Option(metavar="N", min=0.1, help="Maximum number of rows written per second.")]
PageSize = Annotated[int, typer.Option("--page", metavar="N", min=1, max=10_000, help="Items read at a time.")]


def with_lane(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that locate its lane; it gets them as ``lane``, its last parameter."""
    params, options = _parameters(command), _parameters(_lane_target)[1:]

    @functools.wraps(command)
    def run_command(ctx: typer.Context, **values: Any) -> None:
        where = {option.name: values.pop(option.name) for option in options}
        command(ctx, **values, lane=_lane_target(ctx, **where))

    shown = [
        params[0],
        *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*params[1:-1], *options)),
    ]
    run_command.__dict__["__signature__"] = inspect.Signature(shown)
    run_command.__annotations__ = {each.name: each.annotation for each in shown}
    return run_command


def seconds(option: str, text: str) -> float:
    """A duration in seconds. Raises InvalidRecord that names the option."""
    return flag_value(option, parse_duration, text).total_seconds()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, or until Ctrl-C: every write is a step of its own, so it may stop anywhere."""

    async def interruptible_work() -> T:
        task = asyncio.ensure_future(work)

        def stop() -> None:
            # Repeated, because a library may swallow one cancellation that comes with an answer.
            if not task.done():
                task.cancel()
                asyncio.get_running_loop().call_later(_CANCEL_AGAIN_S, stop)

        with interruptible(stop, stop):
            return await task

    try:
        return asyncio.run(interruptible_work())
    except (KeyboardInterrupt, asyncio.CancelledError):
        note("Stopped. Run the same command again to continue.")
        raise typer.Exit(Exit.INTERRUPTED) from None


def confirm(table: str, confirmed: str | None) -> bool:
    """Whether to write. Raises InvalidInput if another table was confirmed."""
    if confirmed is not None and confirmed != table:
        raise InvalidInput(f"--confirm-table names {confirmed}, but the table is {table}; nothing was done")
    return confirmed is not None


class Meter:
    """Progress on stderr: in place on a terminal, otherwise a line every few seconds."""

    def __init__(self) -> None:
        self._shown = time.monotonic()
        self._in_place = sys.stderr.isatty()

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._shown < (0.2 if self._in_place else _LINE_EVERY_S):
            return
        self._shown = now
        line = progress_line(progress)
        if self._in_place:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        else:
            note(line)

    def end(self) -> None:
        if self._in_place:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def progress_line(progress: Progress) -> str:
    """``stamping: 12,000 of about 50,000 items, 3,400 rows, 120 stamped, about 4m left``."""
    of = "" if progress.total is None else f" of about {max(progress.total, progress.looked):,}"
    parts = [f"{progress.doing}: {progress.looked:,}{of} items", f"{progress.rows:,} rows"]
    if progress.written:
        parts.append(
            f"{progress.written:,} to stamp" if progress.doing == "counting" else f"{progress.written:,} stamped"
        )
    if (left := progress.seconds_left) is not None:
        parts.append(f"about {duration(timedelta(seconds=left))} left")
    return ", ".join(parts)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())


def _lane_target(
    ctx: typer.Context,
    lane: LaneName = None,
    table: Table = None,
    region: Region = None,
    endpoint: Endpoint = None,
    account: AccountId = None,
) -> LaneTarget:
    settings = settings_of(ctx, None, lane=lane, table=table, aws_region=region, aws_endpoint_url=endpoint)
    if account is not None and not (account.isascii() and account.isdigit() and len(account) == 12):
        raise InvalidInput(f"--account: {account!r} is not an account id; it has 12 digits")
    return LaneTarget(settings.lane.value, settings.table, settings.aws_region, settings.aws_endpoint_url, account)
