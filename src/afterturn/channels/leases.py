"""One at a time, whatever the process: a note says until when somebody has something.

A note of a rank is written once. So of all who saw the same one before, one writes the next; the others learn that they
came too late. Who dies holds it until its time is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from afterturn.clock import Clock, from_text, to_text
from afterturn.store.port import Keeper

_KEPT = timedelta(days=1)
"""After its end a lease may be forgotten: nobody who had it is still at work."""


@dataclass(frozen=True, slots=True)
class Lease:
    """What was taken. ``rank``: of the note that says so."""

    key: str
    rank: int


class Leases:
    """``name``: of the notes."""

    def __init__(self, keeper: Keeper, clock: Clock, name: str) -> None:
        self._keeper = keeper
        self._clock = clock
        self._name = name

    async def take(self, key: str, span: timedelta) -> Lease | None:
        """For at most ``span``; None where somebody has it.

        Nobody has it for long: one that ends beyond twice that time was taken while a clock was ahead.
        """
        found = (await self._keeper.noted(self._name, [key])).get(key)
        known = found if isinstance(found, dict) else {}
        now = self._clock()
        until = known.get("until")
        if until is not None and now < from_text(str(until)) <= now + 2 * span:
            return None
        before = known.get("rank")
        rank = before + 1 if isinstance(before, int) else 1
        return Lease(key, rank) if await self._write(key, rank, to_text(now + span), span) else None

    async def give_back(self, lease: Lease) -> None:
        """Changes nothing where somebody took it after its end."""
        await self._write(lease.key, lease.rank + 1, None, timedelta(0))

    async def _write(self, key: str, rank: int, until: str | None, span: timedelta) -> bool:
        return await self._keeper.note(self._name, key, {"rank": rank, "until": until}, rank=rank, kept=span + _KEPT)
