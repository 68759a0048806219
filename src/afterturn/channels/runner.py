"""What runs beside the webhooks: jobs, and the recurring tasks of providers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Protocol

from afterturn.channels.webhooks import WebhookRouter
from afterturn.jobs.runner import JobRunner, longer_pause, wait_for_any

LOOK_S = 30.0
"""How often it is looked whether subscriptions have to be seen to."""
SETTLING_S = 2.0
"""Pause before the first look: a provider calls as soon as it is asked to, and the webhooks may still be starting."""


class BackgroundTask(Protocol):
    """A provider's recurring work, such as renewing its subscriptions. ``requested``: set when it should run now."""

    requested: asyncio.Event

    def once(self) -> Coroutine[None, None, None]: ...


@dataclass(frozen=True, slots=True)
class ChannelRunner:
    """The webhooks, the jobs that follow from them, and the recurring ``tasks`` of the connected providers."""

    router: WebhookRouter
    jobs: JobRunner
    tasks: Sequence[BackgroundTask] = ()

    async def run(self, stop: asyncio.Event, *, poll: float) -> None:
        """Run jobs and tasks until stopped; jobs that have begun are finished. ``poll``: seconds between two looks."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.jobs.run(stop, poll=poll))
            for task in self.tasks:
                group.create_task(_repeat(task, stop))


async def _repeat(task: BackgroundTask, stop: asyncio.Event) -> None:
    await wait_for_any(stop, task.requested, timeout=SETTLING_S)
    pause = LOOK_S
    while not stop.is_set():
        task.requested.clear()
        try:
            await _unless(stop, task.once())
            pause = LOOK_S
        except Exception as error:
            pause = longer_pause(error, pause)
        await wait_for_any(stop, task.requested, timeout=pause)


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
