"""Rate limits of automatic replies, which stop two machines that answer each other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most ``answers`` automatic replies within ``span``."""

    answers: int
    span: timedelta


CAPS = (
    RateLimit(4, timedelta(minutes=1)),
    RateLimit(10, timedelta(minutes=15)),
    RateLimit(20, timedelta(hours=2)),
    RateLimit(50, timedelta(days=1)),
)
"""A person who writes quickly stays below each limit; a machine reaches the first one within a minute."""


def retry_at(answered: Iterable[datetime], now: datetime, caps: Sequence[RateLimit] = CAPS) -> datetime | None:
    """When the next automatic reply may be sent; None: now.

    ``answered``: times of automatic replies to the same correspondent, in any order.
    """
    times = sorted(answered, reverse=True)
    free = [times[cap.answers - 1] + cap.span for cap in caps if len(times) >= cap.answers]
    held = [at for at in free if at > now]
    return max(held, default=None)
