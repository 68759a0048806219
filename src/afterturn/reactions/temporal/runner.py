"""The worker of the Temporal engine: runs reaction workflows and their activities in this process.

A failure of a consumer is returned as data, for the workflow to count. What an activity raises is repeated by Temporal,
with growing pauses and without an end: an unknown consumer, no free slot, a store that does not answer, a worker that
stops. Results and errors of activities go into a history, so they hold ids, enums and times only.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError
from temporalio.worker import Interceptor, Worker, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from afterturn import telemetry
from afterturn.clock import Clock, from_text, to_text
from afterturn.errors import EngineUnavailable, StoreError
from afterturn.model import Stamp, Time
from afterturn.reactions.registry import Consumer, Registry
from afterturn.reactions.run import EffectsPolicy, error_kind, report_failure, report_success, run_consumer
from afterturn.reactions.temporal import protocol
from afterturn.reactions.temporal.engine import Connection, TemporalEngine
from afterturn.reactions.temporal.protocol import GiveUpRequest, RunRequest, RunResult
from afterturn.reactions.temporal.workflow import ReactionWorkflow
from afterturn.store.port import ConsumerState, ReactionWindow, Store

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


_BUSY = timedelta(seconds=1)
"""When to try again where all slots of a consumer are taken."""


class Activities:
    """``slots``: runs of one consumer at a time in this process, so that a slow or sick one delays no other."""

    def __init__(
        self, store: Store, registry: Registry, clock: Clock, *, policy: EffectsPolicy, slots: int = 32
    ) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._policy = policy
        self._free = {consumer.name: slots for consumer in registry}

    @property
    def all(self) -> Sequence[Callable[..., Any]]:
        return (self.react, self.give_up, self.stamp)

    @activity.defn(name=protocol.REACT)
    async def react(self, request: RunRequest) -> RunResult:
        """Run a consumer over what it has not seen, and stamp."""
        consumer = self._consumer(request)
        async with self._slot(consumer), _heartbeats():
            try:
                window = await self._store.window(request.conversation_id, consumer.name)
                shadow = window is not None and await self._is_shadow(consumer)
            except StoreError as error:
                raise _repeated(error) from None
            if window is None or _given_up(window, consumer):
                report_success(consumer.name, stamped=False)
                return RunResult(protocol.NOTHING_NEW)
            failure = await self._run(consumer, window, request, shadow=shadow)
        if failure is None:
            report_success(consumer.name, stamped=True)
            return RunResult(protocol.STAMPED)
        report_failure(
            consumer.name, request.conversation_id, request.attempt, failure, last=request.attempt >= consumer.attempts
        )
        return RunResult(protocol.FAILED, through=to_text(window.through), error=error_kind(failure))

    @activity.defn(name=protocol.GIVE_UP)
    async def give_up(self, request: GiveUpRequest) -> None:
        """Mark a failure in the store."""
        try:
            await self._store.fail(
                request.conversation_id,
                request.consumer,
                through=from_text(request.through),
                error=request.error,
                now=self._clock(),
            )
        except StoreError as error:
            raise _repeated(error) from None

    @activity.defn(name=protocol.STAMP)
    async def stamp(self, payload: dict[str, Any]) -> bool:
        """For foreign workflows that stand in the ledger, in any language: write what they have seen.

        Keys: ``consumer``, ``conversationId``, ``through`` (the ``occurredAt`` of the newest turn that they have
        handled) and ``data`` (an object; the inbox shows it). Returns whether it was written: a stamp never moves back.
        """
        try:
            foreign = self._registry.foreign[payload["consumer"]]
            stamp = Stamp(data=payload.get("data", {}))
            through: datetime = _TIME.validate_python(payload["through"])
            conversation_id = str(payload["conversationId"])
        except (KeyError, ValueError) as error:
            raise ApplicationError(
                "no stamp of a foreign consumer of this app", type=error_kind(error), non_retryable=True
            ) from None
        try:
            return await self._store.stamp(conversation_id, foreign.name, stamp, through=through, now=self._clock())
        except StoreError as error:
            raise _repeated(error) from None

    def _consumer(self, request: RunRequest) -> Consumer:
        if request.consumer in self._registry:
            return self._registry[request.consumer]
        known = ", ".join(self._registry.names) or "none"
        telemetry.log(
            "consumer_unknown",
            level=logging.ERROR,
            consumer=request.consumer,
            conversation_id=request.conversation_id,
            attempt=activity.info().attempt,
        )
        raise ApplicationError(
            f"this worker has no consumer {request.consumer!r} (it has: {known}); start one that has",
            type="UnknownConsumer",
        )

    @asynccontextmanager
    async def _slot(self, consumer: Consumer) -> AsyncIterator[None]:
        if self._free[consumer.name] <= 0:
            raise ApplicationError(
                f"all slots of {consumer.name!r} are taken here",
                type="Busy",
                next_retry_delay=_BUSY,
                category=ApplicationErrorCategory.BENIGN,
            )
        self._free[consumer.name] -= 1
        try:
            yield
        finally:
            self._free[consumer.name] += 1

    async def _run(
        self, consumer: Consumer, window: ReactionWindow, request: RunRequest, *, shadow: bool
    ) -> Exception | None:
        """Run and stamp; returns the consumer's failure, if it failed."""
        try:
            stamp = await run_consumer(
                consumer,
                window,
                claims=self._store,
                policy=self._policy,
                now=self._clock(),
                attempt=request.attempt,
                shadow=shadow,
            )
        except asyncio.CancelledError:
            raise
        except Exception as error:
            return error
        except BaseException as error:
            raise _repeated(error) from None
        try:
            await self._store.stamp(
                request.conversation_id, consumer.name, stamp, through=window.through, now=self._clock()
            )
        except StoreError as error:
            raise _repeated(error) from None
        except Exception as error:
            return error
        return None

    async def _is_shadow(self, consumer: Consumer) -> bool:
        registration = (await self._store.registrations()).get(consumer.name)
        return registration is not None and registration.state is ConsumerState.SHADOW


_TIME = TypeAdapter(Time)


def _given_up(window: ReactionWindow, consumer: Consumer) -> bool:
    """A repeated signal does not revive what has failed; a retry takes the mark away first."""
    stamp = window.conversation.reactions.get(consumer.name)
    return stamp is not None and stamp.failed_through is not None and stamp.failed_through >= window.through


def _repeated(error: BaseException) -> ApplicationError:
    """An error that Temporal retries. Only the kind of the original may stand in a history."""
    return ApplicationError(f"{error_kind(error)}; it is tried again", type=error_kind(error))


@asynccontextmanager
async def _heartbeats() -> AsyncIterator[None]:
    """Send heartbeats to the server while the block runs."""
    limit = activity.info().heartbeat_timeout
    if limit is None:
        yield
        return

    async def beat(every: float) -> None:
        while True:
            activity.heartbeat()
            await asyncio.sleep(every)

    task = asyncio.create_task(beat(limit.total_seconds() / 3))
    try:
        yield
    finally:
        task.cancel()
