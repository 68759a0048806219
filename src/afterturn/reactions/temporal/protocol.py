"""What goes over Temporal (names, and payloads of ids, enums, counters and times), and a workflow's state.

Pure, without Temporal. JSON, camelCase in what other languages may send (signals), so that any client can signal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from afterturn.clock import parse_time, to_text
from afterturn.reactions.debounce import Debounce, Pending
from afterturn.reactions.registry import Consumer

REACTION = "afterturn-reaction"
"""The workflow type."""

TURN_SETTLED = "turn-settled"
RETRY = "retry"
FLUSH = "flush"
"""Signals of a reaction. ``flush``: quiet periods count as over, back-offs do not."""

STATUS = "status"
"""A query of a reaction: its :class:`WorkflowState`."""

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


@dataclass(slots=True)
class WorkflowState:
    """The state of a reaction workflow: constant in size, carried through continue-as-new.

    It follows the rules of the embedded engine's table (``embedded.due_queue``), for one row. ``pending``: turns that
    wait for a run; a run takes them, so those that are pending when it ends have arrived meanwhile.

    ``due_at``: when to run next, an absolute time; None while a run is on, and where nothing waits. ``attempts``: runs
    that failed since the last success. ``signals``, ``rejects`` and ``runs`` are totals.
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

    def turn(self, payload: SignalPayload, now: datetime) -> None:
        """One more turn waits. A back-off is not hurried by it."""
        self.policy = payload.policy
        self.failed = False
        if payload.occurred_at is not None:
            self.newest = payload.occurred_at if self.newest is None else max(self.newest, payload.occurred_at)
        debounce = payload.policy.debounce
        self.pending = debounce.signal(self.pending, now, immediate=payload.immediate)
        if not self.running:
            due_at = debounce.due_at(self.pending)
            self.due_at = max(due_at, self.due_at) if self.attempts and self.due_at is not None else due_at

    def retry(self, payload: SignalPayload, now: datetime) -> None:
        """Due now, with fresh attempts."""
        self.policy = payload.policy
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
