"""The loops of a bridge: how each stream wants to be read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from afterturn.bridge.bridge import Bridge
from afterturn.stream.port import Queue


@dataclass(frozen=True, slots=True)
class ReceiveOptions:
    """``batch``: records taken at a time. ``long_polls``: where a receive waits for records, how many wait on the main
    queue at a time; 0 where it answers at once and whoever publishes wakes the bridge. ``rest``: seconds after a batch
    that was not full; what settles one by one costs a batch each without.
    """

    batch: int = 200
    long_polls: int = 0
    rest: float = 0.0


IN_PROCESS = ReceiveOptions(rest=0.05)
"""Of a stream in this process."""


async def receive_until_stopped(
    bridge: Bridge, stop: asyncio.Event, wake: asyncio.Event, reading: ReceiveOptions, *, poll: float
) -> None:
    """Read both queues until stopped. ``poll``: seconds between two looks where nothing wakes it."""
    if not reading.long_polls:
        await bridge.run(stop, wake, limit=reading.batch, poll=poll, rest=reading.rest)
        return
    async with asyncio.TaskGroup() as group:
        for queue in (*[Queue.MAIN] * reading.long_polls, Queue.RETRY):
            group.create_task(bridge.run(stop, asyncio.Event(), limit=reading.batch, poll=poll, queues=(queue,)))
