"""What a reaction engine supplies to the conformance suite, and consumers that keep a record of their runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from tests.contract.samples import T0, message, turn

from afterturn.model import Stamp, StoredStamp
from afterturn.reactions.port import Signal
from afterturn.reactions.registry import ReactionContext, Registry, TurnWindow
from afterturn.reactions.run import EffectsPolicy
from afterturn.reactions.state import ReactionState, reaction_states
from afterturn.store.port import ConsumerState, Registration, Store
from afterturn.testing import ManualClock

Act = Callable[[TurnWindow, ReactionContext], Awaitable[Any]]


class Engines(Protocol):
    """An engine with an empty store, at :data:`T0`, for these consumers."""

    def __call__(
        self, registry: Registry, *, policy: EffectsPolicy | None = None
    ) -> AbstractAsyncContextManager[EngineRig]: ...


class EngineRig:
    """An engine under test. Adapters supply the verbs that raise here.

    ``lease``: how long a run of a worker that died is waited for, at most.
    """

    store: Store
    clock: ManualClock
    registry: Registry
    lease: timedelta

    async def signal(self, signal: Signal) -> None:
        """Tell the engine of a settled turn."""
        raise NotImplementedError

    async def advance(self, by: timedelta) -> None:
        """Let time pass; what falls due on the way runs at its time, and has ended when this returns."""
        raise NotImplementedError

    async def retry(self, consumer: str, conversation_id: str) -> None:
        raise NotImplementedError

    async def waiting(self) -> int:
        raise NotImplementedError

    async def size(self) -> int:
        """How much the engine holds, in a measure of its own."""
        raise NotImplementedError

    async def register(self) -> None:
        """Record the consumers in the ledger, as opening an app does."""
        await self.store.register(
            [
                Registration(
                    name=one.name,
                    registered_at=self.clock(),
                    state=ConsumerState.SHADOW if one.shadow else ConsumerState.LIVE,
                    max_wait=one.debounce.max_wait,
                )
                for one in self.registry
            ]
        )

    async def settle(
        self, message_id: str, conversation_id: str = "c1", *, immediate: bool = False, told: datetime | None = None
    ) -> datetime:
        """Settle a turn of one message now, and signal every consumer; returns its time."""
        seconds = (self.clock() - T0).total_seconds()
        given = turn(conversation_id, message(message_id, seconds), at=told)
        settled = await self.store.settle(given, now=self.clock(), emitter="worker")
        for consumer in self.registry.names:
            await self.signal(Signal(consumer, conversation_id, settled.event.occurred_at, immediate))
        return settled.event.occurred_at

    async def until(self, seconds: float) -> None:
        """Let time pass until so many seconds after :data:`T0`."""
        await self.advance(T0 + timedelta(seconds=seconds) - self.clock())

    async def stamp(self, consumer: str = "probe", conversation_id: str = "c1") -> StoredStamp | None:
        found = await self.store.conversation(conversation_id)
        assert found is not None
        return found.reactions.get(consumer)

    async def state(self, consumer: str = "probe", conversation_id: str = "c1") -> ReactionState:
        found = await self.store.conversation(conversation_id)
        assert found is not None
        return reaction_states(found, await self.store.registrations())[consumer]


@dataclass(frozen=True)
class Run:
    """One run, as its consumer saw it. ``at``: seconds after :data:`T0`."""

    at: float
    conversation_id: str
    messages: tuple[str, ...]
    through: datetime
    attempt: int
    quiet: bool


@dataclass
class Probe:
    """A consumer that records its runs, then does what ``act`` says, or stamps how many messages it has seen."""

    clock: ManualClock | None = None
    act: Act | None = None
    runs: list[Run] = field(default_factory=list)

    async def __call__(self, turns: TurnWindow, ctx: ReactionContext) -> Stamp:
        now = ctx.now if self.clock is None else self.clock()
        self.runs.append(
            Run(
                at=(now - T0).total_seconds(),
                conversation_id=turns.conversation.id,
                messages=tuple(one.id for one in turns.messages),
                through=turns.through,
                attempt=ctx.attempt,
                quiet=ctx.quiet,
            )
        )
        if self.act is not None:
            done = await self.act(turns, ctx)
            if done is not None:
                return done  # type: ignore[no-any-return]
        before = turns.previous.data.get("seen", 0) if turns.previous is not None else 0
        assert isinstance(before, int)
        return Stamp(data={"seen": before + len(turns.messages)})

    @property
    def flushes(self) -> list[tuple[float, tuple[str, ...]]]:
        """When, and which messages."""
        return [(run.at, run.messages) for run in self.runs]


def registry_of(**consumers: tuple[Probe, dict[str, Any]]) -> Registry:
    registry = Registry()
    for name, (probe, policy) in consumers.items():
        registry.add(name, probe, **policy)
    return registry


def one_probe(probe: Probe, **policy: Any) -> Registry:
    """A registry of one consumer, ``probe``: a quiet period of 5 seconds, a minute at most."""
    return registry_of(probe=(probe, {"quiet": "5s", "max_wait": "60s", **policy}))


def fail_times(times: int, error: Callable[[], BaseException] = lambda: ValueError("content")) -> Act:
    """Fail so many times, then do well."""
    left = times

    async def act(_: TurnWindow, __: ReactionContext) -> None:
        nonlocal left
        if left > 0:
            left -= 1
            raise error()

    return act


async def forever(_: TurnWindow, __: ReactionContext) -> None:
    await asyncio.Event().wait()
