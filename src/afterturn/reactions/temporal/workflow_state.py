"""The state of a reaction workflow, and how signals and runs change it. Pure, without Temporal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from afterturn.reactions.debounce import Pending
from afterturn.reactions.temporal.protocol import ReactionPolicy, SignalPayload


@dataclass(slots=True)
class WorkflowState:
    """Constant in size, carried through continue-as-new.

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
