"""The bridge's half of the engine port over a Temporal client. Loads ``temporalio.client``, never a worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from afterturn import telemetry
from afterturn.errors import ConfigError, EngineUnavailable
from afterturn.reactions.port import RefusedSignal, Signal, SignalResult
from afterturn.reactions.registry import ForeignWorkflow, Registry
from afterturn.reactions.temporal import protocol
from afterturn.reactions.temporal.client import ENGINE_WIDE, Connection, rpc_kind, unavailable
from afterturn.reactions.temporal.protocol import ReactionPolicy, SignalPayload
from afterturn.stream.port import Receipt

CONSUMER = SearchAttributeKey.for_keyword("afterturnConsumer")
CONVERSATION = SearchAttributeKey.for_keyword("afterturnConversation")
"""Search attributes. Optional: a namespace that does not know them gets workflows without."""


@dataclass(frozen=True, slots=True)
class _Start:
    """A signalWithStart. ``foreign``: the workflow is not ours."""

    workflow: str
    id: str
    task_queue: str
    signal: str
    payload: Any
    search: tuple[str, str]


class TemporalSignaler:
    """Signals reactions: workflows named ``{lane}/{consumer}/{conversationId}`` on the queue ``{lane}-reactions``.

    ``lease``: how soon the run of a worker that died is given to another one. ``deadline``: of one call to Temporal,
    and twice that of a batch; ``parallel``: calls at a time. ``eager``: every signal skips its quiet period; a runner
    that drains sets it.
    """

    def __init__(
        self,
        connection: Connection,
        registry: Registry,
        *,
        lane: str,
        lease: timedelta = timedelta(seconds=30),
        deadline: timedelta = timedelta(seconds=5),
        parallel: int = 32,
        search_attributes: bool = False,
    ) -> None:
        self._connection = connection
        self._registry = registry
        self._lane = lane
        self._lease = lease
        self._deadline = deadline
        self._slots = asyncio.Semaphore(parallel)
        self._search_attributes = search_attributes
        self.eager = False

    async def signal(self, signals: Sequence[Signal], receipts: Sequence[Receipt]) -> SignalResult:
        """Each by a signalWithStart, in parallel. Raises EngineUnavailable where Temporal took none and refused none.

        Once it has answered for any of them it is up: then an error of another one is that reaction's own.
        """
        starts = [self._start_of(signal) for signal in signals]
        if not starts:
            return SignalResult()
        client = await self._connection.client()
        tasks = [asyncio.create_task(self._send(client, start)) for start in starts]
        try:
            await asyncio.wait(tasks, timeout=2 * self._deadline.total_seconds())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        errors = [_error_of(task) for task in tasks]
        failed = [error for error in errors if error is not None]
        if len(failed) == len(errors) and all(map(_engine_wide, failed)):
            error = failed[0]
            raise unavailable(error, "Temporal") if isinstance(error, RPCError) else EngineUnavailable(str(error))
        pairs = zip(signals, errors, strict=True)
        return SignalResult(
            refused=tuple(RefusedSignal(signal, rpc_kind(error)) for signal, error in pairs if error is not None)
        )

    async def ready(self) -> None:
        client = await self._connection.client()
        request = DescribeNamespaceRequest(namespace=client.namespace)
        async with self._answers():
            try:
                await client.workflow_service.describe_namespace(request, timeout=self._deadline)
            except RPCError as error:
                # Credentials that may signal need not be allowed to describe; a refusal is a sign of life, too.
                if error.status is not RPCStatusCode.PERMISSION_DENIED:
                    raise

    def _start_of(self, signal: Signal) -> _Start:
        foreign = self._registry.foreign.get(signal.consumer)
        if foreign is not None:
            return self._foreign(foreign, signal)
        told = SignalPayload(self._terms(signal.consumer), signal.occurred_at, signal.immediate or self.eager)
        return self._native(signal.consumer, signal.conversation_id, protocol.TURN_SETTLED, told)

    def _native(self, consumer: str, conversation_id: str, name: str, told: SignalPayload) -> _Start:
        return _Start(
            workflow=protocol.REACTION,
            id=protocol.reaction_id(self._lane, consumer, conversation_id),
            task_queue=protocol.task_queue(self._lane),
            signal=name,
            payload=protocol.write_signal(told),
            search=(consumer, conversation_id),
        )

    def _foreign(self, foreign: ForeignWorkflow, signal: Signal) -> _Start:
        if signal.event is None:
            raise ConfigError(f"consumer {foreign.name!r} is a foreign workflow: its signals carry the event")
        return _Start(
            workflow=foreign.workflow,
            id=protocol.reaction_id(self._lane, foreign.name, signal.conversation_id),
            task_queue=foreign.task_queue,
            signal=foreign.signal,
            payload=signal.event.model_dump(mode="json", by_alias=True, exclude_none=True),
            search=(foreign.name, signal.conversation_id),
        )

    def _terms(self, consumer: str) -> ReactionPolicy:
        return protocol.policy_of(self._registry[consumer], self._lease)

    async def _send(self, client: Client, start: _Start) -> None:
        async with self._slots:
            try:
                await self._start(client, start, self._search_attributes)
            except RPCError as error:
                if not self._search_attributes or error.status is not RPCStatusCode.INVALID_ARGUMENT:
                    raise
                # The namespace may not know the attributes: that must not stop a reaction.
                await self._start(client, start, False)
                telemetry.log("search_attributes_off", level=logging.WARNING, error=rpc_kind(error))
                self._search_attributes = False

    async def _start(self, client: Client, start: _Start, search_attributes: bool) -> None:
        consumer, conversation_id = start.search
        await client.start_workflow(
            start.workflow,
            id=start.id,
            task_queue=start.task_queue,
            start_signal=start.signal,
            start_signal_args=[start.payload],
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            search_attributes=TypedSearchAttributes(
                [SearchAttributePair(CONSUMER, consumer), SearchAttributePair(CONVERSATION, conversation_id)]
            )
            if search_attributes
            else None,
            rpc_timeout=self._deadline,
        )

    @asynccontextmanager
    async def _answers(self) -> AsyncIterator[None]:
        try:
            yield
        except RPCError as error:
            raise unavailable(error, "Temporal") from error


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    if task.cancelled():
        return TimeoutError("Temporal did not answer in time")
    return task.exception()


def _engine_wide(error: BaseException) -> bool:
    if isinstance(error, RPCError):
        return error.status in ENGINE_WIDE
    return isinstance(error, (TimeoutError, RuntimeError, OSError))
