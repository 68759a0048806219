"""The same resources as a CloudFormation template.

python -m afterturn.operations.template > infra/cloudformation.json
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from afterturn.aws.names import LANES, Names
from afterturn.operations.resources import Kind, Place, Resource, resources

_TYPES = {
    Kind.TOPIC: "AWS::SNS::Topic",
    Kind.TABLE: "AWS::DynamoDB::Table",
    Kind.QUEUE: "AWS::SQS::Queue",
    Kind.ALARM: "AWS::CloudWatch::Alarm",
}
_LANE = "${Lane}"
_HOLDS_DATA = (Kind.TABLE, Kind.QUEUE)


def template() -> dict[str, Any]:
    """Everything that `afterturn aws provision` makes, for a lane that is a parameter.

    The order of what is made follows from DependsOn, since names stand in place of references.
    """
    names = Names.of(_LANE)
    place = Place("${AWS::Region}", "${AWS::AccountId}", "${AWS::Partition}")
    wanted = [one for one in resources(names, place) if one.kind is not Kind.INDEX]
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "afterturn: the table, queues and alarms of one lane",
        "Parameters": {
            "Lane": {"Type": "String", "AllowedValues": list(LANES), "Description": "Which deployment this is."}
        },
        "Resources": {_logical_id(one): _resource(one, wanted) for one in wanted},
        "Outputs": {
            "Table": {"Value": {"Ref": _logical_id(next(one for one in wanted if one.kind is Kind.TABLE))}},
            **{f"{_logical_id(one)}Url": {"Value": {"Ref": _logical_id(one)}} for one in wanted if _is_live(one)},
        },
    }


def text() -> str:
    """As it stands in infra/cloudformation.json."""
    return json.dumps(template(), indent=2) + "\n"


def _resource(one: Resource, wanted: list[Resource]) -> dict[str, Any]:
    properties = dict(one.properties)
    properties["Tags"] = [{"Key": key, "Value": value} for key, value in properties["Tags"].items()]
    found: dict[str, Any] = {"Type": _TYPES[one.kind]}
    if one.kind in _HOLDS_DATA:
        found |= {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}
    if _is_live(one):
        dead = one.properties["RedrivePolicy"]["deadLetterTargetArn"].rpartition(":")[2]
        found["DependsOn"] = next(_logical_id(other) for other in wanted if other.name == dead)
    if one.kind is Kind.ALARM:
        found["DependsOn"] = next(_logical_id(other) for other in wanted if other.kind is Kind.TOPIC)
    return found | {"Properties": _substituted(properties)}


def _is_live(one: Resource) -> bool:
    return one.kind is Kind.QUEUE and "RedrivePolicy" in one.properties


def _logical_id(one: Resource) -> str:
    """``EventsDlqQueue`` for ``afterturn-${Lane}-events-dlq.fifo``."""
    bare = one.name.replace(f"afterturn-{_LANE}", "").removesuffix(".fifo")
    return "".join(word.capitalize() for word in re.split(r"[^A-Za-z0-9]+", bare)) + one.kind.value.capitalize()


def _substituted(value: Any) -> Any:
    """Texts with parameters in them, as CloudFormation fills them in."""
    if isinstance(value, str):
        return {"Fn::Sub": value} if "${" in value else value
    if isinstance(value, Mapping):
        return {key: _substituted(one) for key, one in value.items()}
    return [_substituted(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    print(text(), end="")
