"""When a reaction is due: pure, the same on every engine.

All times are the engine's own: a turn counts from when its signal arrived, so that an emitter whose clock is wrong
can neither hold a reaction back nor hurry it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Pending:
    """Turns that wait for one run: when the first and the last of them arrived, and whether one asked for now."""

    first_at: datetime
    last_at: datetime
    immediate: bool = False


@dataclass(frozen=True, slots=True)
class Debounce:
    """A quiet period after the last turn, bounded by ``max_wait`` since the first one that waits."""

    quiet: timedelta
    max_wait: timedelta

    def signal(self, pending: Pending | None, now: datetime, *, immediate: bool = False) -> Pending:
        """What waits after one more turn. After a clock stepped back, nothing waits for it to catch up."""
        if pending is None:
            return Pending(first_at=now, last_at=now, immediate=immediate)
        return Pending(
            first_at=min(pending.first_at, now),
            last_at=max(pending.last_at, now),
            immediate=pending.immediate or immediate,
        )

    def due_at(self, pending: Pending) -> datetime:
        """When to run: never after ``first_at + max_wait``; at once where a turn asked for that."""
        if pending.immediate:
            return pending.first_at
        return min(pending.last_at + self.quiet, pending.first_at + self.max_wait)
