"""The alarms of a lane, as data. Each has a runbook in docs/operations.md.

Every one of them calls missing data good, since SQS and DynamoDB report nothing of what is not used, and every one says
when it is over. Dead letters are counted by what can be seen of them: the age of the oldest says nothing there, and
what somebody is looking at is not gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from afterturn.aws.names import Names
from afterturn.aws.table import PROPERTY_RECENCY, RECENCY, RECENCY_B

MAIN_AGE_S = 600
"""An event is signaled within seconds; ten minutes mean that the bridge or the engine stands still."""

RETRY_AGE_S = 3_600
"""What is parked for one sick consumer comes back after seconds at first, and after hours in the end."""

THROTTLES = 10
"""In five minutes. A few are retried without notice: on-demand tables throttle while they grow."""

_RUNBOOK = "See the runbook in docs/operations.md."


def alarms(names: Names) -> tuple[dict[str, Any], ...]:
    """In the words of PutMetricAlarm, without actions."""
    return (*_dead_letters(names), *_ages(names), *_throttles(names))


def _dead_letters(names: Names) -> Iterator[dict[str, Any]]:
    for queue, title in ((names.main_dead, "events"), (names.retry_dead, "retry")):
        yield _alarm(
            f"{names.prefix}-{title}-first-dead-letter",
            f"Lane {names.lane}: a record was given up on. Reactions to it are owed until it is redriven. {_RUNBOOK}",
            "AWS/SQS",
            "ApproximateNumberOfMessagesVisible",
            {"QueueName": queue},
            threshold=1,
            period=60,
        )


def _ages(names: Names) -> Iterator[dict[str, Any]]:
    for queue, title, limit in ((names.main, "events", MAIN_AGE_S), (names.retry, "retry", RETRY_AGE_S)):
        yield _alarm(
            f"{names.prefix}-{title}-oldest-message",
            f"Lane {names.lane}: a record waits for more than {limit // 60} minutes: the bridge or the engine stands "
            f"still, or a consumer is sick. {_RUNBOOK}",
            "AWS/SQS",
            "ApproximateAgeOfOldestMessage",
            {"QueueName": queue},
            threshold=limit,
            period=300,
        )


def _throttles(names: Names) -> Iterator[dict[str, Any]]:
    table = {"TableName": names.table}
    for kind in ("Read", "Write"):
        yield _throttle(names, f"table-{kind.lower()}-throttles", kind, table)
    for index in (RECENCY, RECENCY_B, PROPERTY_RECENCY):
        dimensions = {**table, "GlobalSecondaryIndexName": index.name}
        yield _throttle(names, f"{index.name}-write-throttles", "Write", dimensions)


def _throttle(names: Names, title: str, kind: str, dimensions: Mapping[str, str]) -> dict[str, Any]:
    where = " of index ".join(dimensions.values())
    return _alarm(
        f"{names.prefix}-{title}",
        f"Lane {names.lane}: DynamoDB throttles {kind.lower()}s of {where}; a recency index that is too hot needs "
        f"another layout. {_RUNBOOK}",
        "AWS/DynamoDB",
        f"{kind}ThrottleEvents",
        dimensions,
        threshold=THROTTLES,
        period=300,
        statistic="Sum",
    )


def _alarm(
    name: str,
    description: str,
    namespace: str,
    metric: str,
    dimensions: Mapping[str, str],
    *,
    threshold: int,
    period: int,
    statistic: str = "Maximum",
) -> dict[str, Any]:
    return {
        "AlarmName": name,
        "AlarmDescription": description,
        "ActionsEnabled": True,
        "Namespace": namespace,
        "MetricName": metric,
        "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
        "Statistic": statistic,
        "Period": period,
        "EvaluationPeriods": 1,
        "Threshold": threshold,
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "TreatMissingData": "notBreaching",
    }
