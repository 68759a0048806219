"""An engine on a dev server, for tests in real time: a store, an engine, workers."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle
from tests.contract.reactions.temporal_servers import Server
from tests.contract.samples import message, turn

from afterturn.clock import system_clock
from afterturn.model import Conversation
from afterturn.reactions.port import Signal
from afterturn.reactions.registry import Registry
from afterturn.reactions.run import EffectsPolicy
from afterturn.reactions.temporal import protocol
from afterturn.reactions.temporal.engine import Address, Connection, TemporalEngine
from afterturn.reactions.temporal.runner import TemporalRunner
from afterturn.reactions.temporal.workflow_state import WorkflowState
from afterturn.sqlite.database import Database
from afterturn.store.sqlite import SqliteStore

_LANES = itertools.count()

NOW = {"quiet": "0s", "max_wait": "0s"}
LATER = {"quiet": "1h", "max_wait": "1h"}


class TemporalRig:
    """A lane of its own. Time is real here, so quiet periods are nothing or an hour."""

    def __init__(self, server: Server, client: Client, database: Database, registry: Registry) -> None:
        self.client = client
        self.registry = registry
        self.store = SqliteStore(database)
        self.lane = f"u{os.getpid()}-{next(_LANES)}"
        self.connection = Connection(Address(target=server.target))
        self.engine = self.another_engine()

    def another_engine(self, **overrides: Any) -> TemporalEngine:
        settings = {"lane": self.lane, "lease": timedelta(seconds=5), **overrides}
        return TemporalEngine(self.connection, self.registry, self.store, system_clock, **settings)

    async def settle(self, conversation_id: str = "c1", message_id: str = "m0") -> Signal:
        """A turn in the store, not yet signalled."""
        new_turn = turn(conversation_id, message(message_id))
        settled = await self.store.settle(new_turn, now=system_clock(), emitter="worker")
        return Signal("probe", conversation_id, settled.event.occurred_at, event=settled.event)

    async def send(self, *signals: Signal) -> None:
        accepted = await self.engine.signal(signals, [])
        assert not accepted.refused

    def runner(self, registry: Registry | None = None, **overrides: Any) -> TemporalRunner:
        settings = {"lane": self.lane, "policy": EffectsPolicy(), "grace": timedelta(0), **overrides}
        return TemporalRunner(self.connection, registry or self.registry, self.store, system_clock, **settings)

    @asynccontextmanager
    async def worker(
        self, registry: Registry | None = None, *, eager: bool = False, **overrides: Any
    ) -> AsyncIterator[asyncio.Task[None]]:
        runner = self.runner(registry, **overrides)
        stop = asyncio.Event()
        task = asyncio.create_task(runner.run(stop, poll=0.05, eager=eager))
        try:
            yield task
        finally:
            stop.set()
            await task

    def handle(self, conversation_id: str = "c1", consumer: str = "probe") -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(protocol.reaction_id(self.lane, consumer, conversation_id))

    def policy(self) -> protocol.ReactionPolicy:
        return protocol.policy_of(self.registry["probe"], timedelta(seconds=5))

    async def state(self, conversation_id: str = "c1") -> WorkflowState:
        state: WorkflowState = await self.handle(conversation_id).query(protocol.STATUS, result_type=WorkflowState)
        return state

    async def conversation(self, conversation_id: str = "c1") -> Conversation:
        found = await self.store.conversation(conversation_id)
        assert found is not None
        return found

    async def until_stamped(self, conversation_id: str = "c1", consumer: str = "probe") -> None:
        """Until the consumer has seen the newest turn."""

        async def fresh() -> bool:
            found = await self.conversation(conversation_id)
            stamp = found.reactions.get(consumer)
            return stamp is not None and stamp.through == found.settled_at

        await eventually(fresh)


async def eventually(holds: Callable[[], Any], *, within: float = 240) -> None:
    async with asyncio.timeout(within):
        while not await holds():  # noqa: ASYNC110 - asks a server
            await asyncio.sleep(0.01)


OpenRig = Callable[[Registry], AbstractAsyncContextManager[TemporalRig]]


@asynccontextmanager
async def open_temporal_rig(server: Server, path: Path, registry: Registry) -> AsyncIterator[TemporalRig]:
    client = await Client.connect(server.target)
    with Database.open(path, readers=1) as database:
        rig = TemporalRig(server, client, database, registry)
        yield rig
        async for one in client.list_workflows(f'WorkflowId STARTS_WITH "{rig.lane}/" AND ExecutionStatus="Running"'):
            with suppress(Exception):
                await client.get_workflow_handle(one.id).terminate()
