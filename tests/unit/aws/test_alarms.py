"""F50: alarms that say what is wrong, once, for one lane, and when it is over."""

from __future__ import annotations

from typing import Any

import pytest

from afterturn.aws.names import LANES, Names
from afterturn.operations.alarms import alarms
from afterturn.operations.resources import Kind, Place, resources


def of_lane(lane: str) -> dict[str, dict[str, Any]]:
    wanted = resources(Names.of(lane), Place("eu-central-1", "123456789012"))
    return {one.name: dict(one.properties) for one in wanted if one.kind is Kind.ALARM}


def breaches(alarm: dict[str, Any], data: list[float]) -> bool:
    """What CloudWatch makes of one period's data."""
    if not data:
        return bool(alarm["TreatMissingData"] == "breaching")
    value = max(data) if alarm["Statistic"] == "Maximum" else sum(data)
    return bool(value >= alarm["Threshold"])


def test_the_first_dead_letter_is_told_from_what_can_be_seen_of_it() -> None:
    for title, queue in (("events", "afterturn-dev-events-dlq.fifo"), ("retry", "afterturn-dev-retry-dlq.fifo")):
        alarm = of_lane("dev")[f"afterturn-dev-{title}-first-dead-letter"]
        assert alarm["MetricName"] == "ApproximateNumberOfMessagesVisible"
        assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": queue}]
        assert alarm["EvaluationPeriods"] * alarm["Period"] == 60
        assert not breaches(alarm, [])  # six idle hours
        assert not breaches(alarm, [0])
        assert breaches(alarm, [0, 1])


def test_age_is_watched_where_records_wait_and_nowhere_else() -> None:
    ages = [one for one in of_lane("dev").values() if one["MetricName"] == "ApproximateAgeOfOldestMessage"]
    assert {one["Dimensions"][0]["Value"] for one in ages} == {"afterturn-dev-events.fifo", "afterturn-dev-retry.fifo"}
    assert all(not breaches(one, [30]) and breaches(one, [7_200]) for one in ages)


def test_an_idle_lane_is_a_healthy_one_and_every_alarm_says_when_it_is_over() -> None:
    for alarm in of_lane("dev").values():
        assert alarm["TreatMissingData"] == "notBreaching"
        assert alarm["OKActions"] == alarm["AlarmActions"] != []
        assert alarm["ActionsEnabled"] is True


def test_each_index_that_can_run_hot_is_watched() -> None:
    """One whose writes are throttled throttles the table's."""
    indexes = {
        dimension["Value"]
        for one in of_lane("dev").values()
        for dimension in one["Dimensions"]
        if dimension["Name"] == "GlobalSecondaryIndexName"
    }
    assert indexes == {"conv-recency-index", "conv-recency-index-b", "property-recency-index"}


@pytest.mark.parametrize("lane", LANES)
def test_no_lane_pages_for_another(lane: str) -> None:
    own = of_lane(lane)
    for name, alarm in own.items():
        assert name.startswith(f"afterturn-{lane}-")
        assert f"Lane {lane}:" in alarm["AlarmDescription"]
        assert all(lane in told for told in alarm["AlarmActions"])
        assert all(
            f"-{lane}" in one["Value"] or one["Value"].endswith(("index", "index-b")) for one in alarm["Dimensions"]
        )
    for other in set(LANES) - {lane}:
        assert not own.keys() & of_lane(other).keys()


def test_names_and_descriptions_are_what_cloudwatch_takes() -> None:
    for alarm in alarms(Names.of("preview")):
        assert len(alarm["AlarmName"]) <= 255
        assert len(alarm["AlarmDescription"]) <= 1_024
        assert alarm["Period"] % 60 == 0
