"""infra/template.json agrees with the code that uses its resources, and CloudFormation accepts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from afterturn.aws import stack
from afterturn.aws.names import LANES, Names
from afterturn.aws.table import ALL_INDEXES, INDEXES, TTL_ATTRIBUTE, table_definition
from afterturn.stream.port import MAX_RECEIVES

FILE = Path(__file__).parents[3] / "infra/template.json"
TEMPLATE: dict[str, Any] = json.loads(FILE.read_text())
RESOURCES: dict[str, Any] = TEMPLATE["Resources"]
NOTHING = object()


def resolved(value: Any, **parameters: str) -> Any:
    """A value of the template with conditions and names filled in, for lane dev."""
    if isinstance(value, list):
        return [each for each in (resolved(every, **parameters) for every in value) if each is not NOTHING]
    if not isinstance(value, dict):
        return value
    if value == {"Ref": "AWS::NoValue"}:
        return NOTHING
    if "Fn::If" in value:
        condition, yes, no = value["Fn::If"]
        return resolved(yes if holds(condition, parameters) else no, **parameters)
    if "Fn::Sub" in value:
        return value["Fn::Sub"].replace("${Lane}", "dev")
    return {key: resolved(each, **parameters) for key, each in value.items()}


def holds(condition: str, parameters: dict[str, str]) -> bool:
    rule = TEMPLATE["Conditions"][condition]
    negated = "Fn::Not" in rule
    left, right = (rule["Fn::Not"][0] if negated else rule)["Fn::Equals"]
    value = parameters.get(left["Ref"], TEMPLATE["Parameters"][left["Ref"]].get("Default"))
    return (value == right) is not negated


def of_type(kind: str) -> dict[str, Any]:
    return {name: each["Properties"] for name, each in RESOURCES.items() if each["Type"] == kind}


def test_it_is_small_enough_to_be_sent_inline() -> None:
    assert len(FILE.read_bytes()) < 51_200


def test_cfn_lint_passes() -> None:
    lint = Path(sys.executable).with_name("cfn-lint")
    command = [str(lint), "--regions", "eu-central-1", "us-east-1", "--", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("indexes", [INDEXES, INDEXES[1:], ALL_INDEXES], ids=["new", "without", "with"])
def test_the_table_has_the_indexes_that_are_turned_on(indexes: tuple[Any, ...]) -> None:
    switches = {each.parameter: "on" if each in indexes else "off" for each in ALL_INDEXES}
    table = resolved(RESOURCES["Table"]["Properties"], **switches)
    expected = table_definition("afterturn-dev", indexes)
    assert {key: table[key] for key in expected} == expected
    assert table["TimeToLiveSpecification"] == {"AttributeName": TTL_ATTRIBUTE, "Enabled": True}


def test_a_new_lane_gets_every_index_that_is_read() -> None:
    on = {name for name, each in TEMPLATE["Parameters"].items() if each.get("Default") == "on"}
    assert on == {each.parameter for each in INDEXES}


def test_names_are_those_that_the_code_looks_for() -> None:
    names = Names.of("dev")
    assert TEMPLATE["Parameters"]["Lane"]["AllowedValues"] == list(LANES)
    queues = {resolved(each["QueueName"]) for each in of_type("AWS::SQS::Queue").values()}
    assert queues == {names.main, names.retry, names.main_dead, names.retry_dead}
    functions = {resolved(each["FunctionName"]) for each in of_type("AWS::Lambda::Function").values()}
    assert functions == {names.function(part) for part in stack.FUNCTIONS}
    assert {each["Name"] for each in of_type("AWS::Lambda::Alias").values()} == {stack.ALIAS}


def test_a_record_is_received_so_often_before_it_is_dead_lettered() -> None:
    policies = [each["RedrivePolicy"] for each in of_type("AWS::SQS::Queue").values() if "RedrivePolicy" in each]
    assert [each["maxReceiveCount"] for each in policies] == [MAX_RECEIVES] * 2


def test_queues_hide_a_record_for_six_calls_of_the_bridge() -> None:
    timeout = RESOURCES["BridgeFunction"]["Properties"]["Timeout"]
    for queue in ("EventsQueue", "RetryQueue"):
        assert RESOURCES[queue]["Properties"]["VisibilityTimeout"] >= 6 * timeout


def test_mappings_report_failed_records_and_start_disabled() -> None:
    mappings = of_type("AWS::Lambda::EventSourceMapping")
    assert len(mappings) == 2
    for mapping in mappings.values():
        assert mapping["FunctionName"] == {"Ref": "BridgeAlias"}
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert mapping["ScalingConfig"] == {"MaximumConcurrency": {"Ref": "MaximumConcurrency"}}
        assert (resolved(mapping["Enabled"]), resolved(mapping["Enabled"], BridgeMapping="on")) == (False, True)
    assert TEMPLATE["Parameters"]["MaximumConcurrency"]["Default"] == 10


def test_data_outlives_the_stack() -> None:
    for resource in RESOURCES.values():
        if resource["Type"] in ("AWS::DynamoDB::Table", "AWS::SQS::Queue"):
            assert resource["DeletionPolicy"] == "RetainExceptOnCreate"
            assert resource["UpdateReplacePolicy"] == "Retain"


def test_every_alarm_names_the_lane_says_when_it_is_over_and_takes_missing_data_as_good() -> None:
    alarms = of_type("AWS::CloudWatch::Alarm")
    assert {each["MetricName"] for each in alarms.values()} == {
        "ApproximateNumberOfMessagesVisible",
        "ApproximateAgeOfOldestMessage",
        "ReadThrottleEvents",
        "WriteThrottleEvents",
        "Errors",
        "Throttles",
        "Url5xxCount",
    }
    for alarm in alarms.values():
        assert resolved(alarm["AlarmName"]).startswith("afterturn-dev-")
        assert "Lane dev: " in resolved(alarm["AlarmDescription"])
        assert alarm["TreatMissingData"] == "notBreaching"
        assert alarm["OKActions"] == alarm["AlarmActions"]
        assert resolved(alarm["AlarmActions"], Notify="") == [{"Ref": "AlarmTopic"}]
        assert resolved(alarm["AlarmActions"], Notify="arn") == {"Fn::Split": [",", {"Ref": "Notify"}]}
    first = alarms["EventsDeadLetterAlarm"]
    assert (first["Threshold"], first["Period"], first["ComparisonOperator"]) == (
        1,
        60,
        "GreaterThanOrEqualToThreshold",
    )


def test_no_role_may_do_more_than_its_runtime_needs() -> None:
    bridge, webhooks = (
        {
            action
            for statement in RESOURCES[role]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
            for each in [resolved(statement, MailBucket="mail")]
            for action in ([each["Action"]] if isinstance(each["Action"], str) else each["Action"])
        }
        for role in ("BridgeRole", "WebhooksRole")
    )
    assert not [action for action in bridge if action.startswith("dynamodb:")], "the bridge opens no table"
    assert "sqs:ReceiveMessage" not in webhooks
    policies = json.dumps([RESOURCES[each] for each in ("BridgeRole", "WebhooksRole", "WorkerPolicy")])
    assert '"Resource": "*"' not in policies
    assert ':*"' not in policies
