"""Processes that do one thing: what they leave is whole, and they carry no more than they need."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.emulator import ROOT, access, emulator, provision  # noqa: F401

from afterturn import App, ReactionContext, Settings, Stamp, TurnWindow
from afterturn.aws.account import open_account
from afterturn.aws.names import Names
from afterturn.aws.session import Access
from afterturn.bootstrap import open_settler
from afterturn.clock import system_clock
from afterturn.errors import ConfigError
from afterturn.model import Channel, ConversationMeta, Direction, Message, Role, Turn


def turn() -> Turn:
    said = Message(id="m-1", direction=Direction.INBOUND, role=Role.CUSTOMER, text="Hello", at=system_clock())
    return Turn(conversation=ConversationMeta(id="c-1", channel=Channel.WEB), messages=(said,))


async def test_what_it_settles_the_reactions_of_another_process_come_to_see(tmp_path: Path) -> None:
    app = App(shipped=False)

    @app.consumer("length", quiet="0s", max_wait="1s")
    async def length(turns: TurnWindow, ctx: ReactionContext) -> Stamp:
        return Stamp(data={"messages": len(turns.messages)})

    settings = Settings(db=tmp_path / "afterturn.db")
    async with app.open(settings) as backbone:
        async with open_settler(settings) as settler:
            receipt = await settler.settle(turn())
        await backbone.drain(eager=True)
        stored = await backbone.store.conversation("c-1")
    assert stored is not None
    assert stored.reactions["length"].through == receipt.occurred_at
    assert stored.reactions["length"].data == {"messages": 1}


ALONE = """
import asyncio, sys
from tests.unit.test_single_purpose_processes import turn
from afterturn import Settings
from afterturn.bootstrap import open_settler

async def settle():
    async with open_settler(Settings()) as settler:
        return await settler.settle(turn())

print(asyncio.run(settle()).event.event_id)
print(*(name for name in sys.modules if name.partition(".")[0] == "temporalio"))
"""


BRIDGE = """
import asyncio, sys
from afterturn import App, Settings
from afterturn.bootstrap.bridge import open_bridge

async def look():
    async with open_bridge(App(), Settings()) as lone:
        print(*lone.registry.signalled)

asyncio.run(look())
print(*(name for name in sys.modules if name.startswith("temporalio.worker")))
"""


async def run_alone(code: str, access: Access) -> tuple[str, str]:  # noqa: F811
    """In an interpreter of its own, configured by the environment alone, as in a function or a container."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "AFTERTURN_PROFILE": "aws",
        "AFTERTURN_EMITTER": "web",
        "AFTERTURN_AWS_ENDPOINT_URL": str(access.endpoint),
        "AWS_REGION": str(access.region),
        "AWS_ACCESS_KEY_ID": str(access.access_key),
        "AWS_SECRET_ACCESS_KEY": str(access.secret_key),
    }
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split("\n")[:2]
    return first, second


async def test_on_aws_the_emit_path_publishes_and_never_loads_a_reaction_engine(access: Access) -> None:  # noqa: F811
    names = Names.of("dev")
    async with open_account(access) as account:
        await provision(account, names)
        event_id, heavy = await run_alone(ALONE, access)
        assert heavy == ""
        queue = await account.sqs.get_queue_url(QueueName=names.main)
        [record] = (await account.sqs.receive_message(QueueUrl=queue["QueueUrl"], WaitTimeSeconds=5))["Messages"]
    assert json.loads(record["Body"])["eventId"] == event_id
    assert json.loads(record["Body"])["emitter"] == "web"


async def test_on_aws_a_bridge_opens_without_table_and_temporal_and_loads_no_worker(access: Access) -> None:  # noqa: F811
    async with open_account(access) as account:
        await provision(account, Names.of("dev"))
        await account.dynamodb.update_table(TableName="afterturn-dev", DeletionProtectionEnabled=False)
        await account.dynamodb.delete_table(TableName="afterturn-dev")
    consumers, heavy = await run_alone(BRIDGE, access)
    assert "topics" in consumers.split()
    assert heavy == ""


async def test_the_embedded_profile_refuses_a_workflow_of_another_program(tmp_path: Path) -> None:
    """It has no Temporal to signal it with, and an event that nobody gets must not look delivered."""
    app = App(shipped=False)
    app.registry.add_foreign("billing", workflow="Billing", signal="settled", task_queue="billing")
    with pytest.raises(ConfigError, match=r"billing.*local or aws"):
        async with app.open(db=tmp_path / "afterturn.db"):
            pass
