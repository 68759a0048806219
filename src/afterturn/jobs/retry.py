"""When a failed job runs again. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from afterturn.errors import AfterturnError


class RetryLater(AfterturnError):
    """A job cannot be done now. ``reason``: a short word for logs and records; ``after``: how long to wait."""

    def __init__(self, reason: str, after: timedelta | None = None) -> None:
        super().__init__(f"cannot be done now: {reason}")
        self.reason = reason
        self.after = after


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """``delays``: seconds before the second attempt, the third …; the last one repeats. ``give_up_after``: the age,
    from when the job was due, at which it is not retried any more; None: never.
    """

    delays: tuple[int, ...]
    give_up_after: timedelta | None = None

    def next_delay(self, attempts: int, age: timedelta, after: timedelta | None = None) -> timedelta | None:
        """How long to wait after so many attempts; None to give up. ``after``: what the failure itself asks for."""
        if self.give_up_after is not None and age > self.give_up_after:
            return None
        return after or timedelta(seconds=self.delays[min(attempts, len(self.delays)) - 1])
