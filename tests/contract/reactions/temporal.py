"""The Temporal engine, as the conformance suite sees it: on a real server, whose timers are skipped."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

from temporalio.client import Client, WorkflowExecutionStatus
from tests.contract.reactions.rig import EngineRig
from tests.contract.reactions.temporal_servers import Server
from tests.contract.reactions.temporal_watch import Watch, WorkerDeath
from tests.contract.samples import T0

from afterturn.reactions.port import Signal
from afterturn.reactions.registry import Registry
from afterturn.reactions.run import EffectsPolicy
from afterturn.reactions.temporal import protocol
from afterturn.reactions.temporal.engine import Address, Connection, TemporalEngine
from afterturn.reactions.temporal.runner import TemporalRunner, sandbox
from afterturn.sqlite.database import Database
from afterturn.store.sqlite import SqliteStore
from afterturn.testing import ManualClock

_LANES = itertools.count()
_AGAIN = 0.3


class TemporalRig(EngineRig):
    """One worker in this process, in a lane of its own."""

    lease = timedelta(seconds=30)

    def __init__(
        self,
        server: Server,
        client: Client,
        database: Database,
        registry: Registry,
        policy: EffectsPolicy,
        heartbeat: timedelta,
    ) -> None:
        self.server = server
        self.client = client
        self.registry = registry
        self.clock = ManualClock(T0)
        self.store = SqliteStore(database)
        self.lane = f"t{os.getpid()}-{next(_LANES)}"
        self.watch = Watch(sandbox(), self.clock)
        self.connection = Connection(Address(target=server.target))
        self.engine = TemporalEngine(self.connection, registry, self.store, self.clock, lane=self.lane, lease=heartbeat)
        self.runner = TemporalRunner(
            self.connection,
            registry,
            self.store,
            self.clock,
            lane=self.lane,
            policy=policy,
            grace=timedelta(0),
            workflow_runner=self.watch,
            interceptors=[WorkerDeath(self.watch, self.lease)],
        )
        self._unsent: list[Signal] = []
        self._advancing = False
        self._known_closed: set[str] = set()

    async def signal(self, signal: Signal) -> None:
        """At once where a run asks for it; else with all others of the same moment, as the bridge does."""
        self._unsent.append(signal)
        if self._advancing:
            await self._send()

    async def advance(self, by: timedelta) -> None:
        end = self.clock() + by
        await self._send()
        self._advancing = True
        try:
            await self._until_still()
            while (due := self._next_due()) is not None and due <= end:
                self.clock.set(max(self.clock(), due))
                await self._until_still()
        finally:
            self._advancing = False
        self.clock.set(end)

    async def retry(self, consumer: str, conversation_id: str) -> None:
        await self._send()
        await self.engine.retry(consumer, conversation_id)
        self._count(consumer, conversation_id)

    async def waiting(self) -> int:
        await self._send()
        await self._until_still()
        found = [await self.client.get_workflow_handle(workflow_id).describe() for workflow_id in self.watch.sent]
        return sum(one.status is WorkflowExecutionStatus.RUNNING for one in found)

    async def size(self) -> int:
        """Open workflows."""
        return await self.waiting()

    async def close(self) -> None:
        """Let everything come to its end: what is terminated goes on holding up the test server's clock."""
        async with asyncio.timeout(240):
            await self.advance(timedelta(0))
            while self.watch.open:
                await self.advance(timedelta(days=1))
        assert not self.watch.failures

    async def _send(self) -> None:
        """The first of each conversation before the rest: the test server can't start one workflow twice at once."""
        unsent, self._unsent = self._unsent, []
        first = list({(signal.consumer, signal.conversation_id): signal for signal in reversed(unsent)}.values())
        rest = [signal for signal in unsent if not any(signal is one for one in first)]
        for signals in (first, rest):
            for signal in signals:
                self._count(signal.consumer, signal.conversation_id)
            accepted = await self.engine.signal(signals, [])
            assert not accepted.refused

    def _count(self, consumer: str, conversation_id: str) -> None:
        workflow_id = protocol.reaction_id(self.lane, consumer, conversation_id)
        self.watch.sent[workflow_id] = self.watch.sent.get(workflow_id, 0) + 1

    def _next_due(self) -> datetime | None:
        dues = [timer.due for _, _, timer in self.watch.timers()] + list(self.watch.dead.values())
        return min(dues, default=None)

    async def _until_still(self) -> None:
        async with asyncio.timeout(240):
            while not self.watch.still():
                await self._skip()
                await asyncio.sleep(0.001)
            await self._closed()

    async def _skip(self) -> None:
        """Let timers that are due in the rig's time fire on the server.

        Again after a while: the server may skip before it knows of a timer that a workflow has just asked for. What it
        skips too much lets a timer fire early; then the workflow, which goes by the rig's time, only sets it again.
        """
        now = self.clock()
        before = time.monotonic() - _AGAIN
        due = [(run, timer) for run, _, timer in self.watch.timers() if timer.due <= now and timer.skipped < before]
        if due:
            longest = max(timer.started_for for _, timer in due)
            await self.server.skip(self.client, [run.workflow_id for run, _ in due], longest)
            for _, timer in due:
                timer.skipped = time.monotonic()

    async def _closed(self) -> None:
        """Until the server has taken the answer of every workflow that has closed: the test server is slow in that."""
        closed = {run_id: run for run_id, run in self.watch.runs.items() if run.closed is not None}
        for run_id in closed.keys() - self._known_closed:
            handle = self.client.get_workflow_handle(closed[run_id].workflow_id, run_id=run_id)
            while (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
                if self.watch.runs[run_id].closed is None:
                    return  # the server has sent it back, with a signal
                await asyncio.sleep(0.002)
            self._known_closed.add(run_id)


@asynccontextmanager
async def open_rig(
    server: Server,
    path: Path,
    registry: Registry,
    *,
    policy: EffectsPolicy | None = None,
    heartbeat: timedelta = timedelta(seconds=5),
) -> AsyncIterator[TemporalRig]:
    client = await Client.connect(server.target)
    with Database.open(path, readers=1) as database:
        rig = TemporalRig(server, client, database, registry, policy or EffectsPolicy(), heartbeat)
        stop = asyncio.Event()
        running = asyncio.create_task(rig.runner.run(stop, poll=0.05))
        try:
            yield rig
        finally:
            await rig.close()
            stop.set()
            await running
