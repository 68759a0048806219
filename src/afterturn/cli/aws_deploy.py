"""What ``aws deploy`` and ``aws rollback`` do."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afterturn.cli.aws_running import run
from afterturn.cli.output import facts, note, table, write_json
from afterturn.errors import InvalidInput
from afterturn.inbox.presentation import count
from afterturn.operations.account import Whose
from afterturn.operations.deploy import archive, carrying, dependencies
from afterturn.operations.deploy.archive import Archive
from afterturn.operations.deploy.calls import function_arn, open_functions
from afterturn.operations.deploy.functions import (
    ALIAS,
    Part,
    Wanted,
    check_handed,
    check_make,
    has_channels,
    services_of,
    variables,
    wants_app,
)
from afterturn.operations.deploy.looking import look_for
from afterturn.operations.deploy.plan import Plan, Step, plan
from afterturn.operations.deploy.rollback import carry_back, plan_rollback
from afterturn.operations.deploy.tidying import KEPT
from afterturn.operations.indexes import Patience
from afterturn.operations.plan import Act


@dataclass(frozen=True, slots=True)
class Make:
    """How a zip is made, or where it is; ``out``: where it goes, in place of Lambda."""

    runtime: str
    architecture: str
    app: str | None = None
    include: Sequence[Path] = ()
    requirements: Sequence[Path] = ()
    services: Sequence[str] = ()
    given: Path | None = None
    out: Path | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """How a function is deployed; see the flags of the same names."""

    memory: int
    role: str | None = None
    bucket: str | None = None
    env: Sequence[str] = ()
    unset: Sequence[str] = ()
    mapped: bool = True
    keep: int = KEPT
    timeout: float = 300
    dry_run: bool = False
    json_: bool = False


def deploy(whose: dict[str, Any], part: str, make: Make, way: Way) -> None:
    """Whatever is asked for is looked at before the account is, and before anything is built."""
    check_make(make.runtime, make.architecture, way.memory, way.role)
    check_handed(way.env, os.environ)
    for path in make.requirements:
        if not path.is_file():
            raise InvalidInput(f"--requirements {path}: there is no such file")
    included = archive.check_included(make.include)
    given = None if make.given is None else archive.read(make.given)
    if given is not None:
        archive.check_size(given, through_s3=way.bucket is not None)
    # What is to be installed may bring the app's module, too: that is known when it is.
    known = given.files if given is not None else None if make.requirements else included
    if known is not None and wants_app(Part(part), os.environ):
        archive.check_app(known, make.app)
    if make.out is not None:
        _write(Part(part), make, make.out, json_=way.json_)
    else:
        run(_deploy(Whose(**whose), Part(part), make, way, given, known))


def rollback(whose: dict[str, Any], part: str, *, to: str | None, dry_run: bool, json_: bool) -> None:
    lane = Whose(**whose)

    async def work() -> dict[str, Any]:
        async with open_functions(lane) as account:
            found = await plan_rollback(account, Part(part), lane.names, to=to, expected=lane.account)
            if not dry_run:
                await carry_back(account, found)
            return {
                "lane": lane.lane,
                "account": account.identity.account,
                "region": account.region,
                "dryRun": dry_run,
                "function": found.function,
                "from": found.there,
                "to": found.back,
            }

    done = run(work())
    if json_:
        write_json(done)
        return
    facts([("function", done["function"]), ("from version", done["from"]), ("to version", done["to"])])
    if dry_run:
        note("Nothing was done (--dry-run).")
    elif done["from"] == done["to"]:
        note(f"Version {done['to']} serves already; nothing was done.")


def _write(part: Part, make: Make, out: Path, *, json_: bool) -> None:
    """The zip alone, into a file: whole, or not at all."""
    if not out.parent.is_dir():
        raise InvalidInput(f"--out {out}: there is no folder {out.parent}")
    if out.is_dir():
        raise InvalidInput(f"--out {out}: is a folder; name a file in it")
    made = _archive(part, make, os.environ)
    archive.check_size(made, through_s3=True)
    half = out.with_name(f"{out.name}.part")
    try:
        half.write_bytes(made.data)
        half.replace(out)
    finally:
        half.unlink(missing_ok=True)
    if json_:
        write_json({"file": str(out), "bytes": made.size, "unzipped": made.unzipped, "sha256": made.sha256})
    else:
        facts([("file", out), ("bytes", made.size), ("unzipped", made.unzipped), ("sha256", made.sha256)])


async def _deploy(
    lane: Whose, part: Part, make: Make, way: Way, given: Archive | None, known: frozenset[str] | None
) -> None:
    async with open_functions(lane) as account:
        found = await look_for(account, part, lane.names, expected=lane.account)
        environment = variables(
            part,
            lane.names,
            os.environ,
            found.variables,
            app=make.app,
            endpoint=lane.endpoint,
            handed=way.env,
            unset=way.unset,
        )
        note(f"lane {lane.lane}, account {account.identity.account}, region {account.region}")
        if known is not None:
            archive.check_app(known, environment.get("AFTERTURN_APP"))
        made: Archive = given if given is not None else await asyncio.to_thread(_archive, part, make, environment)
        archive.check_size(made, through_s3=way.bucket is not None)
        archive.check_app(made.files, environment.get("AFTERTURN_APP"))
        wanted = Wanted(
            part,
            lane.names,
            made.sha256,
            runtime=make.runtime,
            architecture=make.architecture,
            memory=way.memory,
            role=way.role,
            variables=environment,
            mapped=way.mapped,
        )
        planned = plan(wanted, found, function_arn(account, wanted.name), keep=way.keep)
        serving, url = found.serving, None
        if not way.dry_run:
            patience = Patience(way.timeout, every=2)
            serving = await carrying.carry_out(
                account, wanted, found, planned, made, bucket=way.bucket, patience=patience, heard=note
            )
            url = await carrying.url_of(account, wanted) if part is Part.WEBHOOKS else None
        about = {"lane": lane.lane, "account": account.identity.account, "region": account.region}
    _tell(wanted, planned, about, serving=serving, url=url, way=way)


def _tell(
    wanted: Wanted, planned: Plan, about: dict[str, Any], *, serving: str | None, url: str | None, way: Way
) -> None:
    if way.json_:
        write_json(
            {
                **about,
                "dryRun": way.dry_run,
                "function": wanted.name,
                "alias": ALIAS,
                "version": serving,
                "changes": planned.changes,
                "steps": [step.to_json() for step in planned.steps],
                **({} if url is None else {"url": url}),
            }
        )
        return
    table(
        ("ACTION", "KIND", "NAME", "CHANGES"),
        [(one.act.value, one.kind, one.name, _changes(one)) for one in planned.steps],
    )
    if way.dry_run:
        note(f"{count(planned.changes, 'change')} to make; nothing was done (--dry-run).")
        return
    print()
    facts([("function", wanted.name), (f"version behind {ALIAS}", serving), *([("url", url)] if url else [])])


def _changes(step: Step) -> str:
    if step.act is Act.CREATE and step.kind == "function":
        return ""
    return "; ".join(f"{one.name}: {one.found} -> {one.wanted}" for one in step.changes)


def _archive(part: Part, make: Make, environment: Mapping[str, str]) -> Archive:
    with tempfile.TemporaryDirectory() as folder:
        note(f"installing what the {part} needs, for {make.runtime} on {make.architecture}")
        dependencies.install(
            part,
            Path(folder),
            runtime=make.runtime,
            architecture=make.architecture,
            requirements=make.requirements,
            channels=has_channels(environment),
        )
        made = archive.build(Path(folder), make.include, {*make.services, *services_of(part, environment)})
    note(f"the zip has {made.size / 1e6:.1f} MB, {made.unzipped / 1e6:.1f} MB unpacked")
    return made
