"""The reaction workflow: one for each lane, consumer and conversation. It waits, runs the consumer, and closes.

It closes as soon as nothing waits, also after a failure: the store records the failure, and the next signal starts a
new run. So the number of open workflows is bounded by the number of waiting reactions.

An error in this file would stop a conversation permanently, so: handlers take raw payloads, which may hold anything;
state is made in ``__init__``, because with signalWithStart the handlers run before ``run``; after every await the
pending turns are read again. Temporal's sandbox loads this file anew for each workflow, so everything that can be
passed through is in ``protocol`` and ``workflow_state``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, is_cancelled_exception

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
    from afterturn.reactions.temporal.workflow_state import WorkflowState

SIGNALS_A_RUN = 500
"""Then the workflow continues as new. Temporal takes 10,000 signals a run."""
EVENTS_A_RUN = 4_000
"""The same for history events: Temporal warns at 10,240 and ends a run at 51,200."""

_RECORDING = timedelta(seconds=60)
"""Time of a run besides its consumer: reading the window, writing the stamp."""
_LONGEST = timedelta(minutes=15)
"""How long Temporal repeats a run. Then the workflow goes on, because signals meanwhile may fill the history."""
_REPEATS = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))
"""For errors other than the consumer's: the worker died or lacks the consumer, or the store does not answer."""

_NOTHING = RawValue(Payload())


@workflow.defn(name=protocol.REACTION)
class ReactionWorkflow:
    """See the module. ``carried``: the :class:`WorkflowState` of the run before, if this one continues it."""

    @workflow.init
    def __init__(self, carried: RawValue = _NOTHING) -> None:
        self._state = WorkflowState()
        self._signals = 0
        self._consumer, self._conversation_id = protocol.read_id(workflow.info().workflow_id)
        if carried is not _NOTHING:
            try:
                self._state = workflow.payload_converter().from_payload(carried.payload, WorkflowState)
            except Exception as error:
                self._reject("start", error)

    @workflow.run
    async def run(self, carried: RawValue = _NOTHING) -> ReactionSummary:
        state = self._state
        while (due_at := state.due_at) is not None and state.policy is not None:
            if self._full():
                workflow.continue_as_new(state)
            wait = due_at - workflow.now()
            if wait > timedelta(0):
                await self._wait(due_at, wait)
            else:
                await self._react(state.policy)
        return ReactionSummary(state.runs, state.signals, state.rejects, state.failed)

    @workflow.signal(dynamic=True)
    def take(self, name: str, payloads: Sequence[RawValue]) -> None:
        """Any signal with any payload. Unknown and invalid ones are counted, and change nothing else."""
        self._signals += 1
        self._state.signals += 1
        try:
            value: object = workflow.payload_converter().from_payload(payloads[0].payload)
            now = workflow.now()
            if name == protocol.TURN_SETTLED:
                self._state.turn(protocol.read_signal(value, of_a_turn=True), now)
            elif name == protocol.RETRY:
                self._state.retry(protocol.read_signal(value, of_a_turn=False), now)
            elif name == protocol.FLUSH:
                self._state.flush(now)
            else:
                raise LookupError
        except Exception as error:
            self._reject(name, error)

    @workflow.query(name=protocol.STATUS)
    def status(self) -> WorkflowState:
        """Without ids, which are in the workflow's id."""
        return self._state

    async def _wait(self, due_at: datetime, wait: timedelta) -> None:
        """Wait until due, or until something is due sooner. A turn that delays the run adds no timer to the history."""

        def sooner() -> bool:
            return self._state.due_at is None or self._state.due_at < due_at or self._full()

        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(sooner, timeout=wait)

    async def _react(self, policy: ReactionPolicy) -> None:
        """One run. A turn that arrives during it waits for the next run."""
        state = self._state
        attempt = state.begin()
        try:
            result = await workflow.execute_activity(
                protocol.REACT,
                RunRequest(self._consumer, self._conversation_id, attempt),
                result_type=RunResult,
                start_to_close_timeout=policy.timeout + _RECORDING,
                schedule_to_close_timeout=max(_LONGEST, 2 * (policy.timeout + _RECORDING)),
                heartbeat_timeout=policy.lease,
                retry_policy=_REPEATS,
                summary=self._consumer,
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            state.retry_later(self._retry_at(attempt), state.attempts)
            return
        if result.outcome != protocol.FAILED or result.through is None:
            state.end()
        elif attempt < policy.attempts:
            state.retry_later(self._retry_at(attempt), attempt)
        elif state.pending is not None:
            state.end()
        else:
            await self._give_up(result.through, result.error or "")

    async def _give_up(self, through: str, error: str) -> None:
        await workflow.execute_activity(
            protocol.GIVE_UP,
            GiveUpRequest(self._consumer, self._conversation_id, through, error),
            start_to_close_timeout=_RECORDING,
            retry_policy=_REPEATS,
            summary=self._consumer,
        )
        self._state.failed = self._state.pending is None
        self._state.end()

    def _retry_at(self, attempt: int) -> datetime:
        return workflow.now() + retry_delay(attempt, workflow.random())

    def _full(self) -> bool:
        info = workflow.info()
        return (
            self._signals >= SIGNALS_A_RUN
            or info.get_current_history_length() >= EVENTS_A_RUN
            or info.is_continue_as_new_suggested()
        )

    def _reject(self, name: str, error: Exception) -> None:
        """Count and log an invalid signal; only the kind of its error, because names and payloads may hold content."""
        self._state.rejects += 1
        if not workflow.unsafe.is_replaying():
            telemetry.log(
                "signal_rejected",
                level=logging.ERROR,
                consumer=self._consumer,
                conversation_id=self._conversation_id,
                kind=name if name in (protocol.TURN_SETTLED, protocol.RETRY, protocol.FLUSH, "start") else "unknown",
                error=type(error).__name__,
            )
