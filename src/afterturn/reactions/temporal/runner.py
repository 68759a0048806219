"""The runner of the Temporal engine: works on a lane's queue with reaction workflows and their activities."""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
from collections.abc import Sequence
from datetime import timedelta

from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Interceptor, Worker, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from afterturn import telemetry
from afterturn.clock import Clock
from afterturn.errors import EngineUnavailable
from afterturn.reactions.registry import Registry
from afterturn.reactions.run import EffectsPolicy, error_kind
from afterturn.reactions.temporal import protocol
from afterturn.reactions.temporal.activities import Activities
from afterturn.reactions.temporal.engine import Connection, TemporalEngine
from afterturn.reactions.temporal.workflow import ReactionWorkflow
from afterturn.store.port import Store

_SANDBOXED = ReactionWorkflow.__module__
_LONGEST_PAUSE = 30.0
_FLUSH_EVERY = 1.0
_STICKY = timedelta(seconds=5)
"""How long a workflow's next step waits for the worker that has it in memory, before any worker may take it."""


def sandbox() -> SandboxedWorkflowRunner:
    """A sandbox that loads nothing anew but the workflow's own file; the rest of afterturn is pure or not called."""
    parents = {_SANDBOXED.rsplit(".", depth)[0] for depth in range(1, _SANDBOXED.count(".") + 1)}
    passed = {name for name in sys.modules if name.startswith("afterturn.")} - parents - {_SANDBOXED}
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*passed))


class TemporalRunner:
    """Works on the queue ``{lane}-reactions`` with the consumers of this app.

    ``slots``: runs of one consumer at a time. ``grace``: how long runs that have begun may take after a stop, before
    they are cut off and given to another worker. ``lease``: how soon the next step of what this worker had may be
    another one's, should it die; never more than a few seconds. ``engine``: skips quiet periods if a drain is eager.
    """

    def __init__(
        self,
        connection: Connection,
        registry: Registry,
        store: Store,
        clock: Clock,
        *,
        lane: str,
        policy: EffectsPolicy,
        engine: TemporalEngine | None = None,
        slots: int = 32,
        grace: timedelta = timedelta(seconds=60),
        lease: timedelta = _STICKY,
        workflow_runner: WorkflowRunner | None = None,
        interceptors: Sequence[Interceptor] = (),
    ) -> None:
        self._connection = connection
        self._lane = lane
        self._engine = engine
        self._activities = Activities(store, registry, clock, policy=policy, slots=slots)
        self._most = slots * (len(registry) + 1)
        self._grace = grace
        self._sticky = min(lease, _STICKY)
        self._workflow_runner = workflow_runner or sandbox()
        self._interceptors = interceptors

    def wake(self) -> None:
        """Temporal wakes its workers itself."""

    async def run(self, stop: asyncio.Event, *, poll: float, eager: bool = False) -> None:
        """Work until stopped, then let the runs that have begun finish. While Temporal is down, wait and try again."""
        flushing = asyncio.create_task(self._flush(max(poll, _FLUSH_EVERY))) if eager and self._engine else None
        pause = poll
        try:
            while not stop.is_set():
                try:
                    await self._work(stop)
                    pause = poll
                except (EngineUnavailable, RPCError, RuntimeError) as error:
                    pause = min(pause * 2, _LONGEST_PAUSE)
                    telemetry.log("worker_paused", level=logging.ERROR, error=error_kind(error), delay_s=pause)
                    await _stopped(stop, pause)
        finally:
            if flushing is not None:
                flushing.cancel()

    def worker(self, client: Client) -> Worker:
        """What works on the queue; not started."""
        return Worker(
            client,
            task_queue=protocol.task_queue(self._lane),
            workflows=[ReactionWorkflow],
            activities=self._activities.all,
            max_concurrent_activities=self._most,
            sticky_queue_schedule_to_start_timeout=self._sticky,
            graceful_shutdown_timeout=self._grace,
            workflow_runner=self._workflow_runner,
            interceptors=self._interceptors,
        )

    async def _work(self, stop: asyncio.Event) -> None:
        worker = self.worker(await self._connection.client())
        running = asyncio.create_task(worker.run())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await worker.shutdown()
            await running
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait({running})
            raise
        finally:
            stopping.cancel()

    async def _flush(self, every: float) -> None:
        """New signals skip their quiet period; open reactions are signalled to, again at doubling intervals."""
        assert self._engine is not None
        self._engine.eager = True
        done: set[str] = set()
        try:
            for round_ in itertools.count(1):
                if round_.bit_count() == 1:
                    # Some that were signalled wait again, for turns that another bridge has signalled since.
                    done.clear()
                try:
                    await self._engine.flush(done)
                except EngineUnavailable as error:
                    telemetry.log("flush_failed", level=logging.WARNING, error=error_kind(error))
                await asyncio.sleep(every)
        finally:
            self._engine.eager = False


async def _stopped(stop: asyncio.Event, timeout: float) -> None:
    try:
        async with asyncio.timeout(timeout):
            await stop.wait()
    except TimeoutError:
        pass
