"""``aws lane``: the configuration of a lane's runtimes."""

from __future__ import annotations

import os
from collections import Counter
from typing import Annotated

import typer

from afterturn.aws.account import LaneTarget
from afterturn.aws.lane_audit.compare import audit as compare
from afterturn.aws.lane_audit.runtimes import RuntimesRead, parse_target, read_runtimes
from afterturn.aws.lane_audit.types import (
    WORKERS,
    LaneConfig,
    LaneFault,
    LaneFinding,
    LaneReport,
    RuntimeKind,
    Unread,
)
from afterturn.aws.lane_audit.vercel import API, Vercel
from afterturn.cli.aws_options import run, with_lane
from afterturn.cli.exits import Exit, exit_of
from afterturn.cli.options import Json, settings_of
from afterturn.cli.output import facts, note, table, write_json
from afterturn.inbox.presentation import count

lane = typer.Typer(help="Runtimes of a lane.", no_args_is_help=True)


@lane.command("audit")
@with_lane
def audit(
    ctx: typer.Context,
    functions: Annotated[
        list[str] | None,
        typer.Option(
            "--lambda", metavar="NAME[:ALIAS][=ROLE]", help="A function, besides those of the lane. Repeatable."
        ),
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
            help="A Vercel project (VERCEL_TOKEN); default target: that of the lane. Repeatable.",
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
    vercel_url: Annotated[str, typer.Option("--vercel-url", metavar="URL", help="Address of the Vercel API.")] = API,
    temporal_address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Temporal of the lane (AFTERTURN_TEMPORAL_ADDRESS).")
    ] = None,
    temporal_namespace: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its namespace (AFTERTURN_TEMPORAL_NAMESPACE).")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", metavar="", help="Exit 3 also if a value that is not secret cannot be read.")
    ] = False,
    json_: Json = False,
    *,
    lane: LaneTarget,
) -> None:
    """Compare the configuration of each runtime with what the lane expects. Exits 3 if a setting is missing or wrong.

    It reads the lane's own functions and the named runtimes. A role is web, inbound-lambda, bridge, worker, or up
    (bridge and worker in one). Nothing is written, and no secret is read.
    """
    settings = settings_of(ctx, None, temporal_address=temporal_address, temporal_namespace=temporal_namespace)
    is_set = settings.model_fields_set
    named = {
        RuntimeKind.LAMBDA: functions,
        RuntimeKind.ECS: services,
        RuntimeKind.VERCEL: projects,
        RuntimeKind.DOTENV: files,
    }
    targets = list(dict.fromkeys(parse_target(kind, text) for kind, texts in named.items() for text in texts or ()))
    read = run(read_runtimes(lane, targets, Vercel(os.environ.get("VERCEL_TOKEN"), team, vercel_url)))
    expected = LaneConfig(
        lane.names,
        read.account.location,
        lane.endpoint,
        settings.temporal_address if "temporal_address" in is_set else None,
        settings.temporal_namespace if "temporal_namespace" in is_set else None,
    )
    report = compare(expected, read.runtimes, read.event_sources)
    (_as_json if json_ else _as_text)(expected, read, report)
    for failure in read.failures:
        note(f"error: {failure}")
    if read.failures:
        raise typer.Exit(exit_of(read.failures[0]))
    if report.findings or (strict and _uncompared(report)):
        raise typer.Exit(Exit.OWED)


_UNREAD = {True: "present, not readable", False: "not among what was read, and not all could be"}


def _uncompared(report: LaneReport) -> list[Unread]:
    return [each for each in report.unread if not each.secret]


def _as_text(expected: LaneConfig, read: RuntimesRead, report: LaneReport) -> None:
    rows = [
        (each.fault.value, f"{each.kind.value} {each.runtime}", each.setting, _difference(each))
        for each in report.findings
    ]
    rows += [
        (
            "unread",
            f"{each.kind.value} {each.runtime}",
            each.setting,
            _UNREAD[each.present],
        )
        for each in report.unread
    ]
    if rows:
        table(("FAULT", "RUNTIME", "SETTING", "WHAT"), rows)
        print()
    faults = Counter(each.fault for each in report.findings)
    facts(
        [
            ("lane", f"{expected.names.lane}, account {expected.location.account}, region {expected.location.region}"),
            ("compared", ", ".join(each.label for each in read.runtimes) or "no runtime"),
            *((fault.value, faults[fault]) for fault in LaneFault),
            ("unread", len(report.unread)),
        ]
    )
    if read.failures:
        note(f"Not complete: {count(len(read.failures), 'reading')} failed.")
    elif not report.findings:
        left = count(len(_uncompared(report)), "value")
        note(f"Nothing missing, nothing crossed{f'; {left} could not be compared' if _uncompared(report) else ''}.")
    if not any(each.role in WORKERS for each in read.runtimes):
        note("No worker was looked at: name it with --ecs or --dotenv.")


def _difference(each: LaneFinding) -> str:
    if each.fault in (LaneFault.INVALID, LaneFault.UNKNOWN):
        return f"expected {each.expected}" if each.fault is LaneFault.UNKNOWN else each.expected
    if each.actual is None:
        return f"expected {each.expected}"
    return f"found {each.actual}, expected {each.expected}"


def _as_json(expected: LaneConfig, read: RuntimesRead, report: LaneReport) -> None:
    write_json(
        {
            "lane": expected.names.lane,
            "account": expected.location.account,
            "region": expected.location.region,
            "clean": not report.findings and not read.failures and not _uncompared(report),
            "complete": not read.failures,
            "runtimes": [
                {"kind": each.kind.value, "name": each.name, "role": each.role.value if each.role else None}
                for each in read.runtimes
            ],
            "findings": [
                {
                    "fault": each.fault.value,
                    "kind": each.kind.value,
                    "runtime": each.runtime,
                    "setting": each.setting,
                    "actual": each.actual,
                    "expected": each.expected,
                }
                for each in report.findings
            ],
            "unread": [
                {
                    "kind": each.kind.value,
                    "runtime": each.runtime,
                    "setting": each.setting,
                    "secret": each.secret,
                    "present": each.present,
                }
                for each in report.unread
            ],
            "failures": [str(each) for each in read.failures],
        }
    )
