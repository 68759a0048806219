"""A plan, carried out. Every step can be repeated: what was done before a crash is found unchanged afterwards."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from afterturn.aws.errors import code_of, translated
from afterturn.aws.names import Names
from afterturn.errors import StoreBusy
from afterturn.operations import indexes
from afterturn.operations.account import Account
from afterturn.operations.indexes import Patience
from afterturn.operations.lanes import check_lane, check_names
from afterturn.operations.looking import bearers, look
from afterturn.operations.plan import Act, Step, plan
from afterturn.operations.resources import Kind, Resource, resources

Told = Callable[[Step], None]

_PITR_TRIES = 30


async def plan_lane(
    account: Account,
    names: Names,
    *,
    notify: Sequence[str] = (),
    expected: str | None = None,
    adopt: bool = False,
) -> tuple[Step, ...]:
    """What has to be done so that everything of the lane is there.

    ``notify``: ARNs that alarms go to, in place of a topic of the lane's own. Raises ConfigError where lane, account
    and credentials disagree, and StoreForeign where something of ours is of another make.
    """
    return await _plan(account, names, resources(names, account.place, notify), expected, adopt)


async def plan_alarms(
    account: Account, names: Names, *, notify: Sequence[str] = (), expected: str | None = None
) -> tuple[Step, ...]:
    """As above, of the alarms and their topic alone."""
    wanted = resources(names, account.place, notify)
    return await _plan(
        account, names, [one for one in wanted if one.kind in (Kind.TOPIC, Kind.ALARM)], expected, adopt=False
    )


async def carry_out(
    account: Account, names: Names, steps: Iterable[Step], *, patience: Patience | None = None, told: Told | None = None
) -> None:
    """Do what a plan says, in its order; ``told`` hears of each step that is done."""
    steps = tuple(steps)
    is_new = any(one.resource.kind is Kind.TABLE and one.act is Act.CREATE for one in steps)
    for step in steps:
        if step.act is not Act.UNCHANGED and not (is_new and step.resource.kind is Kind.INDEX):
            with translated(f"{step.act.value} {step.resource.kind.value} {step.resource.name}"):
                await _DO[step.resource.kind](account, names, step, patience or Patience())
        if told is not None:
            told(step)


async def _plan(
    account: Account, names: Names, wanted: Sequence[Resource], expected: str | None, adopt: bool
) -> tuple[Step, ...]:
    check_names(names)
    found = await look(account, wanted)
    check_lane(names, account.identity, bearers(found), account=expected, adopt=adopt, emulated=account.emulated)
    return plan(wanted, found)


async def _do_table(account: Account, names: Names, step: Step, patience: Patience) -> None:
    client, given = account.dynamodb, step.resource.properties
    name = step.resource.name
    changed = {change.name for change in step.changes} if step.act is Act.UPDATE else set(given)
    if step.act is Act.CREATE:
        born = ("TableName", "BillingMode", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
        answer = await client.create_table(
            **{key: given[key] for key in (*born, "DeletionProtectionEnabled")}, Tags=_tag_list(given["Tags"])
        )
        arn = answer["TableDescription"]["TableArn"]
        await indexes.table_ready(account.dynamodb, name, patience)
        changed -= {*born, "DeletionProtectionEnabled", "Tags"}
    else:
        await indexes.table_ready(client, name, patience)
        arn = (await client.describe_table(TableName=name))["Table"]["TableArn"]
    for key in ("BillingMode", "DeletionProtectionEnabled"):
        if key in changed:
            await client.update_table(TableName=name, **{key: given[key]})
            await indexes.table_ready(account.dynamodb, name, patience)
    if "TimeToLiveSpecification" in changed:
        await client.update_time_to_live(TableName=name, TimeToLiveSpecification=given["TimeToLiveSpecification"])
    if "PointInTimeRecoverySpecification" in changed:
        await _keep_backups(client, name, given["PointInTimeRecoverySpecification"], patience)
    if "Tags" in changed:
        await client.tag_resource(ResourceArn=arn, Tags=_tag_list(given["Tags"]))


async def _keep_backups(client: Any, name: str, wanted: Any, patience: Patience) -> None:
    """AWS refuses this for a while after a table was made."""
    for attempt in range(_PITR_TRIES):
        try:
            await client.update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=wanted)
        except client.exceptions.ContinuousBackupsUnavailableException:
            if attempt + 1 == _PITR_TRIES:
                raise StoreBusy(f"table {name} takes no point-in-time recovery yet; run it again later") from None
            await patience.sleep(patience.every)
        else:
            return


async def _do_index(account: Account, names: Names, step: Step, patience: Patience) -> None:
    wanted = next(one for one in indexes.KNOWN if one.name == step.resource.name)
    await indexes.table_ready(account.dynamodb, names.table, patience)
    await indexes.add(account.dynamodb, names.table, wanted, patience)


async def _do_queue(account: Account, names: Names, step: Step, patience: Patience) -> None:
    client, given = account.sqs, step.resource.properties
    attributes = {key: _text(value) for key, value in given.items() if key not in ("QueueName", "Tags")}
    if step.act is Act.CREATE:
        try:
            await client.create_queue(QueueName=step.resource.name, Attributes=attributes, tags=dict(given["Tags"]))
        except client.exceptions.ClientError as error:
            if str(code_of(error)).endswith("QueueDeletedRecently"):
                raise StoreBusy(f"queue {step.resource.name} was deleted within a minute; run it again") from error
            raise
        return
    url = (await client.get_queue_url(QueueName=step.resource.name))["QueueUrl"]
    changed = {change.name: attributes[change.name] for change in step.changes if change.name in attributes}
    if changed:
        await client.set_queue_attributes(QueueUrl=url, Attributes=changed)
    if any(change.name == "Tags" for change in step.changes):
        await client.tag_queue(QueueUrl=url, Tags=dict(given["Tags"]))


async def _do_topic(account: Account, names: Names, step: Step, patience: Patience) -> None:
    given = step.resource.properties
    if step.act is Act.CREATE:
        await account.sns.create_topic(Name=step.resource.name, Tags=_tag_list(given["Tags"]))
    else:
        arn = account.place.topic_arn(step.resource.name)
        await account.sns.tag_resource(ResourceArn=arn, Tags=_tag_list(given["Tags"]))


async def _do_alarm(account: Account, names: Names, step: Step, patience: Patience) -> None:
    """PutMetricAlarm writes the whole alarm, but takes tags for a new one only."""
    client, given = account.cloudwatch, dict(step.resource.properties)
    tags = _tag_list(given.pop("Tags"))
    if step.act is Act.CREATE:
        await client.put_metric_alarm(**given, Tags=tags)
        return
    if {change.name for change in step.changes} != {"Tags"}:
        await client.put_metric_alarm(**given)
    if any(change.name == "Tags" for change in step.changes):
        (there,) = (await client.describe_alarms(AlarmNames=[step.resource.name]))["MetricAlarms"]
        await client.tag_resource(ResourceARN=there["AlarmArn"], Tags=tags)


_DO: dict[Kind, Callable[[Account, Names, Step, Patience], Awaitable[None]]] = {
    Kind.TABLE: _do_table,
    Kind.INDEX: _do_index,
    Kind.QUEUE: _do_queue,
    Kind.TOPIC: _do_topic,
    Kind.ALARM: _do_alarm,
}


def _text(value: Any) -> str:
    """As SQS wants its attributes."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _tag_list(tags: Any) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
