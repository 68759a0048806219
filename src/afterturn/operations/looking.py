"""What of a lane is there, told in the words in which it is wanted. Reads only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from afterturn.aws.errors import code_of, translated
from afterturn.operations.account import Account, table_tags
from afterturn.operations.lanes import Bearer
from afterturn.operations.plan import Found
from afterturn.operations.resources import Kind, Properties, Resource

_ALARMS_AT_ONCE = 100


async def look(account: Account, wanted: Iterable[Resource]) -> Found:
    """Those of the resources that are there."""
    found: dict[tuple[Kind, str], Properties] = {}
    names: dict[Kind, list[str]] = {}
    for one in wanted:
        names.setdefault(one.kind, []).append(one.name)
    for name in names.get(Kind.TABLE, ()):
        found |= await _table(account, name)
    for name in names.get(Kind.QUEUE, ()):
        if (queue := await _queue(account, name)) is not None:
            found[Kind.QUEUE, name] = queue
    for name in names.get(Kind.TOPIC, ()):
        if (topic := await _topic(account, name)) is not None:
            found[Kind.TOPIC, name] = topic
    found |= await _alarms(account, names.get(Kind.ALARM, []))
    return found


async def _alarms(account: Account, names: list[str]) -> Found:
    found: dict[tuple[Kind, str], Properties] = {}
    for start in range(0, len(names), _ALARMS_AT_ONCE):
        with translated("DescribeAlarms"):
            answer = await account.cloudwatch.describe_alarms(AlarmNames=names[start : start + _ALARMS_AT_ONCE])
            for alarm in answer.get("MetricAlarms", ()):
                told = await account.cloudwatch.list_tags_for_resource(ResourceARN=alarm["AlarmArn"])
                found[Kind.ALARM, alarm["AlarmName"]] = {
                    **alarm,
                    "Dimensions": _in_our_order(alarm["Dimensions"]),
                    "Tags": _pairs(told.get("Tags", ())),
                }
    return found


def bearers(found: Found) -> Iterable[Bearer]:
    """What bears tags, for the check of the lane."""
    for (kind, name), properties in found.items():
        if kind is not Kind.INDEX:
            yield Bearer(f"{kind.value} {name}", properties.get("Tags") or {})


async def _table(account: Account, name: str) -> Found:
    client = account.dynamodb
    with translated(f"table {name}"):
        try:
            table = (await client.describe_table(TableName=name))["Table"]
        except client.exceptions.ResourceNotFoundException:
            return {}
        kept = (await client.describe_continuous_backups(TableName=name))["ContinuousBackupsDescription"]
        ttl = (await client.describe_time_to_live(TableName=name))["TimeToLiveDescription"]
        tags = await table_tags(client, table["TableArn"])
    recovery = kept.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus") == "ENABLED"
    properties = {
        "TableName": name,
        "KeySchema": table["KeySchema"],
        "BillingMode": table.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED"),
        "DeletionProtectionEnabled": table.get("DeletionProtectionEnabled", False),
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": recovery},
        "TimeToLiveSpecification": _time_to_live(ttl),
        "Tags": tags,
    }
    indexes = {(Kind.INDEX, one["IndexName"]): _index(one) for one in table.get("GlobalSecondaryIndexes", ())}
    return {(Kind.TABLE, name): properties, **indexes}


def _time_to_live(told: Mapping[str, Any]) -> dict[str, Any]:
    """Being switched on counts as on: asking for it again would be refused."""
    return {
        "AttributeName": told.get("AttributeName"),
        "Enabled": told.get("TimeToLiveStatus") in ("ENABLED", "ENABLING"),
    }


def _index(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "IndexName": told["IndexName"],
        "KeySchema": told["KeySchema"],
        "Projection": {"ProjectionType": told["Projection"]["ProjectionType"]},
    }


async def _queue(account: Account, name: str) -> Properties | None:
    client = account.sqs
    with translated(f"queue {name}"):
        try:
            url = (await client.get_queue_url(QueueName=name))["QueueUrl"]
        except client.exceptions.QueueDoesNotExist:
            return None
        told = (await client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])).get("Attributes", {})
        tags = (await client.list_queue_tags(QueueUrl=url)).get("Tags", {})
    return {"QueueName": name, **{key: _attribute(key, value) for key, value in told.items()}, "Tags": tags}


def _attribute(name: str, value: str) -> Any:
    """SQS tells everything as text."""
    if name in ("RedrivePolicy", "RedriveAllowPolicy"):
        policy = json.loads(value)
        if "maxReceiveCount" in policy:
            policy["maxReceiveCount"] = int(policy["maxReceiveCount"])
        return policy
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value.isdecimal() else value


async def _topic(account: Account, name: str) -> Properties | None:
    arn = account.place.topic_arn(name)
    with translated(f"topic {name}"):
        try:
            await account.sns.get_topic_attributes(TopicArn=arn)
            told = await account.sns.list_tags_for_resource(ResourceArn=arn)
        except account.sns.exceptions.ClientError as error:
            if code_of(error) in ("NotFound", "NotFoundException", "ResourceNotFound"):
                return None
            raise
    return {"TopicName": name, "Tags": _pairs(told.get("Tags", ()))}


def _pairs(tags: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in tags}


def _in_our_order(dimensions: Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The table before its index: AWS keeps no order."""
    return sorted(dimensions, key=lambda one: one["Name"], reverse=True)
