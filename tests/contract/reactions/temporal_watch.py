"""Watches workflows where they run: tells them the rig's time, and keeps what each has asked its server for.

So a test knows exactly when a workflow wants to be woken, and that nothing is going on any more, without asking.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from temporalio import activity
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowRunner,
)
from temporalio.workflow import Info

from afterturn.testing import ManualClock


@dataclass
class Timer:
    """``skipped``: when, on the machine's clock, the rig has asked the server to let it fire."""

    due: datetime
    started_for: timedelta
    skipped: float = 0.0


@dataclass
class WorkflowRun:
    """One run of a workflow. ``follows``: the run that it continues; ``closed``: how it ended.

    ``active``: it works, or is replayed up to where it was.
    """

    workflow_id: str
    follows: str
    active: bool = True
    signals: int = 0
    timers: dict[int, Timer] = field(default_factory=dict)
    activities: set[int] = field(default_factory=set)
    closed: str | None = None


class Watch(WorkflowRunner):
    """A workflow runner around another one.

    ``sent`` counts the signals that were sent to each workflow id; ``dead`` holds when the worker of a run died.
    """

    def __init__(self, inner: WorkflowRunner, clock: ManualClock) -> None:
        self._inner = inner
        self.clock = clock
        self.runs: dict[str, WorkflowRun] = {}
        self.sent: dict[str, int] = {}
        self.dead: dict[str, datetime] = {}
        self.failures: list[str] = []
        self.times: dict[tuple[str, int], datetime] = {}

    def prepare_workflow(self, defn: Any) -> None:
        self._inner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _Watched(self._inner.create_instance(det), self)

    @property
    def open(self) -> list[WorkflowRun]:
        return [run for run in list(self.runs.values()) if run.closed is None]

    def timers(self) -> list[tuple[WorkflowRun, int, Timer]]:
        return [(run, seq, timer) for run in self.open if not run.active for seq, timer in list(run.timers.items())]

    def still(self) -> bool:
        """Nothing happens before time goes on: all signals have come, no activity runs, no timer is due."""
        seen: dict[str, int] = {}
        for run in list(self.runs.values()):
            seen[run.workflow_id] = seen.get(run.workflow_id, 0) + run.signals
        if any(seen.get(workflow_id, 0) < count for workflow_id, count in self.sent.items()):
            return False
        followed = {run.follows for run in list(self.runs.values())}
        if any(run.closed == "continued" and run_id not in followed for run_id, run in list(self.runs.items())):
            return False
        now = self.clock()
        if any(run.active for run in list(self.runs.values())):
            return False
        if any(timer.due <= now for _, _, timer in self.timers()):
            return False
        return all(not run.activities or self.dead.get(run.workflow_id, now) > now for run in self.open)

    def activated(self, act: WorkflowActivation) -> None:
        """Before an activation: give it the rig's time, the same again in a replay."""
        key = (act.run_id, act.history_length)
        now = self.times.get(key) if act.is_replaying else None
        self.times[key] = now = now or self.clock()
        act.timestamp.FromDatetime(now)
        for job in act.jobs:
            if job.HasField("initialize_workflow"):
                start = job.initialize_workflow
                self.runs[act.run_id] = WorkflowRun(start.workflow_id, start.continued_from_execution_run_id)
        run = self.runs[act.run_id]
        run.active = True
        for job in act.jobs:
            if job.HasField("signal_workflow"):
                run.signals += 1
            elif job.HasField("fire_timer"):
                run.timers.pop(job.fire_timer.seq, None)
            elif job.HasField("resolve_activity"):
                run.activities.discard(job.resolve_activity.seq)

    def completed(self, act: WorkflowActivation, done: WorkflowActivationCompletion) -> None:
        run = self.runs[act.run_id]
        if done.HasField("failed"):
            self.failures.append(done.failed.failure.message)
            return
        now = act.timestamp.ToDatetime(tzinfo=self.clock().tzinfo)
        for command in done.successful.commands:
            if command.HasField("start_timer"):
                wait = command.start_timer.start_to_fire_timeout.ToTimedelta()
                run.timers[command.start_timer.seq] = Timer(now + wait, wait)
            elif command.HasField("cancel_timer"):
                run.timers.pop(command.cancel_timer.seq, None)
            elif command.HasField("schedule_activity"):
                run.activities.add(command.schedule_activity.seq)
            elif command.HasField("continue_as_new_workflow_execution"):
                run.closed = "continued"
            elif command.HasField("complete_workflow_execution"):
                run.closed = "completed"
        run.active = act.is_replaying


class _Watched(WorkflowInstance):
    def __init__(self, inner: WorkflowInstance, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        passive = ("query_workflow", "remove_from_cache")
        if all(job.WhichOneof("variant") in passive for job in act.jobs):
            return self._inner.activate(act)
        self._watch.activated(act)
        done = self._inner.activate(act)
        self._watch.completed(act, done)
        return done

    def get_serialization_context(self, command_info: Any) -> Any:
        return self._inner.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> Any:
        return self._inner.get_external_store_context(command_info)

    def get_info(self) -> Info:
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()


class WorkerDeath(Interceptor):
    """Makes a Crash of a consumer the death of its worker: nothing is reported, no heartbeat comes any more.

    The next try is held back until the rig's time has reached the end of the lease.
    """

    def __init__(self, watch: Watch, lease: timedelta) -> None:
        self.watch = watch
        self.lease = lease

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _MortalActivity(next, self)


class _MortalActivity(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, mortal: WorkerDeath) -> None:
        super().__init__(next)
        self._watch = mortal.watch
        self._lease = mortal.lease

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        workflow_id = activity.info().workflow_id
        assert workflow_id is not None
        while (until := self._watch.dead.get(workflow_id)) is not None and self._watch.clock() < until:
            activity.heartbeat()
            await asyncio.sleep(0.01)
        self._watch.dead.pop(workflow_id, None)
        try:
            return await super().execute_activity(input)
        except ApplicationError as error:
            if error.type != "Crash":
                raise
            self._watch.dead[workflow_id] = self._watch.clock() + self._lease
            return await asyncio.Event().wait()
