"""Deployments to the emulator: a provisioned lane, small zips whose functions find what a test finds, the command.

Take the fixtures into a test module::

    from tests.faults.deploying import access, emulator, open_rig, session, temporal_server  # noqa: F401
"""

from __future__ import annotations

import asyncio
import os
import sys
import zipfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from tests.cli.command import CommandResult, call
from tests.contract.reactions.temporal_servers import Server, shared_dev_server, stop_shared
from tests.emulator import access, emulator, provision, session

from afterturn.aws import package, release
from afterturn.aws.account import SERVICES, Account, open_account
from afterturn.aws.names import Names
from afterturn.aws.release import Part, Report
from afterturn.aws.session import Access
from afterturn.aws.stack import Patience
from afterturn.clock import system_clock
from afterturn.stream.sqs import SqsStream, find_queues, open_stream

__all__ = ["access", "emulator", "session"]

DEV = Names.of("dev")
BRIDGE = DEV.function("bridge")
QUICK = Patience(timeout=60, every=0.05)

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


def small_zip(
    path: Path, note: str = "one", app: str = APP, files: Mapping[str, str] | None = None, part: str = "bridge"
) -> Path:
    """``note`` makes it another version; ``files`` take the place of what it has."""
    contents = {
        "afterturn/__init__.py": STUB.format(paths=[each for each in sys.path if each], note=note),
        "index.py": f"import afterturn\nfrom afterturn.bootstrap.lambda_{part} import handler\n",
        "keys_app.py": app,
        **(files or {}),
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in contents.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return path


def handler_zip(path: Path, code: str) -> Path:
    """A zip of one function body, which says or does whatever a test needs."""
    return small_zip(
        path,
        files={"afterturn/__init__.py": "", "index.py": f"def handler(event, context):\n    {code.strip()}\n"},
    )


def environment(access: Access, temporal: str) -> dict[str, str]:
    """The shell of whoever deploys."""
    return {
        "AWS_ACCESS_KEY_ID": str(access.access_key),
        "AWS_SECRET_ACCESS_KEY": "test",
        "AFTERTURN_AWS_ENDPOINT_URL": str(access.endpoint),
        "AFTERTURN_AWS_REGION": "us-east-1",
        "AFTERTURN_LANE": "dev",
        "AFTERTURN_TEMPORAL_ADDRESS": temporal,
        "AFTERTURN_APP": "keys_app:app",
    }


def aws(*words: object) -> CommandResult:
    """An ``aws`` command."""
    return call("aws", *words)


@pytest.fixture(name="temporal", scope="session")
def temporal_server(request: pytest.FixtureRequest) -> Server:
    """The dev server of this test process. pytest makes a fixture for each module that imports it."""
    request.config.add_cleanup(stop_shared)
    return shared_dev_server()


@dataclass
class Rig:
    """A provisioned lane, and the shell of whoever deploys to it."""

    account: Account
    stream: SqsStream
    temporal: Client
    folder: Path

    @property
    def functions(self) -> Any:
        return self.account.functions

    async def aws(self, *words: object) -> CommandResult:
        """In a thread, since the command brings a loop of its own."""
        return await asyncio.to_thread(aws, *words)

    async def deploy(self, *words: object, zip_: Path | None = None) -> CommandResult:
        return await self.aws("deploy", "bridge", "--zip", zip_ or small_zip(self.folder / "one.zip"), *words)

    async def bring(
        self, zip_: Path, patience: Patience = QUICK, keep: int = release.KEPT, report: Report = lambda line: None
    ) -> None:
        """As the command deploys, but with this account's clients, into which a test puts faults."""
        current = await release.look_up(self.account, Part.BRIDGE, DEV)
        variables = release.environment(Part.BRIDGE, DEV, os.environ, current.variables)
        planned = await release.plan_release(
            self.account, Part.BRIDGE, DEV, current, package.read(zip_), variables, keep=keep
        )
        await release.deploy(self.account, Part.BRIDGE, DEV, planned, patience=patience, report=report)

    def writes(self) -> list[str]:
        """The calls of Lambda from now on that change something."""
        made: list[str] = []

        def note(model: Any, **_: Any) -> None:
            if not model.name.startswith(("Get", "List")):
                made.append(model.name)

        self.functions.meta.events.register("before-call.lambda", note)
        return made

    async def serving(self) -> str:
        answer = await self.functions.get_alias(FunctionName=BRIDGE, Name="live")
        return str(answer["FunctionVersion"])

    async def versions(self) -> list[str]:
        """Those that were deployed: without the first one, which the stack publishes."""
        answer = await self.functions.list_versions_by_function(FunctionName=BRIDGE)
        return [each["Version"] for each in answer["Versions"] if each["Version"] not in ("$LATEST", "1")]

    async def drained(self) -> None:
        for _ in range(300):
            depth = await self.stream.depth()
            if not depth.main and not depth.retry:
                assert not depth.dead_letters
                return
            await asyncio.sleep(0.1)
        raise AssertionError("records are left")

    async def started(self, consumer: str, conversation: str) -> bool:
        described = await self.temporal.get_workflow_handle(f"dev/{consumer}/{conversation}").describe()
        return described.status is WorkflowExecutionStatus.RUNNING


async def connect(temporal: Server) -> Client:
    """A client of the server, on which no workflow of another test runs any more."""
    client = await Client.connect(temporal.target)
    async for left in client.list_workflows("ExecutionStatus = 'Running'"):
        await client.get_workflow_handle(left.id).terminate()
    return client


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
    client = await connect(temporal)
    async with AsyncExitStack() as stack:
        account = await stack.enter_async_context(open_account(access, *SERVICES, "s3", session=session))
        await provision(account, DEV)
        queues = await find_queues(access, DEV, session=session)
        stream = await stack.enter_async_context(open_stream(access, queues, system_clock, session=session))
        yield Rig(account, stream, client, tmp_path)
