"""A lane in an account of the emulator, with the runtimes that a test gives it."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.cli.command import CommandResult, call

from afterturn.aws.account import LANE_TAG, Account, open_account
from afterturn.aws.names import Names
from afterturn.aws.session import Access
from afterturn.aws.table import table_definition

T = TypeVar("T")
REGION = "us-east-1"
TEMPORAL = {"AFTERTURN_TEMPORAL_ADDRESS": "temporal.example:7233", "AFTERTURN_TEMPORAL_NAMESPACE": "company"}


def settings(lane: str, **more: str) -> dict[str, str]:
    """What every runtime of a lane has."""
    return {
        "AFTERTURN_PROFILE": "aws",
        "AFTERTURN_LANE": lane,
        "AFTERTURN_TABLE": f"afterturn-{lane}",
        "AFTERTURN_AWS_REGION": REGION,
        **more,
    }


class Lane:
    """Makes what a lane has in AWS, and audits it by the command."""

    def __init__(self, access: Access, session: Any, name: str) -> None:
        self.access = access
        self.session = session
        self.name = name
        self.names = Names.of(name)

    def audit(self, *words: object) -> CommandResult:
        return call("aws", "lane", "audit", "--lane", self.name, *words)

    def findings(self, *words: object, code: int = 3) -> list[tuple[str, str, str]]:
        """Fault, runtime and wire of each."""
        done = self.audit(*words, "--json")
        assert done.code == code, done.err or done.out
        return [(one["fault"], one["runtime"], one["setting"]) for one in done.json["findings"]]

    def do(self, work: Callable[[Account], Awaitable[T]]) -> T:
        async def run() -> T:
            async with open_account(self.access, "dynamodb", "sqs", "lambda", "ecs", session=self.session) as account:
                return await work(account)

        return asyncio.run(run())

    def provision(self) -> None:
        """What an audit needs of what `aws provision` makes; the functions are for each test to make."""

        async def work(account: Account) -> None:
            tag = {"Key": LANE_TAG, "Value": self.name}
            await account.dynamodb.create_table(**table_definition(self.names.table), Tags=[tag])
            for queue in (self.names.main, self.names.retry):
                await account.sqs.create_queue(QueueName=queue, Attributes={"FifoQueue": "true"})

        self.do(work)

    def function(
        self, name: str, variables: Mapping[str, str], *, alias: bool = True, reads: Sequence[str] = ()
    ) -> None:
        """A function, its alias ``live``, and mappings of queues."""

        async def work(account: Account) -> None:
            client = account.clients["lambda"]
            await client.create_function(
                FunctionName=name,
                Runtime="python3.11",
                Role=f"arn:aws:iam::{self.access.access_key}:role/r",
                Handler="f.handler",
                Code={"ZipFile": _zipped()},
                Environment={"Variables": dict(variables)},
            )
            told = await client.publish_version(FunctionName=name)
            if alias:
                await client.create_alias(FunctionName=name, Name="live", FunctionVersion=told["Version"])
            for queue in reads:
                await client.create_event_source_mapping(
                    EventSourceArn=account.location.queue_arn(queue),
                    FunctionName=f"{name}:live" if alias else name,
                    FunctionResponseTypes=["ReportBatchItemFailures"],
                    ScalingConfig={"MaximumConcurrency": 10},
                )

        self.do(work)

    def functions(self, **changes: str) -> None:
        """The lane's own two, as a deployment makes them."""
        bridge = {**settings(self.name), **TEMPORAL, **changes}
        self.function(f"{self.names.prefix}-bridge", bridge, reads=(self.names.main, self.names.retry))
        self.function(f"{self.names.prefix}-webhooks", settings(self.name, AFTERTURN_EMITTER="inbound-lambda"))

    def set(self, name: str, variables: Mapping[str, str]) -> None:
        """Change a function's variables by hand, and let the alias serve them."""

        async def work(account: Account) -> None:
            client = account.clients["lambda"]
            await client.update_function_configuration(FunctionName=name, Environment={"Variables": dict(variables)})
            told = await client.publish_version(FunctionName=name)
            await client.update_alias(FunctionName=name, Name="live", FunctionVersion=told["Version"])

        self.do(work)

    def service(self, name: str, containers: Sequence[Mapping[str, Any]], *, tasks: int = 1, **more: Any) -> None:
        async def work(account: Account) -> None:
            client = account.clients["ecs"]
            await client.create_cluster(clusterName="main")
            await client.register_task_definition(family=name, containerDefinitions=list(containers))
            await client.create_service(
                cluster="main",
                serviceName=name,
                taskDefinition=name,
                desiredCount=tasks,
                **{"launchType": "FARGATE", **more},
            )

        self.do(work)


def container(variables: Mapping[str, str], *, secrets: Sequence[str] = (), name: str = "app", **more: Any) -> Any:
    return {
        "name": name,
        "image": "afterturn",
        "environment": [{"name": key, "value": value} for key, value in variables.items()],
        "secrets": [{"name": key, "valueFrom": "arn:aws:ssm:us-east-1:1:parameter/x"} for key in secrets],
        **more,
    }


def worker(lane: str, **changes: str) -> Any:
    return container({**settings(lane), **TEMPORAL, **changes}, secrets=["AFTERTURN_TEMPORAL_API_KEY"])


def write_dotenv(path: Path, variables: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    return path


def open_lane(access: Access, session: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> Lane:
    """A lane that is provisioned; the command finds its account by the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", str(access.access_key))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AFTERTURN_AWS_ENDPOINT_URL", str(access.endpoint))
    monkeypatch.setenv("AFTERTURN_AWS_REGION", REGION)
    lane = Lane(access, session, name)
    lane.provision()
    return lane


def _zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("f.py", "def handler(event, context):\n    return {'batchItemFailures': []}\n")
    return buffer.getvalue()
