"""One process at a time: a record says until when somebody holds a lock.

Each version of the record is written once. So of all processes that read the same version, one writes the next; the
others learn that they came too late. A process that dies holds the lock until its time is over.
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
    """A lock that is held. ``version``: of its record."""

    key: str
    version: int


class Locks:
    """``name``: what the locks are for, as the beginning of their keys."""

    def __init__(self, store: StateStore, clock: Clock, name: str) -> None:
        self._store = store
        self._clock = clock
        self._name = name

    async def acquire(self, key: str, span: timedelta) -> Lock | None:
        """Hold the lock for at most ``span``; None if somebody else holds it.

        A lock that ends later than twice that time was taken while a clock was ahead, and counts as free.
        """
        key = f"{self._name} {key}"
        state = await self._store.get(LockState, key)
        now = self._clock()
        if state is not None and state.until is not None and now < state.until <= now + 2 * span:
            return None
        lock = Lock(key, 1 if state is None else state.version + 1)
        return lock if await self._write(lock, now + span) else None

    async def release(self, lock: Lock) -> None:
        """Changes nothing if somebody else took the lock after its end."""
        await self._write(Lock(lock.key, lock.version + 1), None)

    async def _write(self, lock: Lock, until: datetime | None) -> bool:
        return await self._store.put(LockState(key=lock.key, version=lock.version, until=until))
