"""An open afterturn: everything an agent, an operator or a command does goes through here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from afterturn import telemetry
from afterturn.bridge.bridge import IN_PROCESS, Bridge, ReceiveOptions, wait_any
from afterturn.clock import Clock
from afterturn.config import Profile, Settings
from afterturn.errors import EngineUnavailable, StoreError, StreamUnavailable
from afterturn.inbox import Inbox
from afterturn.ledger.ledger import Ledger
from afterturn.model import Conversation, ConversationMeta, FlushMode, Message, Turn
from afterturn.reactions.port import Engine, Runner
from afterturn.reactions.registry import Registry
from afterturn.settle import Settler, SettleResult
from afterturn.store.jobs import Job
from afterturn.store.port import ConsumerState, Registration, Store
from afterturn.store.search import Searcher, run_search_indexer
from afterturn.stream.port import Stream

_LOOKS = 5
"""How often in a row an engine may fail to say what waits before a drain gives up on it."""

REGISTRATIONS_KEPT = timedelta(seconds=20)
"""By the inbox, where the store is beyond a network: so a page is one request."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is still to be done: records in the stream, reactions that wait, dead letters.

    ``others``: of the records, those for consumers that this app does not declare.
    """

    streamed: int
    waiting: int
    dead_letters: int
    unknown_consumer: int = 0


class Backbone:
    """The parts of afterturn, connected. Open one with ``App.open`` or ``bootstrap.open_backbone``."""

    def __init__(
        self,
        *,
        settings: Settings,
        registry: Registry,
        clock: Clock,
        store: Store,
        stream: Stream,
        engine: Engine,
        runner: Runner,
        bridge: Bridge,
        wake: asyncio.Event,
        receive: ReceiveOptions = IN_PROCESS,
        searcher: Searcher | None = None,
    ) -> None:
        emitter = settings.emitter.value
        self.settings = settings
        self.registry = registry
        self.clock = clock
        self.store = store
        self.stream = stream
        self.engine = engine
        kept = timedelta(0) if settings.profile is Profile.EMBEDDED else REGISTRATIONS_KEPT
        self.searcher = searcher
        self.inbox = Inbox(store, clock, searcher=searcher, registrations_kept=kept)
        self.ledger = Ledger(store, stream, clock, emitter)
        self._settler = Settler(store, stream, clock, emitter)
        self._runner = runner
        self._bridge = bridge
        self._wake = wake
        self._receive = receive

    async def settle(self, turn: Turn, *, jobs: Sequence[Job] = ()) -> SettleResult:
        """Save a turn and mark it settled; see ``settle.Settler.settle``."""
        receipt = await self._settler.settle(turn, jobs=jobs)
        self._wake.set()
        return receipt

    async def on_conversation_turn_complete(
        self, conversation_id: str, *, flush_mode: FlushMode = FlushMode.DEBOUNCED, key: str | None = None
    ) -> SettleResult:
        """Settle a conversation whose messages were all saved before, such as a voice call that ended."""
        receipt = await self._settler.on_conversation_turn_complete(conversation_id, flush_mode=flush_mode, key=key)
        self._wake.set()
        return receipt

    async def save_messages(
        self, meta: ConversationMeta, messages: Sequence[Message], *, jobs: Sequence[Job] = ()
    ) -> int:
        """Save messages in the middle of a turn; nothing moves in the inbox. Returns how many were new."""
        return await self._settler.save_messages(meta, messages, jobs=jobs)

    async def edit_message(self, conversation_id: str, provider_id: str, text: str, *, at: datetime) -> bool:
        """Replace the text of a message that its sender has edited; see ``settle.Settler.edit_message``."""
        return await self._settler.edit_message(conversation_id, provider_id, text, at=at)

    async def save_conversation(self, meta: ConversationMeta) -> Conversation:
        """Create a conversation, or replace what the writer owns of it."""
        return await self._settler.save_conversation(meta)

    async def register(self) -> None:
        """Record the app's consumers in the ledger; from their first registration on they owe every turn."""
        now = self.clock()
        registrations = [
            Registration(
                name=consumer.name,
                registered_at=now,
                state=ConsumerState.SHADOW if consumer.shadow else ConsumerState.LIVE,
                max_wait=consumer.debounce.max_wait,
            )
            for consumer in self.registry
        ]
        registrations += [
            Registration(name=foreign.name, registered_at=now, state=ConsumerState.LIVE, max_wait=foreign.max_wait)
            for foreign in self.registry.foreign.values()
            if foreign.max_wait is not None
        ]
        if registrations:  # whoever only looks has nothing to write, and waits for nobody who does
            await self.store.register(registrations)

    async def run(
        self,
        stop: asyncio.Event,
        *,
        eager: bool = False,
        bridging: bool = True,
        sweeping: bool = True,
    ) -> None:
        """Bridge, reactions, sweeps and the index of words until stopped; then let what has begun finish.

        ``eager`` skips quiet periods. ``bridging``: false where the bridge runs elsewhere.
        """
        poll = self.settings.poll.total_seconds()
        async with asyncio.TaskGroup() as group:
            if bridging:
                group.create_task(self._bridge.run(stop, self._wake, self._receive, poll=poll))
            group.create_task(self._runner.run(stop, poll=poll, eager=eager))
            if sweeping:
                group.create_task(self._sweep(stop))
            if self.searcher is not None:
                group.create_task(run_search_indexer(self.searcher, stop, poll=poll))

    async def drain(self, *, eager: bool = False, progress: Callable[[Backlog], None] = lambda _: None) -> Backlog:
        """Run until nothing waits and nothing that this app can do is owed; returns what is left.

        What is left is for consumers that the app does not declare, or in the dead letters. Reactions that were given
        up on are left, too: the ledger names them. Raises EngineUnavailable where the engine goes on not to say what
        waits.
        """
        stop = asyncio.Event()
        running = asyncio.create_task(self.run(stop, eager=eager, sweeping=False))
        try:
            pause, failed = 0.02, 0
            while not running.done():
                try:
                    backlog = await self.backlog()
                except EngineUnavailable:
                    failed += 1
                    if failed == _LOOKS:
                        raise
                    await asyncio.sleep(1)
                    continue
                failed = 0
                progress(backlog)
                if backlog.streamed <= backlog.unknown_consumer and not backlog.waiting:
                    swept = await self.ledger.sweep(grace=timedelta(0), everything=True, only=self.registry.names)
                    if not swept:
                        return backlog
                    self._wake.set()
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, 0.25)
            await running
            raise AssertionError("the run ended without being stopped")
        finally:
            stop.set()
            await running

    async def backlog(self) -> Backlog:
        """What is still to be done."""
        depth = await self.stream.depth()
        return Backlog(
            streamed=depth.main + depth.retry,
            waiting=await self.engine.waiting(),
            dead_letters=depth.dead_letters,
            unknown_consumer=depth.unknown_consumer + len(self._bridge.unknown_consumers),
        )

    async def _sweep(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self.ledger.sweep(grace=self.settings.grace)
            except (StoreError, StreamUnavailable) as error:
                telemetry.log("sweep_failed", level=logging.ERROR, error=type(error).__name__)
            await wait_any(stop, timeout=self.settings.sweep_every.total_seconds())
