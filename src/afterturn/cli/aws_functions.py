"""``aws deploy`` and ``aws rollback``: the lane's functions in Lambda."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from afterturn.cli.aws_options import DryRun, Whose, on_a_lane, seconds
from afterturn.cli.options import AppName, Json
from afterturn.errors import InvalidInput

_ZIP = "The zip"


class Function(StrEnum):
    BRIDGE = "bridge"
    WEBHOOKS = "webhooks"


Which = Annotated[Function, typer.Argument(metavar="FUNCTION", help="bridge or webhooks.")]


@on_a_lane
def deploy(
    ctx: typer.Context,
    function: Which,
    role: Annotated[
        str | None, typer.Option(metavar="ARN", help="The role that it runs as. The first deployment has to say it.")
    ] = None,
    app: AppName = None,
    include: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            rich_help_panel=_ZIP,
            help="A file or folder of yours, such as the app's module. Repeatable.",
        ),
    ] = None,
    requirements: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", rich_help_panel=_ZIP, help="What pip is to install besides. Repeatable."),
    ] = None,
    aws_service: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_ZIP,
            help="A service that your app opens clients of, such as s3: the models of all others but ours are left "
            "out. Repeatable.",
        ),
    ] = None,
    runtime: Annotated[str, typer.Option(metavar="NAME", rich_help_panel=_ZIP, help="Of Lambda.")] = "python3.13",
    architecture: Annotated[
        str, typer.Option(metavar="NAME", rich_help_panel=_ZIP, help="x86_64 or arm64.")
    ] = "x86_64",
    zip_: Annotated[
        Path | None,
        typer.Option("--zip", metavar="FILE", rich_help_panel=_ZIP, help="A zip that is made; nothing is built."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_ZIP, help="Only build the zip, into this file."),
    ] = None,
    bucket: Annotated[
        str | None,
        typer.Option(metavar="NAME", rich_help_panel=_ZIP, help="Send it through this S3 bucket: from 50 MB on."),
    ] = None,
    memory: Annotated[int, typer.Option(metavar="MB", help="What it may use.")] = 512,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further variable of this shell that it is to have. Repeatable."),
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A variable that it is to have no longer. Repeatable.")
    ] = None,
    unmapped: Annotated[
        bool,
        typer.Option(
            "--unmapped", metavar="", help="Of the bridge: leave its queues to whoever reads them; run again without."
        ),
    ] = False,
    keep: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=2,
            help="How many versions stay. Older ones are deleted at the end, but for what an alias names and what "
            "served before.",
        ),
    ] = 5,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long to wait for Lambda.")] = "5m",
    dry_run: DryRun = False,
    json_: Json = False,
    *,
    whose: Whose,
) -> None:
    """Build a function, publish a version of it, check that version, and only then let it serve.

    A version that fails its smoke check changes nothing of what serves. Stopped anywhere, it makes the rest when it is
    run again; run again after that, it changes nothing. Its settings are the AFTERTURN_* variables of this shell.
    """
    from afterturn.cli import aws_deploy  # noqa: PLC0415 - slow to load

    if zip_ is not None and (include or requirements or aws_service or out):
        raise InvalidInput("--zip is a zip that is made: --include, --requirements, --aws-service and --out go without")
    if function is Function.WEBHOOKS and unmapped:
        raise InvalidInput("--unmapped is the bridge's: a webhook function reads no queues")
    aws_deploy.deploy(
        whose,
        function.value,
        aws_deploy.Make(
            runtime=runtime,
            architecture=architecture,
            app=app or ctx.obj.app,
            include=include or (),
            requirements=requirements or (),
            services=aws_service or (),
            given=zip_,
            out=out,
        ),
        aws_deploy.Way(
            memory=memory,
            role=role,
            bucket=bucket,
            env=env or (),
            unset=unset or (),
            mapped=not unmapped,
            keep=keep,
            timeout=seconds("--timeout", timeout),
            dry_run=dry_run,
            json_=json_,
        ),
    )


@on_a_lane
def rollback(
    ctx: typer.Context,
    function: Which,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION", help="Where to, in place of the version that served before the last deployment."
        ),
    ] = None,
    dry_run: DryRun = False,
    json_: Json = False,
    *,
    whose: Whose,
) -> None:
    """Let the version serve again that served before: one call, which moves the alias.

    A second rollback refuses, since it could only guess: it goes where --to says.
    """
    from afterturn.cli import aws_deploy  # noqa: PLC0415 - slow to load

    aws_deploy.rollback(whose, function.value, to=to, dry_run=dry_run, json_=json_)
