"""The life of a lane in AWS, by commands: provision, change, add an index, deploy, roll back, provision again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.contract.reactions.temporal_servers import Server
from tests.contract.stream import publish
from tests.faults.deploying import (  # noqa: F401
    BRIDGE,
    DEV,
    Rig,
    access,
    aws,
    connect,
    emulator,
    environment,
    session,
    small_zip,
    temporal_server,
)

from afterturn.aws.account import open_account
from afterturn.aws.session import Access
from afterturn.clock import system_clock
from afterturn.stream.sqs import find_queues, open_stream


async def test_a_lane_from_its_first_provision_to_a_rollback_that_stays(
    access: Access,  # noqa: F811
    session: Any,  # noqa: F811
    temporal: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment(access, temporal.target).items():
        monkeypatch.setenv(name, value)

    async def command(*words: object) -> Any:
        done = await asyncio.to_thread(aws, *words, "--json")
        assert done.code == 0, done.err
        return done.json

    async def changed() -> set[str]:
        """The resources that `provision` changes."""
        return {each["resource"] for each in (await command("provision"))["changes"]}

    assert {"Table", "EventsQueue", "BridgeFunction", "BridgeRole", "WorkerPolicy"} <= await changed()
    resized = (await command("provision", "--set", "Memory=1024"))["changes"]
    assert {("BridgeFunction", ("MemorySize",)), ("WebhooksFunction", ("MemorySize",))} <= {
        (each["resource"], tuple(each["properties"])) for each in resized
    }
    added = await command("index", "add", "conv-recency-index-b")
    assert (added["action"], added["ready"]) == ("create", True)
    assert await changed() == set()

    async with open_account(access, session=session) as account:
        queues = await find_queues(access, DEV, session=session)
        async with open_stream(access, queues, system_clock, session=session) as stream:
            rig = Rig(account, stream, await connect(temporal), tmp_path)
            await publish(stream, "c1@1")
            assert (await command("deploy", "bridge", "--zip", small_zip(tmp_path / "one.zip")))["version"] == "2"
            await rig.drained()
            assert await rig.started("keys", "c1"), "the queue invokes the function"
            two = small_zip(tmp_path / "two.zip", "two")
            assert (await command("deploy", "bridge", "--zip", two))["version"] == "3"
            await publish(stream, "c2@1")
            await rig.drained()
            assert await rig.started("keys", "c2")
            back = await command("rollback", "bridge")
            assert (back["from"], back["to"]) == ("3", "2")
            assert await changed() <= {"BridgeAlias"}
            assert await rig.serving() == "2", "the rolled-back version stays"
            assert await changed() == set()
            await command("provision", "--set", "Memory=512")
            assert await rig.serving() == "2"
            configuration = await rig.functions.get_function_configuration(FunctionName=BRIDGE, Qualifier="live")
            assert configuration["MemorySize"] == 1024, "a version keeps the memory that it was published with"
            await publish(stream, "c3@1")
            await rig.drained()
            assert await rig.started("keys", "c3")
