"""The engine port over a Temporal client: connection, signals, retries, counts. Loads ``temporalio.client``, no worker.

The connection is made on first use: opening an app neither waits for Temporal nor fails without it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, Interceptor
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.service import RetryConfig, RPCError, RPCStatusCode, TLSConfig

from afterturn import telemetry
from afterturn.clock import Clock
from afterturn.errors import ConfigError, EngineUnavailable, NotFound
from afterturn.reactions.port import RefusedSignal, Signal, SignalResult
from afterturn.reactions.registry import ForeignWorkflow, Registry
from afterturn.reactions.run import error_kind
from afterturn.reactions.temporal import protocol
from afterturn.reactions.temporal.protocol import ReactionPolicy, SignalPayload
from afterturn.store.port import Store
from afterturn.stream.port import Receipt

_RETRIES = RetryConfig(
    initial_interval_millis=50, max_interval_millis=500, max_elapsed_time_millis=2_000, max_retries=3
)
"""The stream repeats what failed, so a call gives up early."""

_LOOK = "check AFTERTURN_TEMPORAL_ADDRESS (host:port), and that it runs there"
_WORDS = re.compile(r'(?:message|error): "([^"]+)"')

ENGINE_WIDE = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.UNAUTHENTICATED,
        RPCStatusCode.PERMISSION_DENIED,
        RPCStatusCode.UNIMPLEMENTED,
        RPCStatusCode.NOT_FOUND,
    }
)
"""What says nothing of a single reaction: no answer, too many calls, wrong credentials, no such namespace."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where Temporal is. An API key (Temporal Cloud) implies TLS."""

    target: str = "localhost:7233"
    namespace: str = "default"
    api_key: str | None = None
    tls: TLSConfig | bool = False


class Connection:
    """Connects once for all who ask, and again after a failure."""

    def __init__(
        self, address: Address, *, timeout: timedelta = timedelta(seconds=5), interceptors: tuple[Interceptor, ...] = ()
    ) -> None:
        self.address = address
        self._timeout = timeout
        self._interceptors = interceptors
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    async def client(self) -> Client:
        """Raises EngineUnavailable."""
        async with self._connecting:
            if self._client is None:
                self._client = await self._connect()
            return self._client

    async def _connect(self) -> Client:
        address = self.address
        try:
            async with asyncio.timeout(self._timeout.total_seconds()):
                return await Client.connect(
                    address.target,
                    namespace=address.namespace,
                    api_key=address.api_key,
                    tls=address.tls or address.api_key is not None,
                    retry_config=_RETRIES,
                    interceptors=list(self._interceptors),
                )
        except TimeoutError:
            raise EngineUnavailable(f"Temporal at {address.target} does not answer; {_LOOK}") from None
        except (RuntimeError, ValueError, RPCError) as error:
            raise EngineUnavailable(
                f"Temporal at {address.target} cannot be reached ({reason_of(error)}); {_LOOK}"
            ) from error


def reason_of(error: Exception) -> str:
    """The message inside an error of the client's Rust core, which nests it in its own structures."""
    text = str(error)
    words = _WORDS.findall(text)
    return str(words[-1]) if words else text


def unavailable(error: RPCError, address: str) -> EngineUnavailable:
    """What to raise for an engine-wide error."""
    return EngineUnavailable(f"{address}: {error.status.name.lower()}: {error.message}")


def rpc_kind(error: BaseException) -> str:
    """The loggable kind of an error of one call."""
    return error.status.name.lower() if isinstance(error, RPCError) else error_kind(error)


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
        payload = SignalPayload(self._policy(signal.consumer), signal.occurred_at, signal.immediate or self.eager)
        return self._native(signal.consumer, signal.conversation_id, protocol.TURN_SETTLED, payload)

    def _native(self, consumer: str, conversation_id: str, name: str, signal_payload: SignalPayload) -> _Start:
        return _Start(
            workflow=protocol.REACTION,
            id=protocol.reaction_id(self._lane, consumer, conversation_id),
            task_queue=protocol.task_queue(self._lane),
            signal=name,
            payload=protocol.write_signal(signal_payload),
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

    def _policy(self, consumer: str) -> ReactionPolicy:
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


_AGES = (timedelta(days=7), timedelta(days=1), timedelta(hours=6), timedelta(hours=1), timedelta(minutes=10))


class TemporalEngine(TemporalSignaler):
    """What a signaler does, and looking after reactions. ``store``: where failures stand."""

    def __init__(
        self, connection: Connection, registry: Registry, store: Store, clock: Clock, *, lane: str, **options: Any
    ) -> None:
        """``options``: those of the signaler."""
        super().__init__(connection, registry, lane=lane, **options)
        self._store = store
        self._clock = clock

    async def retry(self, consumer: str, conversation_id: str) -> None:
        """The mark of the failure is taken away first: where the signal then fails, the ledger owes and sweeps it."""
        conversation = await self._store.conversation(conversation_id)
        stamp = None if conversation is None else conversation.reactions.get(consumer)
        if stamp is None or stamp.failed_through is None:
            raise NotFound(f"no failed reaction of {consumer!r} on conversation {conversation_id!r}")
        policy = self._policy(consumer)
        await self._store.request(conversation_id, [consumer], now=self._clock())
        start = self._native(consumer, conversation_id, protocol.RETRY, SignalPayload(policy))
        client = await self._connection.client()
        async with self._answers():
            await self._send(client, start)

    async def waiting(self) -> int:
        """One count query. Temporal's visibility is behind by up to a second or so, more under load."""
        if not self._registry.names:
            return 0
        client = await self._connection.client()
        async with self._answers():
            return (await client.count_workflows(self._open(), rpc_timeout=self._deadline)).count

    async def oldest(self) -> datetime | None:
        """When the longest open run of a reaction's workflow started.

        Temporal lists newest first and sorts no other way, so this looks by age, oldest ages first: at most six list
        queries of up to a thousand rows each. Among more than a thousand of one age group it is not exact.
        """
        if not self._registry.names:
            return None
        client = await self._connection.client()
        now = self._clock()
        async with self._answers():
            for age in (*_AGES, None):
                until = "" if age is None else f' AND StartTime < "{(now - age).isoformat()}"'
                runs = client.list_workflows(self._open() + until, limit=1000, rpc_timeout=self._deadline)
                starts = [run.start_time async for run in runs]
                if starts:
                    return min(starts)
        return None

    async def flush(self, done: set[str]) -> None:
        """Let every open reaction skip its quiet period, but for the runs in ``done``; signalled runs are added to it.

        Each is signalled once: a signal costs the server as much as a start does.
        """
        if not self._registry.names:
            return
        client = await self._connection.client()
        async with self._answers():
            runs = [
                run
                async for run in client.list_workflows(self._open(), rpc_timeout=self._deadline)
                if run.run_id not in done
            ]
            await asyncio.gather(*(self._flush(client, run.id) for run in runs))
        done.update(run.run_id for run in runs)

    async def _flush(self, client: Client, workflow_id: str) -> None:
        async with self._slots:
            try:
                await client.get_workflow_handle(workflow_id).signal(protocol.FLUSH, {}, rpc_timeout=self._deadline)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise

    def _open(self) -> str:
        prefixes = " OR ".join(
            f'WorkflowId STARTS_WITH "{protocol.reaction_id(self._lane, name, "")}"' for name in self._registry.names
        )
        return f'ExecutionStatus = "Running" AND ({prefixes})'
