"""``aws deploy`` and ``aws rollback``: versions of the lane's functions."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from afterturn.aws import package, release, stack
from afterturn.aws.account import SERVICES, LaneTarget, open_lane, open_table
from afterturn.aws.package import Package
from afterturn.aws.release import Part
from afterturn.aws.stack import ALIAS, Patience
from afterturn.cli.aws_options import DryRun, Timeout, run, seconds, with_lane
from afterturn.cli.options import AppName, Json
from afterturn.cli.output import facts, note, table, write_json
from afterturn.config import CHANNEL_VARIABLES
from afterturn.errors import InvalidInput
from afterturn.inbox.presentation import count

_ZIP = "The zip"

Function = Annotated[Part, typer.Argument(metavar="FUNCTION", help="bridge or webhooks.")]


@dataclass(frozen=True, slots=True)
class Contents:
    """What goes into a zip; see the options of the same names."""

    app: str | None
    include: Sequence[Path]
    requirements: Sequence[Path]
    services: Sequence[str]


@with_lane
def deploy(
    ctx: typer.Context,
    function: Function,
    app: AppName = None,
    include: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            rich_help_panel=_ZIP,
            help="A file or folder of yours, such as the module of the app. Repeatable.",
        ),
    ] = None,
    requirements: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", rich_help_panel=_ZIP, help="Further requirements for pip. Repeatable."),
    ] = None,
    aws_service: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_ZIP,
            help="An AWS service that your app uses, such as s3: models of unused services are left out. Repeatable.",
        ),
    ] = None,
    zip_: Annotated[
        Path | None,
        typer.Option("--zip", metavar="FILE", rich_help_panel=_ZIP, help="A finished zip; nothing is built."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_ZIP, help="Only build the zip, into this file."),
    ] = None,
    runtime: Annotated[
        str | None,
        typer.Option(metavar="NAME", rich_help_panel=_ZIP, help="With --out: python3.13 (default) or another."),
    ] = None,
    architecture: Annotated[
        str | None,
        typer.Option(metavar="NAME", rich_help_panel=_ZIP, help="With --out: x86_64 (default) or arm64."),
    ] = None,
    bucket: Annotated[
        str | None,
        typer.Option(metavar="NAME", rich_help_panel=_ZIP, help="Upload through this S3 bucket: for 50 MB and more."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further variable of this shell that the function gets. Repeatable."),
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A variable that the function loses. Repeatable.")
    ] = None,
    unmapped: Annotated[
        bool,
        typer.Option("--unmapped", metavar="", help="Bridge only: do not let the queues invoke it yet."),
    ] = False,
    keep: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=2,
            help="Number of versions that stay. Older ones are deleted, except those that an alias names or that "
            "served before.",
        ),
    ] = release.KEPT,
    timeout: Timeout = "5m",
    dry_run: DryRun = False,
    json_: Json = False,
    *,
    lane: LaneTarget,
) -> None:
    """Upload code, publish a version, check that version, and only then let it serve.

    A version that fails its smoke check changes nothing of what serves. A stopped deployment is completed by the next
    one; run again after that, it changes nothing. Settings are the AFTERTURN_* variables of this shell.
    """
    if zip_ is not None and (include or requirements or aws_service or out):
        raise InvalidInput("--zip is finished: it excludes --include, --requirements, --aws-service and --out")
    if function is Part.WEBHOOKS and unmapped:
        raise InvalidInput("--unmapped is for the bridge: the webhooks read no queues")
    if out is None and (runtime or architecture):
        raise InvalidInput(
            "--runtime and --architecture go with --out; for a deployment, `afterturn aws provision --set "
            "Runtime=…` sets those of the function"
        )
    patience = Patience(seconds("--timeout", timeout), every=2)
    release.passed_variables(env or (), os.environ)
    contents = Contents(app or ctx.obj.app, include or (), requirements or (), aws_service or ())
    for path in contents.requirements:
        if not path.is_file():
            raise InvalidInput(f"--requirements {path}: there is no such file")
    included = package.check_included(contents.include)
    finished = None if zip_ is None else package.read(zip_)
    if finished is not None:
        package.check_size(finished, through_s3=bucket is not None)
    # Requirements may bring the app's module, too: that is known only when they are installed.
    files = finished.files if finished is not None else None if contents.requirements else included
    if files is not None and release.wants_app(function, os.environ, CHANNEL_VARIABLES):
        package.check_app(files, contents.app)
    if out is not None:
        package.check_machine(runtime or "python3.13", architecture or "x86_64")
        package.check_target(out)
        _write(_build(function, contents, runtime or "python3.13", architecture or "x86_64", os.environ), out, json_)
        return

    async def work() -> None:
        async with open_table(lane, *SERVICES, "s3") as account:
            current = await release.look_up(account, function, lane.names, expected=lane.account)
            variables = release.environment(
                function,
                lane.names,
                os.environ,
                current.variables,
                app=contents.app,
                endpoint=lane.endpoint,
                passed=env or (),
                unset=unset or (),
                channels=CHANNEL_VARIABLES,
            )
            note(f"lane {lane.lane}, account {account.identity.account}, region {account.region}")
            if files is not None:
                package.check_app(files, variables.get("AFTERTURN_APP"))
            made = finished
            if made is None:
                (machine,) = current.latest.get("Architectures") or ["x86_64"]
                made = await asyncio.to_thread(
                    _build, function, contents, current.latest["Runtime"], machine, variables
                )
            package.check_size(made, through_s3=bucket is not None)
            package.check_app(made.files, variables.get("AFTERTURN_APP"))
            planned = await release.plan_release(
                account, function, lane.names, current, made, variables, mapped=not unmapped, keep=keep
            )
            version = current.serving
            if not dry_run:
                version = await release.deploy(
                    account, function, lane.names, planned, bucket=bucket, patience=patience, report=note
                )
            existing = await stack.describe(account, lane.names)
            url = None if existing is None or function is Part.BRIDGE else existing.outputs.get("WebhooksUrl")
            result = {
                "lane": lane.lane,
                "account": account.identity.account,
                "region": account.region,
                "dryRun": dry_run,
                "function": current.name,
                "alias": ALIAS,
                "version": version,
                "changes": len(planned.steps),
                "steps": planned.steps,
                **({} if url is None else {"url": url}),
            }
        _print_release(result, json_=json_)

    run(work())


@with_lane
def rollback(
    ctx: typer.Context,
    function: Function,
    to: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="Default: the version that served before the last deployment."),
    ] = None,
    dry_run: DryRun = False,
    json_: Json = False,
    *,
    lane: LaneTarget,
) -> None:
    """Let the version serve that served before the last deployment: one call, which moves the alias.

    A second rollback needs --to. `aws provision` keeps the version that a rollback chose.
    """

    async def work() -> dict[str, object]:
        async with open_lane(lane, "lambda") as account:
            planned = await release.plan_rollback(account, function, lane.names, to=to, expected=lane.account)
            if not dry_run:
                await release.roll_back(account, planned)
            return {
                "lane": lane.lane,
                "account": account.identity.account,
                "region": account.region,
                "dryRun": dry_run,
                "function": planned.function.name,
                "from": planned.serving,
                "to": planned.target,
            }

    result = run(work())
    if json_:
        write_json(result)
        return
    facts([("function", result["function"]), ("from version", result["from"]), ("to version", result["to"])])
    if dry_run:
        note("Nothing was done (--dry-run).")
    elif result["from"] == result["to"]:
        note(f"Version {result['to']} serves already; nothing was done.")


def _print_release(result: dict[str, object], *, json_: bool) -> None:
    steps = result["steps"]
    assert isinstance(steps, list)
    if json_:
        write_json(result)
        return
    if steps:
        rows = [(each["action"], each["kind"], each["name"], "; ".join(each["changes"])) for each in steps]
        table(("ACTION", "KIND", "NAME", "CHANGES"), rows)
        print()
    if result["dryRun"]:
        note(f"{count(len(steps), 'change')} to make; nothing was done (--dry-run).")
        return
    url = [("url", result["url"])] if "url" in result else []
    facts([("function", result["function"]), (f"version behind {ALIAS}", result["version"]), *url])


def _build(
    function: Part, contents: Contents, runtime: str, architecture: str, variables: Mapping[str, str]
) -> Package:
    with tempfile.TemporaryDirectory() as folder:
        note(f"installing what the {function} needs, for {runtime} on {architecture}")
        package.install(
            function,
            Path(folder),
            runtime=runtime,
            architecture=architecture,
            requirements=contents.requirements,
            channels=release.has_channels(variables, CHANNEL_VARIABLES),
        )
        services = {*contents.services, *release.services_of(function, variables)}
        made = package.build(function, Path(folder), contents.include, services)
    note(f"the zip has {made.size / 1e6:.1f} MB, {made.unzipped / 1e6:.1f} MB unpacked")
    return made


def _write(made: Package, out: Path, json_: bool) -> None:
    """Write the zip into a file: completely, or not at all."""
    package.check_size(made, through_s3=True)
    half = out.with_name(f"{out.name}.part")
    try:
        half.write_bytes(made.data)
        half.replace(out)
    finally:
        half.unlink(missing_ok=True)
    result = {"file": str(out), "bytes": made.size, "unzipped": made.unzipped, "sha256": made.sha256}
    if json_:
        write_json(result)
    else:
        facts(list(result.items()))
