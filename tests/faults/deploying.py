"""Deployments to the emulator: a lane to deploy to, small zips whose functions find what a test finds, the command.

Take the fixtures into a test module::

    from tests.faults.deploying import access, emulator, open_rig, session, temporal_server  # noqa: F401
"""

from __future__ import annotations

import asyncio
import os
import sys
import zipfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from tests.cli.command import Done, call
from tests.contract.reactions.temporal_servers import Server, dev_server
from tests.emulator import access, emulator, session

from afterturn.aws.names import Names
from afterturn.aws.session import Access
from afterturn.clock import system_clock
from afterturn.operations.account import Account, Whose, open_account
from afterturn.operations.deploy import archive, carrying
from afterturn.operations.deploy.calls import function_arn, open_functions
from afterturn.operations.deploy.functions import Part, Wanted, variables
from afterturn.operations.deploy.looking import look_for
from afterturn.operations.deploy.plan import plan
from afterturn.operations.indexes import Patience
from afterturn.operations.provision import carry_out, plan_lane
from afterturn.stream.sqs import SqsStream, find_queues, open_stream

__all__ = ["access", "emulator", "session"]

DEV = Names.of("dev")
BRIDGE = DEV.function("bridge")
QUICK = Patience(timeout=60, every=0.05)
ROLE = "arn:aws:iam::000000000000:role/afterturn"

STUB = """
import importlib, os, sys
here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:] = {paths!r} + [path for path in sys.path if path != here] + [here]
del sys.modules["afterturn"]
sys.modules["afterturn"] = importlib.import_module("afterturn")
# {note}
"""
"""In place of a zip with everything in it: it hands over to the afterturn that this test has."""

APP = """
from afterturn import App, Stamp

app = App(shipped=False)


@app.consumer("keys", quiet="1h", max_wait="2h")
async def keys(turns, ctx):
    return Stamp()
"""


def small_zip(path: Path, note: str = "one", app: str = APP, files: Mapping[str, str] | None = None) -> Path:
    """``note`` makes it another version; ``files`` take the place of what it has."""
    stub = STUB.format(paths=[path for path in sys.path if path], note=note)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {"afterturn/__init__.py": stub, "keys_app.py": app, **(files or {})}.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return path


def handler_zip(path: Path, part: str, code: str) -> Path:
    """A zip of one function body, which says or does whatever a test needs of ``part``."""
    files = {
        "afterturn/__init__.py": "",
        "afterturn/bootstrap/__init__.py": "",
        f"afterturn/bootstrap/lambda_{part}.py": f"def handler(event, context):\n    {code.strip()}\n",
    }
    return small_zip(path, files=files)


def environment(access: Access, temporal: str) -> dict[str, str]:
    """What the shell of whoever deploys has."""
    return {
        "AWS_ACCESS_KEY_ID": str(access.access_key),
        "AWS_SECRET_ACCESS_KEY": "test",
        "AFTERTURN_AWS_ENDPOINT_URL": str(access.endpoint),
        "AFTERTURN_AWS_REGION": "us-east-1",
        "AFTERTURN_LANE": "dev",
        "AFTERTURN_TEMPORAL_ADDRESS": temporal,
        "AFTERTURN_APP": "keys_app:app",
    }


def aws(*words: object) -> Done:
    """An ``aws`` command."""
    return call("aws", *words)


@pytest.fixture(name="temporal", scope="module")
def temporal_server() -> Iterator[Server]:
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

    async def bring(self, zip_: Path, patience: Patience = QUICK) -> None:
        """As the command does it, without the command."""
        made = archive.read(zip_)
        found = await look_for(self.account, Part.BRIDGE, DEV)
        given = variables(Part.BRIDGE, DEV, os.environ, found.variables)
        wanted = Wanted(Part.BRIDGE, DEV, made.sha256, "python3.13", "x86_64", 512, role=ROLE, variables=given)
        planned = plan(wanted, found, function_arn(self.account, BRIDGE))
        await carrying.carry_out(self.account, wanted, found, planned, made, patience=patience)

    def writes(self) -> list[str]:
        """The calls from now on that change something."""
        made: list[str] = []

        def note(model: Any, **_: Any) -> None:
            if not model.name.startswith(("Get", "List")):
                made.append(model.name)

        self.functions.meta.events.register("before-call.lambda", note)
        return made

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
            if not depth.main and not depth.retry:
                assert not depth.dead_letters
                return
            await asyncio.sleep(0.1)
        raise AssertionError("records are left")

    async def started(self, consumer: str, conversation: str) -> bool:
        client = await Client.connect(self.temporal)
        described = await client.get_workflow_handle(f"dev/{consumer}/{conversation}").describe()
        return described.status is not None


@pytest.fixture(name="rig")
async def open_rig(
    access: Access,
    session: Any,
    temporal: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Rig]:
    for name, value in environment(access, temporal.target).items():
        monkeypatch.setenv(name, value)
    async with AsyncExitStack() as stack:
        account = await stack.enter_async_context(open_functions(Whose("dev"), session=session, access=access))
        async with open_account(access, session=session) as provisioner:
            await carry_out(provisioner, DEV, await plan_lane(provisioner, DEV))
        queues = await find_queues(access, DEV, session=session)
        stream = await stack.enter_async_context(open_stream(access, queues, system_clock, session=session))
        yield Rig(account, account.clients["lambda"], stream, temporal.target, tmp_path)
