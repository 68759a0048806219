"""``aws``: what a lane has in an AWS account."""

from __future__ import annotations

from typing import Annotated

import typer

from afterturn.aws import stack
from afterturn.aws.account import LaneTarget, open_lane
from afterturn.aws.stack import ChangeSet, Patience, ResourceChange
from afterturn.cli import aws_index, aws_lane_audit, aws_release
from afterturn.cli.aws_options import DryRun, Timeout, run, seconds, with_lane
from afterturn.cli.options import Json
from afterturn.cli.output import facts, note, table, write_json
from afterturn.inbox.presentation import count

app = typer.Typer(
    help="Table, queues, alarms and functions of a lane in AWS.\n\n"
    "Nothing is done if lane, account and credentials disagree.",
    no_args_is_help=True,
)
app.add_typer(aws_index.index, name="index")
app.add_typer(aws_index.layout, name="layout")
app.add_typer(aws_lane_audit.lane, name="lane")
app.command("deploy")(aws_release.deploy)
app.command("rollback")(aws_release.rollback)


@app.command()
@with_lane
def provision(
    ctx: typer.Context,
    dry_run: DryRun = False,
    notify: Annotated[
        list[str] | None,
        typer.Option(metavar="ARN", help="Alarms notify it instead of the topic afterturn-{lane}-alarms. Repeatable."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A template parameter, such as Memory=1024. Repeatable."),
    ] = None,
    timeout: Timeout = "1h",
    json_: Json = False,
    *,
    lane: LaneTarget,
) -> None:
    """Create or update the lane's stack: table, queues, alarms, functions and roles. Run again, it changes nothing.

    Parameters keep their values until they are set again. A resource that was changed outside the stack stops it.
    """
    settings = dict(map(stack.parse_setting, set_ or ()))
    if notify:
        settings["Notify"] = ",".join(notify)

    async def work() -> tuple[ChangeSet, str, str]:
        async with open_lane(lane) as account:
            change_set = await stack.plan(account, lane.names, settings, expected=lane.account)
            if dry_run:
                await stack.discard(account, change_set)
            else:
                await stack.execute(account, change_set, Patience(seconds("--timeout", timeout)), note)
            return change_set, account.identity.account, account.region

    change_set, account, region = run(work())
    changes = change_set.changes
    if json_:
        about = {"lane": lane.lane, "account": account, "region": region, "stack": change_set.stack}
        write_json({**about, "dryRun": dry_run, "changes": [each.to_json() for each in changes]})
        return
    if dry_run and changes:
        table(
            ("ACTION", "RESOURCE", "NAME", "PROPERTIES"),
            [(_action(each), each.resource, each.name or "", ", ".join(each.properties)) for each in changes],
        )
    facts([("lane", f"{lane.lane}, account {account}, region {region}"), ("stack", change_set.stack)])
    if not changes:
        note("No changes.")
    elif dry_run:
        note(f"{count(len(changes), 'change')} to make; nothing was done (--dry-run).")


def _action(change: ResourceChange) -> str:
    return "replace" if change.replacement else change.action.lower()
