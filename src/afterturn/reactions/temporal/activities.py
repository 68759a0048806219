"""The activities of the Temporal engine: a run of a consumer, a failure that is recorded, a foreign workflow's stamp.

A failure of a consumer is returned as data, for the workflow to count. What an activity raises is repeated by Temporal,
with growing pauses and without an end: an unknown consumer, no free slot, a store that does not answer, a worker that
stops. Results and errors of activities go into a history, so they hold ids, enums and times only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from afterturn import telemetry
from afterturn.clock import Clock, from_text, to_text
from afterturn.errors import StoreError
from afterturn.model import Stamp, Time
from afterturn.reactions.registry import Consumer, Registry
from afterturn.reactions.run import EffectsPolicy, error_kind, report_failure, report_success, run_consumer
from afterturn.reactions.temporal import protocol
from afterturn.reactions.temporal.protocol import GiveUpRequest, RunRequest, RunResult
from afterturn.store.port import ConsumerState, ReactionWindow, Store

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
        except Exception as error:
            return error
        except asyncio.CancelledError:  # the worker stops: Temporal gives the run to another one
            raise
        except BaseException as error:  # a consumer that calls exit() is not the worker's end
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
