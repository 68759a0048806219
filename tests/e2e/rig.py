"""The production path by hand, on an emulator and a Temporal server that can be killed and cut off."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.contract.reactions.temporal_servers import DYNAMIC

from afterturn.aws import stack
from afterturn.aws.account import open_account
from afterturn.aws.names import Names
from afterturn.aws.session import Access
from afterturn.backbone import Backbone
from afterturn.bridge.bridge import Bridge, ReceiveOptions
from afterturn.clock import system_clock
from afterturn.config import Settings, read_settings
from afterturn.local import HOST, free_port, temporal
from afterturn.model import Channel, ConversationMeta, Direction, Message, Role, Stamp, Turn
from afterturn.reactions.registry import ReactionContext, Registry, TurnWindow
from afterturn.reactions.run import EffectsPolicy
from afterturn.reactions.temporal.engine import Address, Connection, TemporalEngine
from afterturn.reactions.temporal.runner import TemporalRunner
from afterturn.store.dynamodb import open_store
from afterturn.stream.sqs import find_queues, open_stream

LANE = "dev"
SECOND = timedelta(seconds=1)
VISIBILITY = 3 * SECOND
LEASE = 2 * SECOND


class TemporalServer:
    """A real server whose state survives its death."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.target = f"{HOST}:{self._port}"

    def start(self) -> None:
        command = [str(temporal.program()), "server", "start-dev", "--headless", "--ip", HOST]
        command += [
            "--port",
            str(self._port),
            "--db-filename",
            str(self._folder / "temporal.db"),
            "--log-level",
            "error",
        ]
        dynamic = [word for value in DYNAMIC for word in ("--dynamic-config-value", value)]
        with open(self._folder / "temporal.log", "ab") as log:
            self._process = subprocess.Popen(
                [*command, *dynamic], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + 240
        while True:
            with suppress(OSError):
                socket.create_connection((HOST, self._port), timeout=1).close()
                return
            assert self._process.poll() is None, (self._folder / "temporal.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def kill(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class TcpProxy:
    """A way to a TCP port that can be cut, and mended."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: set[asyncio.StreamWriter] = set()
        self._whole = True
        self.endpoint = ""

    @asynccontextmanager
    async def laid(self) -> AsyncIterator[TcpProxy]:
        server = await asyncio.start_server(self._carry, HOST, 0)
        self.endpoint = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            self.cut()
            server.close()
            await server.wait_closed()

    def cut(self) -> None:
        """End what is open, under way or not, and whatever is opened from now on."""
        self._whole = False
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self._whole = True

    async def _carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if not self._whole:
            back.transport.abort()
            return
        far, forth = await asyncio.open_connection(HOST, self._port)
        mine = {back, forth}
        self._writers |= mine
        await asyncio.gather(_pass_on(near, forth), _pass_on(far, back))
        self._writers -= mine


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()
    target.close()


def cable(endpoint: str) -> AbstractAsyncContextManager[TcpProxy]:
    return TcpProxy(int(endpoint.rpartition(":")[2])).laid()


class Journal:
    """The world that effects reach: the keys that it was called with, by whichever process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()

    async def send(self, key: str) -> None:
        self.write(key)

    def write(self, key: str) -> None:
        with open(self._path, "ab", buffering=0) as file:
            file.write(f"{key}\n".encode())

    @property
    def keys(self) -> list[str]:
        return self._path.read_text().split()


class Reader:
    """A consumer that stamps the ids of all messages that it has ever seen, and sends one effect for each."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def __call__(self, turns: TurnWindow, ctx: ReactionContext) -> Stamp:
        before = turns.previous.data.get("seen", []) if turns.previous is not None else []
        assert isinstance(before, list)
        for one in turns.messages:
            await ctx.once(one.id, self._journal.send)
        return Stamp(data={"seen": [*before, *(one.id for one in turns.messages)]})


def settings() -> Settings:
    """Nothing of the environment of whoever runs the tests matters here."""
    return read_settings(poll=0.1 * SECOND, lease=LEASE)


async def provision(access: Access) -> None:
    """Table and queues of the lane, in an account of its own."""
    names = Names.of(LANE)
    async with open_account(access) as account:
        await stack.execute(account, await stack.plan(account, names))


@asynccontextmanager
async def open_lane(
    access: Access, target: str, registry: Registry, *, queue_endpoint: str | None = None
) -> AsyncIterator[Lane]:
    """What ``build.aws.open_production`` composes, with short leases, and a way of its own to the queues."""
    names = Names.of(LANE)
    clock = system_clock
    sqs = replace(access, endpoint=queue_endpoint or access.endpoint)
    queues = await find_queues(access, names)
    async with open_store(names.table, access) as store, open_stream(sqs, queues, clock, wait=SECOND) as stream:
        connection = Connection(Address(target))
        engine = TemporalEngine(connection, registry, store, clock, lane=LANE, lease=LEASE, deadline=4 * SECOND)
        runner = TemporalRunner(
            connection,
            registry,
            store,
            clock,
            lane=LANE,
            policy=EffectsPolicy(),
            engine=engine,
            grace=SECOND,
            lease=LEASE,
        )
        lane = Lane(
            settings=settings(),
            registry=registry,
            clock=clock,
            store=store,
            stream=stream,
            engine=engine,
            runner=runner,
            bridge=Bridge(stream, engine, registry.names, visibility=VISIBILITY),
            wake=asyncio.Event(),
            receive=ReceiveOptions(batch=10, long_polls=2),
        )
        lane.connection = connection
        await lane.register()
        yield lane


class Lane(Backbone):
    """An open backbone, and what tests ask of it."""

    connection: Connection

    async def seen(self, consumer: str, conversation_id: str) -> object:
        found = await self.store.conversation(conversation_id)
        stamp = None if found is None else found.reactions.get(consumer)
        return None if stamp is None else stamp.data.get("seen")

    async def is_read(self) -> bool:
        """Whether the stream is empty."""
        return not (await self.backlog()).streamed

    async def owes_nothing(self) -> bool:
        return (await self.ledger.audit(grace=timedelta(0))).clean

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Bridge and reactions, without sweeps."""
        stop = asyncio.Event()
        task = asyncio.create_task(self.run(stop, sweeping=False))
        try:
            yield
        finally:
            stop.set()
            await task


async def until(holds: Callable[[], Awaitable[object]], timeout: float = 240) -> None:
    """Until something holds that others bring about."""
    async with asyncio.timeout(timeout):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.05)


def turn(conversation_id: str, number: int, key: str | None = None) -> Turn:
    """The n-th turn of a conversation: one message, now."""
    message = Message(
        id=f"{conversation_id}.{number}",
        direction=Direction.INBOUND,
        role=Role.CUSTOMER,
        text="The tap drips",
        at=system_clock(),
    )
    return Turn(conversation=ConversationMeta(id=conversation_id, channel=Channel.SMS), messages=(message,), key=key)
