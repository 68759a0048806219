"""`aws deploy` and `aws rollback` against the emulator, which runs the functions and calls them for queues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from tests.contract.reactions.temporal_servers import Server, dev_server
from tests.contract.stream import publish
from tests.emulator import access, emulator, session  # noqa: F401
from tests.faults.deploying import APP, ROLE, aws, environment, small_zip

from afterturn.aws.names import Names
from afterturn.aws.session import Access, open_client
from afterturn.clock import system_clock
from afterturn.operations.account import Account, open_account
from afterturn.operations.provision import carry_out, plan_lane
from afterturn.stream.sqs import SqsStream, find_queues, open_stream

DEV = Names.of("dev")
BRIDGE = DEV.function("bridge")


@pytest.fixture(scope="module")
def temporal() -> Iterator[Server]:
    with dev_server() as server:
        yield server


@dataclass
class Rig:
    """A lane that is provisioned, and the shell of whoever deploys to it."""

    account: Account
    functions: Any
    stream: SqsStream
    temporal: str
    folder: Path

    async def deploy(self, *words: object, zip_: Path | None = None) -> Any:
        """In a thread, since the command brings a loop of its own."""
        given = zip_ or small_zip(self.folder / "one.zip")
        return await asyncio.to_thread(aws, "deploy", "bridge", "--zip", given, *words)

    async def rollback(self, *words: object) -> Any:
        return await asyncio.to_thread(aws, "rollback", "bridge", *words)

    async def serving(self) -> str | None:
        try:
            answer = await self.functions.get_alias(FunctionName=BRIDGE, Name="live")
        except self.functions.exceptions.ResourceNotFoundException:
            return None
        return str(answer["FunctionVersion"])

    async def versions(self) -> list[str]:
        answer = await self.functions.list_versions_by_function(FunctionName=BRIDGE)
        return [one["Version"] for one in answer["Versions"] if one["Version"] != "$LATEST"]

    async def drained(self) -> None:
        for _ in range(300):
            depth = await self.stream.depth()
            if not depth.main and not depth.direct:
                assert not depth.dead
                return
            await asyncio.sleep(0.1)
        raise AssertionError("records are left")

    async def started(self, consumer: str, conversation: str) -> bool:
        client = await Client.connect(self.temporal)
        described = await client.get_workflow_handle(f"dev/{consumer}/{conversation}").describe()
        return described.status is not None


@pytest.fixture
async def rig(
    access: Access,  # noqa: F811
    session: Any,  # noqa: F811
    temporal: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Rig]:
    for name, value in environment(access, temporal.target).items():
        monkeypatch.setenv(name, value)
    async with AsyncExitStack() as stack:
        account = await stack.enter_async_context(open_account(access, session=session))
        await carry_out(account, DEV, await plan_lane(account, DEV))
        functions = await stack.enter_async_context(open_client("lambda", access, session))
        queues = await find_queues(access, DEV, session=session)
        stream = await stack.enter_async_context(open_stream(access, queues, system_clock, session=session))
        yield Rig(account, functions, stream, temporal.target, tmp_path)


class TestBridge:
    async def test_what_is_settled_reaches_every_consumer_through_the_deployed_function(self, rig: Rig) -> None:
        """Records that wait before the first deployment, too, and those that were parked for one consumer."""
        await publish(rig.stream, "c1@1")
        done = await rig.deploy("--role", ROLE)
        assert done.code == 0, done.err
        await publish(rig.stream, "c2@1")
        await publish(rig.stream, "c3@1", consumer="keys", emission="first")
        await rig.drained()
        for conversation in ("c1", "c2", "c3"):
            assert await rig.started("keys", conversation)

    async def test_run_again_it_changes_nothing(self, rig: Rig) -> None:
        assert (await rig.deploy("--role", ROLE, "--json")).json["version"] == "1"
        again = await rig.deploy("--json")
        assert (again.code, again.json["changes"], again.json["version"]) == (0, 0, "1")
        assert {step["action"] for step in again.json["steps"]} == {"unchanged"}
        assert await rig.versions() == ["1"]

    async def test_other_code_becomes_a_version_of_its_own_that_serves(self, rig: Rig) -> None:
        await rig.deploy("--role", ROLE)
        done = await rig.deploy("--json", zip_=small_zip(rig.folder / "two.zip", "two"))
        assert done.code == 0, done.err
        assert (done.json["version"], await rig.serving()) == ("2", "2")
        assert "version 2 passed its smoke check" in done.err
        await publish(rig.stream, "c1@1")
        await rig.drained()
        assert await rig.started("keys", "c1")
