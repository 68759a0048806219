"""What ECS and Lambda tell only in AWS: the emulator finishes every deployment at once, and refuses nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from afterturn.aws.account import Location
from afterturn.aws.lane_audit.runtimes import read_event_sources, read_function, read_lane_function, read_service
from afterturn.aws.lane_audit.types import Runtime, RuntimeKind, RuntimeRole
from afterturn.aws.names import Names
from afterturn.errors import NotFound, StoreBusy, StoreError, StoreReadOnly

DEFINITION = "arn:aws:ecs:eu-central-1:123456789012:task-definition"
FUNCTION = "arn:aws:lambda:eu-central-1:123456789012:function:in"


class ScriptedClient:
    """Answers calls in the words of the service; an answer that is a code is raised."""

    class exceptions:
        ClientError = ClientError

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[str, Mapping[str, Any]]] = []

    def get_paginator(self, operation: str) -> Any:
        return SimpleNamespace(paginate=partial(self._pages, operation))

    async def _pages(self, operation: str, **query: Any) -> AsyncIterator[Any]:
        page = await getattr(self, operation)(**query)
        yield page
        while marker := page.get("NextMarker"):
            page = await getattr(self, operation)(**query, Marker=marker)
            yield page

    def __getattr__(self, name: str) -> Any:
        async def call(**given: Any) -> Any:
            self.calls.append((name, given))
            answer = self.answers[name]
            if callable(answer):
                answer = answer(**given)
            if isinstance(answer, str):
                raise ClientError({"Error": {"Code": answer, "Message": "geheim"}}, name)
            return answer

        return call


def definition(taskDefinition: str) -> Any:
    lane = "prod" if taskDefinition.endswith(":2") else "preview"
    variables = [{"name": "AFTERTURN_LANE", "value": lane}]
    return {
        "taskDefinition": {
            "taskDefinitionArn": taskDefinition,
            "containerDefinitions": [{"name": "app", "environment": variables}],
        }
    }


def service(**more: Any) -> Any:
    told = {"status": "ACTIVE", "desiredCount": 1, "launchType": "FARGATE", "taskDefinition": f"{DEFINITION}/w:2"}
    return {"services": [{**told, **more}], "failures": []}


async def test_a_task_definition_that_is_being_replaced_still_runs_and_is_read() -> None:
    deployments = [
        {"status": "PRIMARY", "taskDefinition": f"{DEFINITION}/w:2", "runningCount": 0},
        {"status": "ACTIVE", "taskDefinition": f"{DEFINITION}/w:1", "runningCount": 2},
        {"status": "ACTIVE", "taskDefinition": f"{DEFINITION}/w:0", "runningCount": 0},
    ]
    client = ScriptedClient(describe_services=service(deployments=deployments), describe_task_definition=definition)
    runtimes = await read_service(client, "main", "w", None, RuntimeRole.WORKER)
    assert [(one.name, one.environment["AFTERTURN_LANE"], one.region) for one in runtimes] == [
        ("main/w (w:2)", "prod", "eu-central-1"),
        ("main/w (w:1)", "preview", "eu-central-1"),
    ]


@pytest.mark.parametrize(
    ("more", "lacks"),
    [({"desiredCount": 0}, "a running task"), ({"desiredCount": 0, "schedulingStrategy": "DAEMON"}, None), ({}, None)],
)
async def test_a_service_that_is_to_run_nothing_lacks_a_task(more: dict[str, Any], lacks: str | None) -> None:
    client = ScriptedClient(describe_services=service(**more), describe_task_definition=definition)
    (runtime,) = await read_service(client, "main", "w", None, RuntimeRole.WORKER)
    assert runtime.lacking == lacks


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("ClusterNotFoundException", NotFound),
        ({"services": [], "failures": [{"arn": "x", "reason": "MISSING"}]}, NotFound),
        ({"services": [{"status": "INACTIVE"}], "failures": []}, NotFound),
        ({"services": [], "failures": [{"arn": "x", "reason": "ACCESS_DENIED"}]}, StoreError),
        ("AccessDeniedException", StoreReadOnly),
        ("ThrottlingException", StoreBusy),
        ("ServerException", StoreError),
    ],
)
async def test_a_service_that_cannot_be_read_is_an_error_that_names_it(answer: Any, kind: type[Exception]) -> None:
    client = ScriptedClient(describe_services=answer, describe_task_definition=definition)
    with pytest.raises(kind, match="ecs main/w") as caught:
        await read_service(client, "main", "w", None, RuntimeRole.WORKER)
    assert "geheim" not in str(caught.value)


async def test_a_task_definition_that_cannot_be_read_is_an_error() -> None:
    client = ScriptedClient(describe_services=service(), describe_task_definition="AccessDeniedException")
    with pytest.raises(StoreReadOnly, match="ecs main/w: task definition"):
        await read_service(client, "main", "w", None, RuntimeRole.WORKER)


async def test_variables_that_lambda_cannot_decrypt_are_not_taken_for_none() -> None:
    error = {"ErrorCode": "KMSAccessDeniedException", "Message": "geheim"}
    client = ScriptedClient(get_function_configuration={"FunctionArn": FUNCTION, "Environment": {"Error": error}})
    with pytest.raises(StoreReadOnly, match=r"KMSAccessDeniedException.*kms:Decrypt") as caught:
        await read_function(client, "in", None, RuntimeRole.INBOUND)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "kind"), [("AccessDeniedException", StoreReadOnly), ("TooManyRequestsException", StoreBusy)]
)
async def test_a_function_that_may_not_be_read_is_not_taken_for_absent(code: str, kind: type[Exception]) -> None:
    client = ScriptedClient(get_function_configuration=code)
    with pytest.raises(kind, match="lambda in"):
        await read_lane_function(client, "in", RuntimeRole.INBOUND)


async def test_a_function_without_variables_is_a_runtime_that_lacks_everything() -> None:
    client = ScriptedClient(get_function_configuration={"FunctionArn": FUNCTION})
    (runtime,) = await read_function(client, "in", "live", RuntimeRole.INBOUND)
    assert runtime == Runtime(
        RuntimeKind.LAMBDA, "in:live", {}, RuntimeRole.INBOUND, region="eu-central-1", qualifier="live"
    )


async def test_a_reference_to_a_secret_is_present_and_not_readable() -> None:
    variables = {
        "AFTERTURN_TABLE": "arn:aws:ssm:eu-central-1:123456789012:parameter/table",
        "AFTERTURN_LANE": "{{resolve:ssm:/lane}}",
        "AFTERTURN_PROFILE": "aws",
    }
    told = {"FunctionArn": FUNCTION, "Environment": {"Variables": variables}}
    (runtime,) = await read_function(ScriptedClient(get_function_configuration=told), "in", None, RuntimeRole.INBOUND)
    assert runtime.environment == {"AFTERTURN_TABLE": None, "AFTERTURN_LANE": None, "AFTERTURN_PROFILE": "aws"}


async def test_every_page_of_the_mappings_is_read_once_and_by_name_alias_and_queue() -> None:
    """Lambda lists a function's mappings by the name that they were made with: with an alias, or without."""

    def listed(**given: Any) -> Any:
        asked = given.get("FunctionName") or given["EventSourceArn"]
        if given.get("Marker"):
            return {"EventSourceMappings": [mapping("last")]}
        if asked == "in":
            return "ResourceNotFoundException"
        return {"EventSourceMappings": [mapping(asked)], "NextMarker": "more"}

    def mapping(uuid: str) -> Any:
        return {"UUID": uuid, "FunctionArn": f"{FUNCTION}:live", "EventSourceArn": f"arn:{uuid}", "State": "Enabled"}

    client = ScriptedClient(list_event_source_mappings=listed)
    runtime = Runtime(RuntimeKind.LAMBDA, "in:live", {}, RuntimeRole.BRIDGE, qualifier="live")
    location = Location("eu-central-1", "123456789012")
    feeds = await read_event_sources(client, location, Names.of("prod"), [runtime])
    queues = [location.queue_arn(name) for name in ("afterturn-prod-events.fifo", "afterturn-prod-retry.fifo")]
    assert sorted(feed.source for feed in feeds) == sorted(f"arn:{uuid}" for uuid in ("in:live", "last", *queues))
    assert {(feed.function, feed.qualifier, feed.reports_partial) for feed in feeds} == {("in", "live", False)}
    assert {name for name, _ in client.calls} == {"list_event_source_mappings"}
