"""Runs jobs from the queue: kinds run concurrently, and each conversation's jobs of a kind run one at a time.

A handler runs jobs of one kind. The runner leases, groups, locks, retries and completes them by its retry policy.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from weakref import WeakValueDictionary

from afterturn import telemetry
from afterturn.clock import Clock
from afterturn.errors import AfterturnError
from afterturn.jobs.locks import Lock, Locks
from afterturn.store.jobs import MAX_JOBS, Job, JobQueue, LeasedJob
from afterturn.store.state import StateStore

_DEFERRAL = timedelta(seconds=2)
"""Delay of jobs whose conversation is locked by another process. It does not count as an attempt."""
_LONGEST_PAUSE_S = 30.0


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
        """How long to wait after so many attempts; None to give up. ``after``: the least that the failure asks for."""
        if self.give_up_after is not None and age > self.give_up_after:
            return None
        delay = timedelta(seconds=self.delays[min(attempts, len(self.delays)) - 1])
        return delay if after is None else max(after, delay)


class JobStore(StateStore, JobQueue, Protocol):
    """What a runner needs of the store."""


@dataclass(frozen=True, slots=True)
class JobHandler:
    """Runs jobs of a kind.

    ``run``: runs a job; returns false if it had been done before. If it raises, the job is retried.
    ``failed``: called before a retry with the reason and the delay, None when the job is given up.
    ``concurrency``: conversations at the same time. ``leads_to``: kinds of jobs that a run may add.
    ``is_shared``: the newest of such jobs in a conversation does the work of the older ones, too, and one process at a
    time works on them.
    ``recurring``: for jobs that come back at intervals, returns those of the present one; the runner adds them. When it
    stops, it hands such jobs back instead of finishing them: the next process starts with them.
    """

    kind: str
    run: Callable[[LeasedJob], Awaitable[bool]]
    lease: timedelta
    retry: RetryPolicy
    failed: Callable[[LeasedJob, str, timedelta | None], Awaitable[None]] | None = None
    concurrency: int = 1
    leads_to: tuple[str, ...] = ()
    is_shared: Callable[[LeasedJob], bool] = lambda job: False
    recurring: Callable[[datetime], Sequence[Job]] | None = None


@dataclass(frozen=True, slots=True)
class JobBatch:
    """Leased jobs of one kind and conversation."""

    handler: JobHandler
    jobs: tuple[LeasedJob, ...]


class JobRunner:
    """Runs jobs until it is stopped."""

    def __init__(self, store: JobStore, clock: Clock, handlers: Sequence[JobHandler]) -> None:
        self._store = store
        self._clock = clock
        self._handlers: dict[str, JobHandler] = {}
        self._wakes: dict[str, asyncio.Event] = {}
        self._busy: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._next: set[tuple[str, str]] = set()
        self._added: dict[str, set[str]] = {}
        self._stopping: set[str] = set()
        self._interruptible: dict[str, set[asyncio.Task[Any]]] = {}
        for handler in handlers:
            self.add(handler)

    def add(self, handler: JobHandler) -> None:
        """Run jobs of one more kind. Call it before :meth:`run`."""
        self._handlers[handler.kind] = handler
        self._wakes[handler.kind] = asyncio.Event()
        self._interruptible[handler.kind] = set()

    def wake(self) -> None:
        """Poll now, because jobs were added."""
        for event in self._wakes.values():
            event.set()

    async def run(self, stop: asyncio.Event, *, poll: float) -> None:
        """Run jobs until stopped, then finish those that have begun. ``poll``: seconds between polls."""
        async with asyncio.TaskGroup() as group:
            for handler in self._handlers.values():
                group.create_task(self._serve(handler, stop, poll))

    async def once(self, *, limit: int = 16) -> int:
        """Run the jobs that are due; return how many were leased."""
        batches = await self.lease(limit=limit)
        turns = {kind: asyncio.Semaphore(handler.concurrency) for kind, handler in self._handlers.items()}

        async def do(batch: JobBatch) -> None:
            async with turns[batch.handler.kind]:
                await self.do(batch)

        async with asyncio.TaskGroup() as group:
            for batch in batches:
                group.create_task(do(batch))
        return sum(len(batch.jobs) for batch in batches)

    async def lease(self, *, limit: int) -> list[JobBatch]:
        """Jobs that are due, at most ``limit`` of each kind, by conversation; :meth:`do` does each."""
        return [batch for handler in self._handlers.values() for batch in await self._lease(handler, limit)]

    async def do(self, batch: JobBatch) -> None:
        """Run a conversation's jobs. Raises nothing: jobs that fail are retried.

        While one batch runs, one more waits for it. Further batches are deferred, so that they do not use up the
        concurrency of other conversations.
        """
        key = batch.handler.kind, batch.jobs[0].conversation_id
        if key in self._next:
            await self._defer(batch.jobs)
            return
        lock = self._busy.setdefault(key, asyncio.Lock())
        self._next.add(key)
        try:
            await lock.acquire()
        finally:
            self._next.discard(key)
        try:
            await self._do_alone(batch.handler, batch.jobs)
        finally:
            lock.release()

    async def _serve(self, handler: JobHandler, stop: asyncio.Event, poll: float) -> None:
        wake, pause = self._wakes[handler.kind], poll
        async with asyncio.TaskGroup() as group:
            busy: set[asyncio.Task[None]] = set()

            def done(task: asyncio.Task[None]) -> None:
                busy.discard(task)
                for kind in (handler.kind, *handler.leads_to):
                    if kind in self._wakes:
                        self._wakes[kind].set()

            while not stop.is_set():
                wake.clear()
                batches: Sequence[JobBatch] = ()
                try:
                    if len(busy) < handler.concurrency:
                        batches = await self._lease(handler, handler.concurrency - len(busy))
                    pause = poll
                except Exception as error:  # any error, not only of the store: the process goes on
                    pause = longer_pause(error, pause)
                for batch in batches:
                    busy.add(task := group.create_task(self.do(batch)))
                    task.add_done_callback(done)
                if not batches:
                    await wait_for_any(stop, wake, timeout=pause)
            if handler.recurring is not None:
                self._stopping.add(handler.kind)
                for task in self._interruptible[handler.kind]:
                    task.cancel()

    async def _lease(self, handler: JobHandler, limit: int) -> list[JobBatch]:
        if handler.recurring is not None:
            await self._add_new(handler.kind, handler.recurring(self._clock()))
        jobs = await self._store.lease_jobs(handler.kind, now=self._clock(), lease=handler.lease, limit=limit)
        by_conversation: dict[str, list[LeasedJob]] = {}
        for job in jobs:
            by_conversation.setdefault(job.conversation_id, []).append(job)
        return [JobBatch(handler, tuple(batch)) for batch in by_conversation.values()]

    async def _add_new(self, kind: str, jobs: Sequence[Job]) -> None:
        """Add recurring jobs that this process has not added yet; those that another one added are known."""
        added = self._added.get(kind, set())
        new = [job for job in jobs if job.key not in added]
        for start in range(0, len(new), MAX_JOBS):
            await self._store.add_jobs(new[start : start + MAX_JOBS])
        self._added[kind] = {job.key for job in jobs}

    async def _do_alone(self, handler: JobHandler, jobs: Sequence[LeasedJob]) -> None:
        """Run the jobs while this process runs no other job of the conversation and kind."""
        shared = [job for job in jobs if handler.is_shared(job)]
        for job in jobs:
            if job not in shared:
                await self._do(handler, job)
        if not shared:
            return
        locks = Locks(self._store, self._clock, handler.kind)
        lock = await self._acquire(locks, handler, shared[0].conversation_id)
        if lock is None:
            await self._defer(shared)
            return
        try:
            older = sorted(shared, key=lambda job: job.due_at)
            while older and not await self._do(handler, older.pop()):
                pass  # it had been done before the others were added, so the next one runs
            for job in older:
                await self._complete(job)
        finally:
            with contextlib.suppress(AfterturnError):  # it expires
                await locks.release(lock)

    async def _acquire(self, locks: Locks, handler: JobHandler, conversation_id: str) -> Lock | None:
        try:
            return await locks.acquire(conversation_id, handler.lease)
        except AfterturnError as error:
            telemetry.log("lock_failed", level=logging.WARNING, stage=handler.kind, error=type(error).__name__)
            return None

    async def _do(self, handler: JobHandler, job: LeasedJob) -> bool:
        """False if it had been done before."""
        if handler.kind in self._stopping:
            await self._defer([job])
            return True
        try:
            is_new = await self._run(handler, job)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or handler.kind not in self._stopping:
                raise
            task.uncancel()
            await self._defer([job])
            return True
        except Exception as error:
            await self._retry(handler, job, error)
            return True
        await self._complete(job)
        return is_new

    async def _run(self, handler: JobHandler, job: LeasedJob) -> bool:
        """A stop cancels a task only while its handler runs: never between a lock, a job and its completion."""
        task = asyncio.current_task()
        if task is None or handler.recurring is None:
            return await handler.run(job)
        running = self._interruptible[handler.kind]
        running.add(task)
        try:
            return await handler.run(job)
        finally:
            running.discard(task)

    async def _complete(self, job: LeasedJob) -> None:
        try:
            await self._store.complete(job)
        except AfterturnError:  # it runs again when the lease ends, without effect
            telemetry.log("complete_failed", level=logging.WARNING, stage=job.kind)

    async def _retry(self, handler: JobHandler, job: LeasedJob, error: Exception) -> None:
        reason, after = (error.reason, error.after) if isinstance(error, RetryLater) else (type(error).__name__, None)
        delay = handler.retry.next_delay(job.attempts, self._clock() - job.due_at, after)
        telemetry.log(
            "job_failed",
            level=logging.WARNING if isinstance(error, RetryLater) else logging.ERROR,
            stage=job.kind,
            conversation_id=job.conversation_id,
            error=reason,
            location=None if isinstance(error, RetryLater) else telemetry.error_location(error),
            delay_s=None if delay is None else int(delay.total_seconds()),
        )
        try:
            if handler.failed is not None:
                await handler.failed(job, reason, delay)
            if delay is None:
                await self._store.complete(job)
            else:
                await self._store.retry_later(job, until=self._clock() + delay)
        except Exception:  # it runs again when the lease ends
            telemetry.log("retry_later_failed", level=logging.WARNING, stage=job.kind)

    async def _defer(self, jobs: Sequence[LeasedJob]) -> None:
        """Postpone jobs whose conversation is being worked on."""
        for job in jobs:
            with contextlib.suppress(AfterturnError):  # it runs again when the lease ends
                until = self._clock() + _DEFERRAL
                await self._store.retry_later(job, until=until, attempts=job.attempts - 1)


def longer_pause(error: Exception, pause: float) -> float:
    """Seconds before the next poll after an error."""
    longer = min(pause * 2, _LONGEST_PAUSE_S)
    telemetry.log("jobs_paused", level=logging.ERROR, error=type(error).__name__, delay_s=longer)
    return longer


async def wait_for_any(*events: asyncio.Event, timeout: float) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
