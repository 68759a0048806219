"""What runs beside the doors: answers are asked for, and sent, and subscriptions kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from afterturn import telemetry
from afterturn.channels.auto_reply import AutoReply
from afterturn.channels.outbox import Outbox
from afterturn.channels.webhooks import WebhookRouter
from afterturn.store.port import LeasedJob

MOST = 16
"""Conversations that are answered at the same time."""

LOOK_S = 30.0
"""How often it is looked whether subscriptions have to be seen to."""
SETTLING_S = 2.0
"""Before the first look: a provider that is asked to call us does so at once, and our doors may still be opening."""

_LONGEST_PAUSE = 30.0


class BackgroundTask(Protocol):
    """A provider's recurring work, such as renewing its subscriptions. ``requested``: set when it should run now."""

    requested: asyncio.Event

    def once(self) -> Coroutine[None, None, None]: ...


@dataclass(frozen=True, slots=True)
class ChannelRunner:
    """Doors and what follows from what comes in. ``wake``: set when there may be something to answer; ``answered``:
    when there may be something to send; ``tasks``: of the connected providers.
    """

    doors: WebhookRouter
    answering: AutoReply
    dispatching: Outbox
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: Sequence[BackgroundTask] = ()

    async def run(self, stop: asyncio.Event, *, poll: float) -> None:
        """Answer and send until stopped; what has begun is finished. ``poll``: seconds between two looks.

        Neither waits for the other, nor one conversation for another: an agent that hangs holds up its own alone.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._answer(stop, poll))
            group.create_task(self._send(stop, poll))
            for task in self.tasks:
                group.create_task(_repeat(task, stop))

    async def _answer(self, stop: asyncio.Event, poll: float) -> None:
        pause = poll
        async with asyncio.TaskGroup() as group:
            busy: set[asyncio.Task[None]] = set()

            def done(task: asyncio.Task[None]) -> None:
                busy.discard(task)
                self.wake.set()
                self.answered.set()

            while not stop.is_set():
                self.wake.clear()
                found: Sequence[Sequence[LeasedJob]] = ()
                try:
                    if len(busy) < MOST:
                        found = await self.answering.taken(limit=MOST - len(busy))
                    pause = poll
                except Exception as error:
                    pause = _paused(error, pause)
                for each in found:
                    busy.add(task := group.create_task(self.answering.do(each)))
                    task.add_done_callback(done)
                if not found:
                    await _any(stop, self.wake, timeout=pause)

    async def _send(self, stop: asyncio.Event, poll: float) -> None:
        pause = poll
        while not stop.is_set():
            self.answered.clear()
            sent = 0
            try:
                # One by one: what is taken by somebody who dies waits out a long lease.
                sent = await self.dispatching.once(limit=1)
                pause = poll
            except Exception as error:
                pause = _paused(error, pause)
            if not sent:
                await _any(stop, self.answered, timeout=pause)


async def _repeat(task: BackgroundTask, stop: asyncio.Event) -> None:
    await _any(stop, task.requested, timeout=SETTLING_S)
    pause = LOOK_S
    while not stop.is_set():
        task.requested.clear()
        try:
            await _unless(stop, task.once())
            pause = LOOK_S
        except Exception as error:
            pause = _paused(error, pause)
        await _any(stop, task.requested, timeout=pause)


def _paused(error: Exception, pause: float) -> float:
    """The next pause. Not only a store that is out: whatever happens here, pages and doors stay open."""
    longer = min(pause * 2, _LONGEST_PAUSE)
    telemetry.log("funnel_paused", level=logging.ERROR, error=type(error).__name__, delay_s=longer)
    return longer


async def _unless(stop: asyncio.Event, work: Coroutine[None, None, None]) -> None:
    """Do what may be left half-done, and leave it so where it is time to stop: a long outage is long to catch up."""
    doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.wait({doing})
    if not doing.cancelled():
        doing.result()


async def _any(*events: asyncio.Event, timeout: float) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
