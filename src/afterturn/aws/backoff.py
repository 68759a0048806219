"""How long to wait before trying again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Full jitter: anything up to a bound that doubles from ``base`` to ``cap`` seconds; ``tries`` in all.

    Source: https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/
    """

    base: float = 0.02
    cap: float = 1.0
    tries: int = 10
    chance: random.Random = field(default_factory=random.Random)
    sleep: Sleep = asyncio.sleep

    def bound(self, attempt: int) -> float:
        """The longest wait after the ``attempt``-th failure, counted from 0."""
        return float(min(self.cap, self.base * 2 ** min(attempt, 30)))

    async def pause(self, attempt: int) -> None:
        await self.sleep(self.chance.uniform(0, self.bound(attempt)))
