"""Locks across processes, as records with an expiry time.

Each version of a record is written once. So of all processes that read the same version, one writes the next version
and holds the lock. The lock of a process that dies expires.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from afterturn.clock import Clock
from afterturn.model import Time
from afterturn.store.state import StateRecord, StateStore, Ties


class LockState(StateRecord):
    """Until when a lock is held; None: it is free."""

    kind = "lock"
    ties = Ties.FIRST
    ttl = timedelta(days=1)

    until: Time | None = None


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that is held. ``version``: its record's version."""

    key: str
    version: int


class Locks:
    """Acquires and releases locks. ``name``: prefix of their keys."""

    def __init__(self, store: StateStore, clock: Clock, name: str) -> None:
        self._store = store
        self._clock = clock
        self._name = name

    async def acquire(self, key: str, span: timedelta) -> Lock | None:
        """Acquire the lock for at most ``span``; None if another process holds it.

        A lock that expires later than twice that time was acquired while a clock was ahead, and counts as free.
        """
        key = f"{self._name} {key}"
        state = await self._store.get(LockState, key)
        now = self._clock()
        if state is not None and state.until is not None and now < state.until <= now + 2 * span:
            return None
        lock = Lock(key, 1 if state is None else state.version + 1)
        return lock if await self._write(lock, now + span) else None

    async def release(self, lock: Lock) -> None:
        """Has no effect if another process acquired the lock after it expired."""
        await self._write(Lock(lock.key, lock.version + 1), None)

    async def _write(self, lock: Lock, until: datetime | None) -> bool:
        return await self._store.put(LockState(key=lock.key, version=lock.version, until=until))
