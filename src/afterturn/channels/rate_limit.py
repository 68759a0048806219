"""When two machines answer each other: where it stops, whatever their headers say. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class RateLimit:
    """No more than ``answers`` within ``span``."""

    answers: int
    span: timedelta


CAPS = (
    RateLimit(4, timedelta(minutes=1)),
    RateLimit(10, timedelta(minutes=15)),
    RateLimit(20, timedelta(hours=2)),
    RateLimit(50, timedelta(days=1)),
)
"""A person who writes quickly stays below each of them; a machine meets the first one within a minute."""


def retry_at(answered: Iterable[datetime], now: datetime, caps: Sequence[RateLimit] = CAPS) -> datetime | None:
    """From when on one more automatic answer may go out; None: now.

    ``answered``: when automatic answers went to the same correspondent, in any order.
    """
    times = sorted(answered, reverse=True)
    free = [times[cap.answers - 1] + cap.span for cap in caps if len(times) >= cap.answers]
    held = [at for at in free if at > now]
    return max(held, default=None)
