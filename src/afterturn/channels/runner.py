"""What runs beside the webhooks: jobs, and the recurring tasks of providers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Protocol

from afterturn.channels.webhooks import WebhookRouter
from afterturn.jobs.runner import JobRunner, longer_pause, wait_for_any

TASK_INTERVAL_S = 30.0
"""Interval between runs of a task."""
STARTUP_DELAY_S = 2.0
"""Pause before the first run: a provider calls back immediately, and the webhooks may still be starting."""


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
        """Run jobs and tasks until stopped; jobs that have begun are finished. ``poll``: seconds between polls."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.jobs.run(stop, poll=poll))
            for task in self.tasks:
                group.create_task(_repeat(task, stop))


async def _repeat(task: BackgroundTask, stop: asyncio.Event) -> None:
    await wait_for_any(stop, task.requested, timeout=STARTUP_DELAY_S)
    pause = TASK_INTERVAL_S
    while not stop.is_set():
        task.requested.clear()
        try:
            await _run_until_stopped(stop, task.once())
            pause = TASK_INTERVAL_S
        except Exception as error:
            pause = longer_pause(error, pause)
        await wait_for_any(stop, task.requested, timeout=pause)


async def _run_until_stopped(stop: asyncio.Event, work: Coroutine[None, None, None]) -> None:
    """Run work that may be cancelled halfway: catching up after a long outage takes long."""
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
