"""What afterturn asks of a reaction engine: take signals, and run each consumer when its debounce says so.

The semantics are the same on every engine; the conformance suite in the tests states them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from afterturn.event import TurnSettled
from afterturn.stream.port import Receipt


@dataclass(frozen=True, slots=True)
class Signal:
    """A turn of a conversation has settled, for one consumer. Merged ones carry the newest ``occurred_at``.

    ``event``: of that newest turn, for foreign workflows, which receive the whole event.
    """

    consumer: str
    conversation_id: str
    occurred_at: datetime
    immediate: bool = False
    event: TurnSettled | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RefusedSignal:
    """A consumer that could not be signalled, by the kind of its error."""

    signal: Signal
    error: str


@dataclass(frozen=True, slots=True)
class SignalResult:
    """The outcome of a batch.

    ``acknowledged``: the engine forgot the receipts in the transaction of the signals; then nothing was refused.
    """

    refused: Sequence[RefusedSignal] = ()
    acknowledged: bool = False


class Signaler(Protocol):
    """The bridge's half of an engine."""

    async def signal(self, signals: Sequence[Signal], receipts: Sequence[Receipt]) -> SignalResult:
        """Deliver signals. ``receipts`` are those that they came from.

        An engine that shares its database with the stream acknowledges them in the same transaction. Raises
        EngineUnavailable if the engine answered for no signal.
        """
        ...

    async def ready(self) -> None:
        """Check that the engine answers. Raises EngineUnavailable."""
        ...


class Engine(Signaler, Protocol):
    """The whole engine: signals, retries and what waits."""

    async def retry(self, consumer: str, conversation_id: str) -> None:
        """Run a failed reaction again, with fresh attempts. Raises NotFound where none has failed."""
        ...

    async def waiting(self) -> int:
        """How many reactions of this app's consumers wait, run, or are put off."""
        ...

    async def oldest(self) -> datetime | None:
        """Since when the longest-waiting reaction waits."""
        ...


class Runner(Protocol):
    """What runs the consumers of an engine in this process."""

    def wake(self) -> None:
        """Look for due reactions now rather than at the next poll."""
        ...

    async def run(self, stop: asyncio.Event, *, poll: float, eager: bool = False) -> None:
        """Run what falls due until stopped, then let the runs that have begun finish. ``eager`` skips quiet periods."""
        ...
