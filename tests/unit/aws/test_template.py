"""The CloudFormation template is kept in step with what `aws provision` makes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from afterturn.aws.names import Names
from afterturn.operations import template
from afterturn.operations.resources import Kind, Place, resources

FILE = Path(__file__).parents[3] / "infra/cloudformation.json"
PARAMETERS = {"Lane": "dev", "AWS::Region": "eu-central-1", "AWS::AccountId": "123456789012", "AWS::Partition": "aws"}


def test_the_file_is_what_the_code_makes() -> None:
    """Renew it with: python -m afterturn.operations.template > infra/cloudformation.json"""
    assert FILE.read_text("utf-8") == template.text()


def test_cloudformation_makes_what_provision_makes() -> None:
    """Resource by resource and property by property, once the parameters are filled in."""
    wanted = {one.name: one for one in resources(Names.of("dev"), Place("eu-central-1", "123456789012"))}
    made = [filled(one["Properties"]) for one in template.template()["Resources"].values()]
    named = {
        next(one[key] for key in ("QueueName", "AlarmName", "TopicName", "TableName") if key in one): one
        for one in made
    }
    assert named.keys() == {name for name, one in wanted.items() if one.kind is not Kind.INDEX}
    for name, properties in named.items():
        tags = {tag["Key"]: tag["Value"] for tag in properties.pop("Tags")}
        assert {**properties, "Tags": tags} == dict(wanted[name].properties)


def test_data_outlives_its_stack() -> None:
    for one in template.template()["Resources"].values():
        if one["Type"] in ("AWS::DynamoDB::Table", "AWS::SQS::Queue"):
            assert one["DeletionPolicy"] == one["UpdateReplacePolicy"] == "Retain"


def test_cfn_lint_passes() -> None:
    lint = Path(sys.executable).with_name("cfn-lint")
    done = subprocess.run(
        [str(lint), "--regions", "eu-central-1", "us-east-1", "--", str(FILE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def filled(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"Fn::Sub"}:
            text = value["Fn::Sub"]
            for name, given in PARAMETERS.items():
                text = text.replace(f"${{{name}}}", given)
            return text
        return {key: filled(one) for key, one in value.items()}
    return [filled(one) for one in value] if isinstance(value, list) else value


def test_the_template_is_small_enough_to_be_given_inline() -> None:
    assert len(json.dumps(template.template())) < 51_200
