"""What ``aws provision`` and ``aws alarms`` do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from afterturn.cli.aws_running import run
from afterturn.cli.output import facts, note, table, write_json
from afterturn.inbox.presentation import count
from afterturn.operations.account import Account, Whose, open_lane
from afterturn.operations.indexes import Patience
from afterturn.operations.plan import Act, Step
from afterturn.operations.provision import carry_out, plan_alarms, plan_lane


def provision(
    whose: dict[str, Any], *, notify: Sequence[str], adopt: bool, dry_run: bool, timeout: float, json_: bool
) -> None:
    lane = Whose(**whose)

    async def steps(account: Account) -> tuple[Step, ...]:
        return await plan_lane(account, lane.names, notify=notify, expected=lane.account, adopt=adopt)

    run(_apply(lane, steps, dry_run=dry_run, patience=Patience(timeout), json_=json_))


def alarms(whose: dict[str, Any], *, notify: Sequence[str], dry_run: bool, json_: bool) -> None:
    lane = Whose(**whose)

    async def steps(account: Account) -> tuple[Step, ...]:
        return await plan_alarms(account, lane.names, notify=notify, expected=lane.account)

    run(_apply(lane, steps, dry_run=dry_run, patience=Patience(), json_=json_))


async def _apply(
    lane: Whose,
    planned: Callable[[Account], Awaitable[tuple[Step, ...]]],
    *,
    dry_run: bool,
    patience: Patience,
    json_: bool,
) -> None:
    async with open_lane(lane) as account:
        steps = await planned(account)
        if json_ or dry_run:
            note(f"lane {lane.lane}, account {account.identity.account}, region {account.region}")
        if not dry_run:
            await carry_out(account, lane.names, steps, patience=patience, told=_tell)
        identity, region = account.identity, account.region
    changes = sum(step.act is not Act.UNCHANGED for step in steps)
    if json_:
        write_json(
            {
                "lane": lane.lane,
                "account": identity.account,
                "region": region,
                "dryRun": dry_run,
                "changes": changes,
                "steps": [step.to_json() for step in steps],
            }
        )
        return
    if dry_run:
        table(
            ("ACTION", "KIND", "NAME", "CHANGES"),
            [(one.act.value, one.resource.kind.value, one.resource.name, _changes(one)) for one in steps],
        )
        note(f"{count(changes, 'change')} to make; nothing was done (--dry-run).")
        return
    # What was done was told while it was: here is what it comes to.
    acts = Counter(step.act for step in steps)
    facts(
        [
            ("lane", f"{lane.lane}, account {identity.account}, region {region}"),
            ("created", acts[Act.CREATE]),
            ("updated", acts[Act.UPDATE]),
            ("as wanted before", acts[Act.UNCHANGED]),
        ]
    )


def _tell(step: Step) -> None:
    if step.act is not Act.UNCHANGED:
        changes = f": {_changes(step)}" if step.changes else ""
        note(f"{step.act.value}d {step.resource.kind.value} {step.resource.name}{changes}")


def _changes(step: Step) -> str:
    return "; ".join(f"{one.name}: {one.found} -> {one.wanted}" for one in step.changes)
