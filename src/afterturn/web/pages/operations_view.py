"""The operations page: stages with their plots, consumers, dead letters, failures, debts. Pure."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from afterturn.inbox.presentation import duration
from afterturn.ledger.debts import Debt
from afterturn.store.port import ConsumerState, Failure, Registration
from afterturn.stream.port import DeadLetter
from afterturn.web.pages.history import GAP, Point, Span, point_of
from afterturn.web.pages.query_params import conversation_path
from afterturn.web.pages.stats import ConsumerSample, Sample

BODY_CHARS = 4_000
WIDTH, HEIGHT = 120.0, 24.0


@dataclass(frozen=True, slots=True)
class Plot:
    """A line as SVG paths in a box of 120 by 24, with the ground under it, and what it says in words.

    ``top``: the highest value, which is at the upper edge; empty where it is none.
    """

    line: str
    under: str
    top: str
    label: str


@dataclass(frozen=True, slots=True)
class PlotRange:
    """What is plotted, oldest first, and from when to when."""

    span: Span
    now: datetime
    points: tuple[Point, ...] = ()


@dataclass(frozen=True, slots=True)
class StageView:
    """``number``: None where it does not answer."""

    key: str
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
    lags: Plot | None
    failures: Plot | None


@dataclass(frozen=True, slots=True)
class DeadLetterView:
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


def stages(now: Sample, past: PlotRange) -> tuple[StageView, ...]:
    """Every stage a record passes, in its order."""

    def stage(name: str, key: str, number: int | None, oldest: datetime | None, bad: bool = False) -> StageView:
        return StageView(
            key=key,
            name=name,
            number=number,
            age=_aged(number, None if oldest is None else now.at - oldest, bad),
            bad=number is None or (bad and number > 0),
            plot=plot(_values(past, now, lambda one: one.stages.get(key)), past, name),
        )

    return (
        stage("In the stream", "main", now.main, now.stream_oldest),
        stage("Deferred or replayed", "retry", now.retry, None if now.main else now.stream_oldest),
        stage("Waiting reactions", "waiting", now.waiting, now.reactions_oldest),
        stage("Answers and sends", "jobs", now.jobs, now.jobs_oldest),
        stage("Failed reactions", "failed", now.failed, None, bad=True),
        stage("Dead letters", "dead", now.dead, None, bad=True),
    )


def consumers(
    now: Sample, past: PlotRange, registrations: Mapping[str, Registration], declared: Sequence[str]
) -> tuple[ConsumerView, ...]:
    """Every consumer that was ever registered."""
    return tuple(_consumer(one, now, past, name in declared) for name, one in registrations.items())


def _consumer(one: Registration, now: Sample, past: PlotRange, declared: bool) -> ConsumerView:
    sample = now.consumers.get(one.name, ConsumerSample())
    lags = failures = None
    if one.state is ConsumerState.LIVE:
        lagged = _values(past, now, lambda point: point.lags.get(one.name, 0))
        lags = plot(lagged, past, f"Lag of {one.name}", written=lambda value: _lag(timedelta(seconds=value)))
        failed = _values(past, now, lambda point: point.failures.get(one.name, 0))
        if any(value for _, value in failed):
            failures = plot(failed, past, f"Failures of {one.name}")
    return ConsumerView(
        name=one.name,
        state=one.state.value,
        declared=declared,
        since=one.registered_at,
        owed=sample.owed,
        lag=_lag(sample.lag) if sample.owed else "–",
        failed=sample.failed,
        seen=sample.seen,
        looked_at=now.looked_at,
        lags=lags,
        failures=failures,
    )


def _values(
    past: PlotRange, now: Sample, value: Callable[[Point], float | None]
) -> list[tuple[datetime, float | None]]:
    return [(one.at, value(one)) for one in (*past.points, point_of(now))]


def plot(
    values: Sequence[tuple[datetime, float | None]],
    past: PlotRange,
    name: str,
    *,
    written: Callable[[float], str] = lambda value: f"{value:g}",
) -> Plot | None:
    """A line over time, lowest at the bottom, which breaks where nobody looked or nothing answered.

    It begins with the span, or with what is known where that is less. None where not two values are known.
    """
    known = [value for _, value in values if value is not None]
    since = max(values[0][0], past.now - past.span.length)
    if len(known) < 2 or since >= past.now:
        return None
    top = max(*known, 1.0)
    length = past.now - since
    length_label = past.span.label if length + GAP > past.span.length else f"last {duration(length)}"
    runs: list[list[tuple[float, float]]] = []
    before: datetime | None = None
    for at, value in values:
        if value is None:
            before = None
            continue
        x = min(max((at - since) / length, 0.0), 1.0) * WIDTH
        if before is None or at - before > GAP:
            runs.append([])
        runs[-1].append((x, HEIGHT - value / top * HEIGHT))
        before = at
    lines = [" ".join(f"L{x:.1f},{y:.1f}" for x, y in run) for run in runs]
    return Plot(
        line=" ".join(f"M{run[0][0]:.1f},{run[0][1]:.1f} {line}" for run, line in zip(runs, lines, strict=True)),
        under=" ".join(
            f"M{run[0][0]:.1f},{HEIGHT:g} {line} L{run[-1][0]:.1f},{HEIGHT:g}Z"
            for run, line in zip(runs, lines, strict=True)
        ),
        top=written(max(known)) if max(known) else "",
        label=f"{name}: now {_now(values, written)}, highest {written(max(known))} of the {length_label}",
    )


def _now(values: Sequence[tuple[datetime, float | None]], written: Callable[[float], str]) -> str:
    value = values[-1][1]
    return "unknown" if value is None else written(value)


def _aged(number: int | None, oldest: timedelta | None, bad: bool) -> str:
    if number is None:
        return "unavailable"
    if not number:
        return "none" if bad else "empty"
    return f"oldest {_lag(oldest)}" if oldest is not None else "needs attention" if bad else "in progress"


def _lag(length: timedelta) -> str:
    return "under 1s" if length < timedelta(seconds=1) else duration(length)


def dead_letter_view(one: DeadLetter) -> DeadLetterView:
    return DeadLetterView(
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
