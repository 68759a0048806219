"""What runs beside the doors: answers are asked for, and sent."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from afterturn import telemetry
from afterturn.errors import StoreError
from afterturn.funnel.answering import Answering
from afterturn.funnel.dispatching import Dispatching
from afterturn.funnel.doors import Doors


@dataclass(frozen=True, slots=True)
class Funnel:
    """Doors and what follows from what comes in. ``wake``: set when there may be something to do."""

    doors: Doors
    answering: Answering
    dispatching: Dispatching
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, stop: asyncio.Event, *, poll: float) -> None:
        """Answer and send until stopped; what has begun is finished. ``poll``: seconds between two looks."""
        pause = poll
        while not stop.is_set():
            self.wake.clear()
            try:
                done = await self.answering.once() + await self.dispatching.once()
                pause = poll
            except StoreError as error:
                done = 0
                pause = min(pause * 2, 30.0)
                telemetry.log("funnel_paused", level=logging.ERROR, error=type(error).__name__, delay_s=pause)
            if not done:
                await _any(stop, self.wake, timeout=pause)


async def _any(*events: asyncio.Event, timeout: float) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
