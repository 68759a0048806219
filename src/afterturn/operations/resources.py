"""What a lane is made of in AWS, as data: one description for the planner, the calls and the template.

Properties have CloudFormation's names and shapes, which are those of the calls wherever these agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from afterturn.aws.names import Names
from afterturn.aws.table import INDEXES, TTL_ATTRIBUTE, table_definition
from afterturn.operations.alarms import alarms
from afterturn.stream.port import MAX_RECEIVES

LANE_TAG = "afterturn:lane"
"""Whose a resource is. No tool touches one that bears another lane's name."""

VISIBILITY_S = 180
"""Six times the 30 seconds of the bridge's function, as Lambda wants it; a polling bridge brings its own."""

RETENTION_S = 1_209_600
"""Fourteen days, the most that SQS keeps anything."""


class Kind(StrEnum):
    TOPIC = "topic"
    TABLE = "table"
    INDEX = "index"
    QUEUE = "queue"
    ALARM = "alarm"


Properties = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Resource:
    """``immutable``: properties that AWS does not change once the resource is there."""

    kind: Kind
    name: str
    properties: Properties
    immutable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a lane lives."""

    region: str
    account: str
    partition: str = "aws"

    def queue_arn(self, name: str) -> str:
        return f"arn:{self.partition}:sqs:{self.region}:{self.account}:{name}"

    def topic_arn(self, name: str) -> str:
        return f"arn:{self.partition}:sns:{self.region}:{self.account}:{name}"


def resources(names: Names, place: Place, notify: Sequence[str] = ()) -> tuple[Resource, ...]:
    """Everything of a lane, each after what it refers to.

    ``notify``: where alarms go, as ARNs, in place of a topic of the lane's own.
    """
    own_topic = () if notify else (_topic(names),)
    told = tuple(notify) or (place.topic_arn(names.topic),)
    return (
        *own_topic,
        _table(names),
        *(index_resource(one.definition()) for one in INDEXES),
        _dead_queue(names, place, names.main_dead, names.main),
        _dead_queue(names, place, names.retry_dead, names.retry),
        _queue(names, place, names.main, names.main_dead),
        _queue(names, place, names.retry, names.retry_dead),
        *alarm_resources(names, told),
    )


def index_resource(definition: Properties) -> Resource:
    """An index of the table: made with it, or added to it one by one."""
    return Resource(Kind.INDEX, definition["IndexName"], definition, frozenset(definition))


def alarm_resources(names: Names, notify: Sequence[str]) -> tuple[Resource, ...]:
    return tuple(
        Resource(
            Kind.ALARM,
            one["AlarmName"],
            {**one, "AlarmActions": list(notify), "OKActions": list(notify), "Tags": tags(names)},
        )
        for one in alarms(names)
    )


def tags(names: Names) -> dict[str, str]:
    return {LANE_TAG: names.lane}


def _topic(names: Names) -> Resource:
    return Resource(Kind.TOPIC, names.topic, {"TopicName": names.topic, "Tags": tags(names)}, frozenset({"TopicName"}))


def _table(names: Names) -> Resource:
    born = table_definition(names.table)
    properties = {
        **born,
        "DeletionProtectionEnabled": True,
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
        "TimeToLiveSpecification": {"AttributeName": TTL_ATTRIBUTE, "Enabled": True},
        "Tags": tags(names),
    }
    return Resource(Kind.TABLE, names.table, properties, frozenset({"TableName", "KeySchema"}))


def _queue(names: Names, place: Place, name: str, dead: str) -> Resource:
    redrive = {"deadLetterTargetArn": place.queue_arn(dead), "maxReceiveCount": MAX_RECEIVES}
    return _fifo(names, name, {"VisibilityTimeout": VISIBILITY_S, "RedrivePolicy": redrive})


def _dead_queue(names: Names, place: Place, name: str, live: str) -> Resource:
    allowed = {"redrivePermission": "byQueue", "sourceQueueArns": [place.queue_arn(live)]}
    return _fifo(names, name, {"VisibilityTimeout": 30, "RedriveAllowPolicy": allowed})


def _fifo(names: Names, name: str, more: Properties) -> Resource:
    """Ordered by group and no slower for it: deduplication and throughput are counted group by group."""
    properties = {
        "QueueName": name,
        "FifoQueue": True,
        "ContentBasedDeduplication": False,
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
        "MessageRetentionPeriod": RETENTION_S,
        "SqsManagedSseEnabled": True,
        **more,
        "Tags": tags(names),
    }
    return Resource(Kind.QUEUE, name, properties, frozenset({"QueueName", "FifoQueue"}))
