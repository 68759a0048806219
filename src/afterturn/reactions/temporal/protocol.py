"""What goes over Temporal: names, and payloads of ids, enums, counters and times.

Pure, without Temporal. JSON, camelCase in what other languages may send (signals), so that any client can signal.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from afterturn.clock import parse_time, to_text
from afterturn.reactions.debounce import Debounce
from afterturn.reactions.registry import Consumer

REACTION = "afterturn-reaction"
"""The workflow type."""

TURN_SETTLED = "turn-settled"
RETRY = "retry"
FLUSH = "flush"
"""Signals of a reaction. ``flush``: quiet periods count as over, back-offs do not."""

STATUS = "status"
"""A query of a reaction: its ``workflow_state.WorkflowState``."""

REACT = "afterturn-react"
GIVE_UP = "afterturn-give-up"
STAMP = "afterturn-stamp"
"""Activity types. ``afterturn-stamp`` is for foreign workflows in the ledger: ``registry.ForeignWorkflow``."""

_MILLISECOND = timedelta(milliseconds=1)


def task_queue(lane: str) -> str:
    return f"{lane}-reactions"


def reaction_id(lane: str, consumer: str, conversation_id: str) -> str:
    """The workflow id. At most 1,000 bytes long, Temporal's limit: ids have 200 characters, names 48."""
    return f"{lane}/{consumer}/{conversation_id}"


def read_id(workflow_id: str) -> tuple[str, str]:
    """Consumer and conversation; lanes and consumers hold no slash, conversations may. Raises ValueError."""
    _, consumer, conversation_id = workflow_id.split("/", 2)
    return consumer, conversation_id


@dataclass(frozen=True, slots=True)
class ReactionPolicy:
    """A consumer's policy, as the bridge knows it: it travels with each signal, so that a replay sees what was.

    ``lease_ms``: how soon a run whose worker died is given to another one.
    """

    quiet_ms: int
    max_wait_ms: int
    attempts: int
    timeout_ms: int
    lease_ms: int

    @property
    def debounce(self) -> Debounce:
        return Debounce(quiet=self.quiet_ms * _MILLISECOND, max_wait=self.max_wait_ms * _MILLISECOND)

    @property
    def timeout(self) -> timedelta:
        return self.timeout_ms * _MILLISECOND

    @property
    def lease(self) -> timedelta:
        return self.lease_ms * _MILLISECOND


def policy_of(consumer: Consumer, lease: timedelta) -> ReactionPolicy:
    return ReactionPolicy(
        quiet_ms=consumer.debounce.quiet // _MILLISECOND,
        max_wait_ms=consumer.debounce.max_wait // _MILLISECOND,
        attempts=consumer.attempts,
        timeout_ms=max(consumer.timeout // _MILLISECOND, 1),
        lease_ms=max(lease // _MILLISECOND, 1),
    )


@dataclass(frozen=True, slots=True)
class SignalPayload:
    """A signal, read: ``occurred_at`` is left out by those that mean no turn."""

    policy: ReactionPolicy
    occurred_at: datetime | None = None
    immediate: bool = False


def write_signal(payload: SignalPayload) -> dict[str, Any]:
    policy = payload.policy
    written: dict[str, Any] = {
        "quietMs": policy.quiet_ms,
        "maxWaitMs": policy.max_wait_ms,
        "attempts": policy.attempts,
        "timeoutMs": policy.timeout_ms,
        "leaseMs": policy.lease_ms,
    }
    if payload.occurred_at is not None:
        written |= {"occurredAt": to_text(payload.occurred_at), "immediate": payload.immediate}
    return written


def read_signal(value: object, *, of_a_turn: bool) -> SignalPayload:
    """A signal from plain JSON values. Unknown further keys are accepted: a newer bridge may send some.

    Raises ValueError that names the key and says nothing of the value.
    """
    if not isinstance(value, dict):
        raise ValueError("is not an object")
    policy = ReactionPolicy(
        quiet_ms=_count(value, "quietMs", least=0),
        max_wait_ms=_count(value, "maxWaitMs", least=0),
        attempts=_count(value, "attempts", least=1),
        timeout_ms=_count(value, "timeoutMs", least=1),
        lease_ms=_count(value, "leaseMs", least=1),
    )
    if not of_a_turn:
        return SignalPayload(policy)
    at, immediate = value.get("occurredAt"), value.get("immediate", False)
    if not isinstance(at, str):
        raise ValueError("occurredAt is missing or is no text")
    if not isinstance(immediate, bool):
        raise ValueError("immediate is neither true nor false")
    try:
        return SignalPayload(policy, occurred_at=parse_time(at), immediate=immediate)
    except ValueError as error:
        raise ValueError(f"occurredAt {error}") from None


_MOST = 10 * 365 * 24 * 3600 * 1000
"""Ten years: what is longer would overflow a time."""


def _count(value: dict[Any, Any], key: str, *, least: int) -> int:
    count = value.get(key)
    if type(count) is not int or not least <= count <= _MOST:
        raise ValueError(f"{key} is not a whole number from {least} to {_MOST}")
    return count


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Run a consumer over what it has not seen. ``attempt`` counts from 1."""

    consumer: str
    conversation_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended. ``through`` and ``error`` are set where the consumer failed; ``error`` is its kind."""

    outcome: str
    through: str | None = None
    error: str | None = None


STAMPED = "stamped"
NOTHING_NEW = "nothing_new"
FAILED = "failed"
"""Outcomes of a run."""


@dataclass(frozen=True, slots=True)
class GiveUpRequest:
    """Mark that a consumer gave up on the turns up to ``through``."""

    consumer: str
    conversation_id: str
    through: str
    error: str


@dataclass(frozen=True, slots=True)
class ReactionSummary:
    """What a reaction leaves behind when nothing waits any more."""

    runs: int
    signals: int
    rejects: int
    failed: bool
