"""The operations page: stages with their plots, consumers, dead letters, failures, debts. Pure."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from afterturn.ledger.debts import Debt
from afterturn.store.port import ConsumerState, Failure, Registration
from afterturn.stream.port import DeadLetter
from afterturn.web.pages.samples import ConsumerSample, Sample
from afterturn.web.pages.texts import age, conversation_path

BODY_CHARS = 4_000
WIDTH, HEIGHT = 120.0, 24.0


@dataclass(frozen=True, slots=True)
class Plot:
    """A line as SVG points in a box of 120 by 24, and what it says in words."""

    line: str
    under: str
    label: str


@dataclass(frozen=True, slots=True)
class Stage:
    """``number``: None where it does not answer."""

    name: str
    number: int | None
    age: str
    bad: bool
    plot: Plot | None


@dataclass(frozen=True, slots=True)
class ConsumerView:
    """``seen`` of ``looked_at``: how far it is with the newest conversations, which is how a late joiner gets on."""

    name: str
    state: str
    declared: bool
    since: datetime
    owed: int
    lag: str
    failed: int
    seen: int
    looked_at: int
    plot: Plot | None


@dataclass(frozen=True, slots=True)
class LetterView:
    id: str
    queue: str
    consumer: str | None
    group: str
    reason: str
    receives: int
    died_at: datetime
    body: str


@dataclass(frozen=True, slots=True)
class FailureView:
    conversation: str
    href: str
    consumer: str
    error: str
    turn: datetime


@dataclass(frozen=True, slots=True)
class DebtView:
    conversation: str
    href: str
    consumer: str
    state: str
    since: datetime


def stages(now: Sample, before: Sequence[Sample]) -> tuple[Stage, ...]:
    """Every stage a record passes, in its order."""

    def stage(name: str, value: Callable[[Sample], int | None], oldest: datetime | None, bad: bool = False) -> Stage:
        number = value(now)
        known = [float(one) for one in map(value, (*before, now)) if one is not None]
        return Stage(
            name=name,
            number=number,
            age=_aged(number, None if oldest is None else now.at - oldest, bad),
            bad=number is None or (bad and number > 0),
            plot=plot(known, name),
        )

    return (
        stage("In the stream", lambda one: one.main, now.stream_oldest),
        stage("Parked or replayed", lambda one: one.direct, None if now.main else now.stream_oldest),
        stage("Waiting reactions", lambda one: one.waiting, now.reactions_oldest),
        stage("Failed reactions", lambda one: one.failed, None, bad=True),
        stage("Dead letters", lambda one: one.dead, None, bad=True),
    )


def consumers(
    now: Sample, before: Sequence[Sample], registrations: Mapping[str, Registration], declared: Sequence[str]
) -> tuple[ConsumerView, ...]:
    """Every consumer that was ever registered."""
    nothing = ConsumerSample()
    found = []
    for name, one in registrations.items():
        sample = now.consumers.get(name, nothing)
        lags = [past.consumers.get(name, nothing).lag.total_seconds() for past in (*before, now)]
        live = one.state is ConsumerState.LIVE
        found.append(
            ConsumerView(
                name=name,
                state=one.state.value,
                declared=name in declared,
                since=one.registered_at,
                owed=sample.owed,
                lag=_lag(sample.lag) if sample.owed else "–",
                failed=sample.failed,
                seen=sample.seen,
                looked_at=now.looked_at,
                plot=plot(lags, f"Lag of {name}", told=lambda value: _lag(timedelta(seconds=value))) if live else None,
            )
        )
    return tuple(found)


def plot(
    values: Sequence[float], name: str, *, told: Callable[[float], str] = lambda value: f"{value:g}"
) -> Plot | None:
    """A line over time, lowest at the bottom; None where there are not two samples."""
    if len(values) < 2:
        return None
    top = max(*values, 1.0)
    step = WIDTH / (len(values) - 1)
    points = [f"{place * step:.1f},{HEIGHT - value / top * HEIGHT:.1f}" for place, value in enumerate(values)]
    line = " ".join(points)
    return Plot(
        line=line,
        under=f"0,{HEIGHT:g} {line} {WIDTH:g},{HEIGHT:g}",
        label=f"{name}: now {told(values[-1])}, highest {told(max(values))} of {len(values)} samples",
    )


def _aged(number: int | None, oldest: timedelta | None, bad: bool) -> str:
    if number is None:
        return "does not answer"
    if not number:
        return "none" if bad else "nothing waits"
    return f"oldest {_lag(oldest)}" if oldest is not None else "to be looked at" if bad else "on their way"


def _lag(length: timedelta) -> str:
    return "under 1s" if length < timedelta(seconds=1) else age(length)


def letter_view(one: DeadLetter) -> LetterView:
    return LetterView(
        id=one.id,
        queue=one.queue.value,
        consumer=one.consumer,
        group=one.group,
        reason=one.reason,
        receives=one.receives,
        died_at=one.died_at,
        body=_body(one.body),
    )


def failure_view(one: Failure) -> FailureView:
    return FailureView(
        conversation=one.conversation_id,
        href=conversation_path(one.conversation_id),
        consumer=one.consumer,
        error=one.error,
        turn=one.failed_through,
    )


def debt_view(one: Debt) -> DebtView:
    return DebtView(
        conversation=one.conversation.id,
        href=conversation_path(one.conversation.id),
        consumer=one.consumer,
        state=one.state.value,
        since=one.since,
    )


def _body(body: str) -> str:
    """JSON laid out for reading; anything else as it came, cut where it is long."""
    with contextlib.suppress(ValueError, RecursionError):
        body = json.dumps(json.loads(body), ensure_ascii=False, indent=2)
    return body if len(body) <= BODY_CHARS else body[:BODY_CHARS] + "…"
