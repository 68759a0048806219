"""One run of a consumer, its retries and its reports: the same on every engine.

The engine decides when to run, and writes the outcome.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from afterturn import telemetry
from afterturn.errors import ConfigError
from afterturn.model import Stamp
from afterturn.reactions.registry import Claims, Consumer, ReactionContext, TurnWindow
from afterturn.store.port import ReactionWindow

MAX_STAMP_BYTES = 32_000
"""All stamps of a conversation share its DynamoDB item (400 KB)."""

_FIRST_RETRY = timedelta(seconds=2)
_LAST_RETRY = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class EffectsPolicy:
    """``effects_max_age``: older turns are history, and reactions to them send nothing out; None lifts that."""

    effects_max_age: timedelta | None = timedelta(hours=24)

    def quiet(self, through: datetime, now: datetime) -> bool:
        return self.effects_max_age is not None and now - through > self.effects_max_age


async def run_consumer(
    consumer: Consumer,
    window: ReactionWindow,
    *,
    claims: Claims,
    policy: EffectsPolicy,
    now: datetime,
    attempt: int,
    shadow: bool = False,
) -> Stamp:
    """Run a consumer over a window, within its timeout; returns what to stamp.

    Raises whatever the consumer raises, TimeoutError, or ConfigError if it cancels itself or returns what is no stamp
    or cannot be stored; CancelledError only if the run itself was cancelled.

    A shadow run, and a run over a conversation that is itself a test (synthetic or gauntlet), has no effects: nothing
    is sent out, and work orders are left out.
    """
    test = window.conversation.synthetic or window.conversation.gauntlet
    context = ReactionContext(
        consumer=consumer.name,
        conversation_id=window.conversation.id,
        now=now,
        attempt=attempt,
        quiet=shadow or test or policy.quiet(window.through, now),
        claims=claims,
    )
    turns = TurnWindow(
        conversation=window.conversation,
        messages=window.messages,
        through=window.through,
        previous=window.conversation.reactions.get(consumer.name),
    )
    try:
        async with asyncio.timeout(consumer.timeout.total_seconds()):
            stamp = await consumer.handler(turns, context)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # The consumer cancelled a task of its own and let the error out: a failure, not a shutdown of the worker.
        raise ConfigError(f"consumer {consumer.name!r} ended in CancelledError: {error}") from error
    if not isinstance(stamp, Stamp):
        raise ConfigError(f"consumer {consumer.name!r} returned {type(stamp).__name__}, not a Stamp")
    try:
        size = len(json.dumps(stamp.model_dump(mode="json")["data"], ensure_ascii=False, allow_nan=False).encode())
    except ValueError:
        raise ConfigError(
            f"consumer {consumer.name!r} stamped a lone surrogate or a number that is not finite; JSON has neither"
        ) from None
    if size > MAX_STAMP_BYTES:
        raise ConfigError(f"consumer {consumer.name!r} stamped {size} bytes; at most {MAX_STAMP_BYTES} are allowed")
    return stamp.model_copy(update={"work_orders": ()}) if shadow or test else stamp


def retry_delay(attempt: int, chance: random.Random) -> timedelta:
    """How long to wait after the n-th failed attempt: doubling, up to ten minutes, with half of it left to chance."""
    longest = min(_FIRST_RETRY * float(2 ** min(attempt - 1, 16)), _LAST_RETRY)
    return longest * (0.5 + chance.random() / 2)


def report_success(consumer: str, *, stamped: bool) -> None:
    """Count a run that did not fail. ``stamped``: false if there was nothing new to run over."""
    telemetry.reactions_run.labels(consumer=consumer, outcome="stamped" if stamped else "nothing_new").inc()


def report_failure(consumer: str, conversation_id: str, attempt: int, failure: Exception, *, last: bool) -> None:
    """Count and log a failed run. ``last``: no attempt is left, so the reaction counts as failed."""
    telemetry.reactions_run.labels(consumer=consumer, outcome="failed" if last else "retried").inc()
    telemetry.log(
        "reaction_failed" if last else "reaction_retried",
        level=logging.ERROR if last else logging.WARNING,
        consumer=consumer,
        conversation_id=conversation_id,
        attempt=attempt,
        error=error_kind(failure),
        location=telemetry.error_location(failure),
    )


def error_kind(error: BaseException) -> str:
    """The part of an error that may be logged and stored: its type. Its text can hold content."""
    return type(error).__name__
