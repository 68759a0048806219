"""What ``aws lane`` does."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from afterturn.cli.aws_running import run
from afterturn.cli.exits import Exit, exit_of
from afterturn.cli.output import facts, note, table, write_json
from afterturn.inbox.presentation import count
from afterturn.operations.account import Whose
from afterturn.operations.wires.compare import audit as compare
from afterturn.operations.wires.looking import Seen, Target, look, parse_target, vercel_of
from afterturn.operations.wires.runtime import WORKERS, Fault, Finding, Kind, Report, Unread, Wanted


def audit(
    whose: dict[str, Any],
    named: Mapping[str, Sequence[str]],
    *,
    temporal_address: str | None,
    temporal_namespace: str | None,
    team: str | None,
    vercel_url: str,
    strict: bool,
    json_: bool,
) -> None:
    """``named``: runtimes by kind, as they were written."""
    lane = Whose(**whose)
    targets = dict.fromkeys(parse_target(Kind(kind), text) for kind, texts in named.items() for text in texts)
    seen = run(_look(lane, list(targets), team, vercel_url))
    wanted = Wanted(lane.names, seen.account.place, lane.endpoint, temporal_address, temporal_namespace)
    report = compare(wanted, seen.runtimes, seen.feeds)
    (_as_json if json_ else _as_text)(wanted, seen, report)
    for failure in seen.failures:
        note(f"error: {failure}")
    if seen.failures:
        raise typer.Exit(exit_of(seen.failures[0]))
    if report.findings or (strict and _uncompared(report)):
        raise typer.Exit(Exit.OWED)


async def _look(lane: Whose, targets: Sequence[Target], team: str | None, url: str) -> Seen:
    return await look(lane, targets, lambda: vercel_of(os.environ.get("VERCEL_TOKEN"), team, url))


_UNREAD = {True: "present, not readable", False: "not among what was read, and not all could be"}


def _uncompared(report: Report) -> list[Unread]:
    return [one for one in report.unread if not one.secret]


def _as_text(wanted: Wanted, seen: Seen, report: Report) -> None:
    rows = [(one.fault.value, f"{one.kind.value} {one.runtime}", one.wire, _difference(one)) for one in report.findings]
    rows += [("unread", f"{one.kind.value} {one.runtime}", one.wire, _UNREAD[one.present]) for one in report.unread]
    if rows:
        table(("FAULT", "RUNTIME", "WIRE", "WHAT"), rows)
        print()
    faults = Counter(one.fault for one in report.findings)
    facts(
        [
            ("lane", f"{wanted.names.lane}, account {wanted.place.account}, region {wanted.place.region}"),
            ("looked at", ", ".join(one.label for one in seen.runtimes) or "no runtime"),
            *((fault.value, faults[fault]) for fault in Fault),
            ("unread", len(report.unread)),
        ]
    )
    if seen.failures:
        note(f"Not complete: {count(len(seen.failures), 'reading')} failed.")
    elif not report.findings:
        left = count(len(_uncompared(report)), "value")
        note(f"Nothing missing, nothing crossed{f'; {left} could not be compared' if _uncompared(report) else ''}.")
    if not any(one.role in WORKERS for one in seen.runtimes):
        note("No worker was looked at: name it with --ecs or --dotenv.")


def _difference(one: Finding) -> str:
    if one.fault in (Fault.INVALID, Fault.UNKNOWN):
        return f"wanted {one.wanted}" if one.fault is Fault.UNKNOWN else one.wanted
    if one.found is None:
        return f"wanted {one.wanted}"
    return f"found {one.found}, wanted {one.wanted}"


def _as_json(wanted: Wanted, seen: Seen, report: Report) -> None:
    write_json(
        {
            "lane": wanted.names.lane,
            "account": wanted.place.account,
            "region": wanted.place.region,
            "clean": not report.findings and not seen.failures and not _uncompared(report),
            "complete": not seen.failures,
            "runtimes": [
                {"kind": one.kind.value, "name": one.name, "role": one.role.value if one.role else None}
                for one in seen.runtimes
            ],
            "findings": [
                {
                    "fault": one.fault.value,
                    "kind": one.kind.value,
                    "runtime": one.runtime,
                    "wire": one.wire,
                    "found": one.found,
                    "wanted": one.wanted,
                }
                for one in report.findings
            ],
            "unread": [
                {
                    "kind": one.kind.value,
                    "runtime": one.runtime,
                    "wire": one.wire,
                    "secret": one.secret,
                    "present": one.present,
                }
                for one in report.unread
            ],
            "failures": [str(one) for one in seen.failures],
        }
    )
