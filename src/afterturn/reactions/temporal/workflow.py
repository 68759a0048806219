"""The reaction workflow: one for each lane, consumer and conversation. It waits, runs the consumer, and closes.

It closes as soon as nothing waits, also after a failure: the store knows the failure, and the next signal starts a new
run. So what Temporal holds is bounded by the reactions that wait.

Rules of this file, because an error here would stop a conversation for ever: what a handler is given is raw and may be
anything; state is made in ``__init__``, for with signalWithStart the handlers run before ``run``; whatever is awaited,
what waits is looked at again afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, is_cancelled_exception

from afterturn.reactions.debounce import Pending
from afterturn.reactions.temporal.protocol import ReactionPolicy, SignalPayload


@dataclass(slots=True)
class WorkflowState:
    """``pending``: turns that wait for a run; a run takes them, so what is there when it ends has arrived meanwhile.

    ``due_at``: when to run next, an absolute time; None while a run is on, and where nothing waits. ``attempts``: runs
    that failed since the last one that did not. ``signals``, ``rejects`` and ``runs`` count for ever.
    """

    policy: ReactionPolicy | None = None
    newest: datetime | None = None
    pending: Pending | None = None
    due_at: datetime | None = None
    attempts: int = 0
    running: bool = False
    failed: bool = False
    signals: int = 0
    rejects: int = 0
    runs: int = 0

    def turn(self, told: SignalPayload, now: datetime) -> None:
        """One more turn waits. A back-off is not hurried by it."""
        self.policy = told.policy
        self.failed = False
        if told.occurred_at is not None:
            self.newest = told.occurred_at if self.newest is None else max(self.newest, told.occurred_at)
        debounce = told.policy.debounce
        self.pending = debounce.signal(self.pending, now, immediate=told.immediate)
        if not self.running:
            own = debounce.due_at(self.pending)
            self.due_at = max(own, self.due_at) if self.attempts and self.due_at is not None else own

    def retry(self, told: SignalPayload, now: datetime) -> None:
        """Due now, with fresh attempts."""
        self.policy = told.policy
        self.failed = False
        self.attempts = 0
        first_at = now if self.pending is None else self.pending.first_at
        self.pending = Pending(first_at=first_at, last_at=now, immediate=True)
        if not self.running:
            self.due_at = now

    def flush(self, now: datetime) -> None:
        """The quiet period counts as over; a back-off does not."""
        if self.pending is None or self.attempts:
            return
        self.pending = replace(self.pending, immediate=True)
        if not self.running and self.due_at is not None:
            self.due_at = min(self.due_at, now)

    def begin(self) -> int:
        """Take what waits into a run; returns the number of the attempt."""
        self.pending = None
        self.due_at = None
        self.running = True
        self.runs += 1
        return self.attempts + 1

    def end(self) -> None:
        """The run is over: what arrived meanwhile is debounced, with attempts of its own."""
        self.running = False
        self.attempts = 0
        self.due_at = None
        if self.pending is not None and self.policy is not None:
            self.due_at = self.policy.debounce.due_at(self.pending)

    def retry_later(self, until: datetime, attempts: int) -> None:
        """The run is to be repeated."""
        self.running = False
        self.attempts = attempts
        self.due_at = until


with workflow.unsafe.imports_passed_through():
    from afterturn import telemetry
    from afterturn.reactions.run import retry_delay
    from afterturn.reactions.temporal import protocol
    from afterturn.reactions.temporal.protocol import (
        GiveUpRequest,
        ReactionPolicy,
        ReactionSummary,
        RunRequest,
        RunResult,
    )
    from afterturn.reactions.temporal.workflow import WorkflowState

SIGNALS_A_RUN = 500
"""Then the workflow continues as new. Temporal takes 10,000 signals a run."""
EVENTS_A_RUN = 4_000
"""The same for history events: Temporal warns at 10,240 and ends a run at 51,200."""

_RECORDING = timedelta(seconds=60)
"""What a run may take besides its consumer: the window is read, the stamp written."""
_LONGEST = timedelta(minutes=15)
"""How long Temporal repeats a run by itself. Then the workflow has its turn: signals meanwhile may fill the history."""
_REPEATS = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))
"""For what is no failure of the consumer: its worker died or does not know it, or the store does not answer."""

_NOTHING = RawValue(Payload())


@workflow.defn(name=protocol.REACTION)
class ReactionWorkflow:
    """See the module. ``carried`` is the :class:`Progress` of the run before, where there was one."""

    @workflow.init
    def __init__(self, carried: RawValue = _NOTHING) -> None:
        self._progress = WorkflowState()
        self._signals = 0
        self._consumer, self._conversation_id = protocol.read_id(workflow.info().workflow_id)
        if carried is not _NOTHING:
            try:
                self._progress = workflow.payload_converter().from_payload(carried.payload, WorkflowState)
            except Exception as error:
                self._reject("start", error)

    @workflow.run
    async def run(self, carried: RawValue = _NOTHING) -> ReactionSummary:
        progress = self._progress
        while (due_at := progress.due_at) is not None and progress.policy is not None:
            if self._full():
                workflow.continue_as_new(progress)
            wait = due_at - workflow.now()
            if wait > timedelta(0):
                await self._wait(due_at, wait)
            else:
                await self._react(progress.policy)
        return ReactionSummary(progress.runs, progress.signals, progress.rejects, progress.failed)

    @workflow.signal(dynamic=True)
    def take(self, name: str, given: Sequence[RawValue]) -> None:
        """Any signal with any payload. What is none of ours is counted, and the next one is as good as ever."""
        self._signals += 1
        self._progress.signals += 1
        try:
            value: object = workflow.payload_converter().from_payload(given[0].payload)
            now = workflow.now()
            if name == protocol.TURN_SETTLED:
                self._progress.turn(protocol.read_signal(value, of_a_turn=True), now)
            elif name == protocol.RETRY:
                self._progress.retry(protocol.read_signal(value, of_a_turn=False), now)
            elif name == protocol.FLUSH:
                self._progress.flush(now)
            else:
                raise LookupError
        except Exception as error:
            self._reject(name, error)

    @workflow.query(name=protocol.STATUS)
    def status(self) -> WorkflowState:
        """Ids are in the workflow's own id; the rest is here."""
        return self._progress

    async def _wait(self, due_at: datetime, wait: timedelta) -> None:
        """Until due, or until it is due sooner. A turn that puts it off leaves the timer alone, and its history."""

        def sooner() -> bool:
            return self._progress.due_at is None or self._progress.due_at < due_at or self._full()

        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(sooner, timeout=wait)

    async def _react(self, terms: ReactionPolicy) -> None:
        """One run. A turn that arrives while this awaits anything finds the run going on, and waits for the next."""
        progress = self._progress
        attempt = progress.begin()
        try:
            reacted = await workflow.execute_activity(
                protocol.REACT,
                RunRequest(self._consumer, self._conversation_id, attempt),
                result_type=RunResult,
                start_to_close_timeout=terms.timeout + _RECORDING,
                schedule_to_close_timeout=max(_LONGEST, 2 * (terms.timeout + _RECORDING)),
                heartbeat_timeout=terms.lease,
                retry_policy=_REPEATS,
                summary=self._consumer,
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            progress.retry_later(self._later(attempt), progress.attempts)
            return
        if reacted.outcome != protocol.FAILED or reacted.through is None:
            progress.end()
        elif attempt < terms.attempts:
            progress.retry_later(self._later(attempt), attempt)
        elif progress.pending is not None:
            progress.end()
        else:
            await self._give_up(reacted.through, reacted.error or "")

    async def _give_up(self, through: str, error: str) -> None:
        await workflow.execute_activity(
            protocol.GIVE_UP,
            GiveUpRequest(self._consumer, self._conversation_id, through, error),
            start_to_close_timeout=_RECORDING,
            retry_policy=_REPEATS,
            summary=self._consumer,
        )
        self._progress.failed = self._progress.pending is None
        self._progress.end()

    def _later(self, attempt: int) -> datetime:
        return workflow.now() + retry_delay(attempt, workflow.random())

    def _full(self) -> bool:
        info = workflow.info()
        return (
            self._signals >= SIGNALS_A_RUN
            or info.get_current_history_length() >= EVENTS_A_RUN
            or info.is_continue_as_new_suggested()
        )

    def _reject(self, name: str, error: Exception) -> None:
        """Only the kind of the error is told: names and payloads of strangers may hold anything."""
        self._progress.rejects += 1
        if not workflow.unsafe.is_replaying():
            telemetry.log(
                "signal_rejected",
                level=logging.ERROR,
                consumer=self._consumer,
                conversation_id=self._conversation_id,
                kind=name if name in (protocol.TURN_SETTLED, protocol.RETRY, protocol.FLUSH, "start") else "unknown",
                error=type(error).__name__,
            )
