"""The engine on a SQLite file: takes signals into the table of due reactions, which ``worker`` runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime

from afterturn.clock import Clock
from afterturn.errors import NotFound
from afterturn.reactions.embedded import due_queue
from afterturn.reactions.port import Signal, SignalResult
from afterturn.reactions.registry import Registry
from afterturn.sqlite.database import Database
from afterturn.store.sqlite import stamps
from afterturn.stream.port import Receipt

Acknowledge = Callable[[sqlite3.Connection, Sequence[Receipt]], None]
"""Forgets records of a stream that lives in the same file, inside the transaction of what they caused."""


class EmbeddedEngine:
    """Takes signals into the table of due reactions.

    ``acknowledge``: set where the stream lives in the same file. ``on_signal`` wakes the workers of this process.
    """

    def __init__(
        self,
        database: Database,
        registry: Registry,
        clock: Clock,
        acknowledge: Acknowledge | None = None,
        on_signal: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._registry = registry
        self._clock = clock
        self._acknowledge = acknowledge
        self._on_signal = on_signal

    async def signal(self, signals: Sequence[Signal], receipts: Sequence[Receipt]) -> SignalResult:
        now = self._clock()

        def unit(connection: sqlite3.Connection) -> None:
            for turn in signals:
                due_queue.signal(connection, turn, self._registry[turn.consumer].debounce, now)
            if self._acknowledge is not None:
                self._acknowledge(connection, receipts)

        await self._database.write(unit)
        self._on_signal()
        return SignalResult(acknowledged=self._acknowledge is not None)

    async def ready(self) -> None:
        """It is there whenever this process is."""

    async def retry(self, consumer: str, conversation_id: str) -> None:
        now = self._clock()

        def unit(connection: sqlite3.Connection) -> None:
            failed_through = stamps.failed_through(connection, conversation_id, consumer)
            if failed_through is None:
                raise NotFound(f"no failed reaction of {consumer!r} on conversation {conversation_id!r}")
            due_queue.retry(connection, consumer, conversation_id, failed_through, now)
            stamps.request(connection, conversation_id, [consumer], now)

        await self._database.write(unit)
        self._on_signal()

    async def waiting(self) -> int:
        """How many reactions of this app's consumers wait, run, or are put off."""
        names = [consumer.name for consumer in self._registry]
        return await self._database.read(lambda c: due_queue.waiting(c, names))

    async def oldest(self) -> datetime | None:
        """Since when the longest-waiting reaction waits."""
        return await self._database.read(due_queue.oldest)
