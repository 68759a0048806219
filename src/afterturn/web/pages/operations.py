"""``/operations``: stages, consumers, failed reactions, dead letters and owed reactions. For on-call and admins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fastapi import APIRouter, Request
from fastapi.responses import Response

from afterturn.backbone import Backbone
from afterturn.errors import InvalidQuery
from afterturn.inbox import TimeWindow
from afterturn.inbox.presentation import count, duration
from afterturn.ledger.ledger import OwedState, Selection
from afterturn.model import parse
from afterturn.store.port import ConsumerState, Registration
from afterturn.web.api import reactions, stream
from afterturn.web.api.common import Admin, OnCall, OpenBackbone
from afterturn.web.pages.history import (
    GAP,
    ConsumerSample,
    History,
    Point,
    Sample,
    Span,
    or_none,
    point_of,
    take_sample,
)
from afterturn.web.pages.inbox import Link
from afterturn.web.pages.rendering import address, render
from afterturn.web.pages.routing import FormData, PageRoute, redirect

PATH = "/operations"

router = APIRouter(prefix=PATH, route_class=PageRoute, include_in_schema=False)

_SHOWN = 50

_NOUNS = {
    "redriven": "dead letter",
    "retried": "reaction",
    "emitted": "reaction",
}
_MESSAGES = {
    "redriven": "{} sent to the stream again.",
    "retried": "{} will run again.",
    "emitted": "{} re-emitted.",
}
_CHANGED = {
    "promoted": (ConsumerState.LIVE, "{} is live: its stamps are shown, and it owes every new turn."),
    "retired": (ConsumerState.RETIRED, "{} is retired: it owes no reactions; its stamps stay."),
}


@router.get("")
async def show_operations(
    request: Request,
    caller: OnCall,
    backbone: OpenBackbone,
    owed: str = "24h",
    plots: str = "1h",
    done: str = "",
    n: str = "",
    name: str = "",
) -> Response:
    """The page. ``owed``: the window of the audit; everything else costs the same for any number of conversations.

    ``plots``: the span of the plots. ``done``: the action just taken, on ``n`` entries or on the consumer ``name``.
    """
    now = await take_sample(backbone)
    past = _past(request, now.at, plots)
    dead_letters = await or_none(backbone.stream.dead_letters(limit=_SHOWN + 1))
    failures = await backbone.store.failures(limit=_SHOWN + 1)
    window = _window(owed)
    audit = await backbone.ledger.audit(_selection(backbone, window), grace=backbone.settings.grace)
    registered = await backbone.store.registrations()
    overdue = [reaction for reaction in audit.reactions if reaction.state is OwedState.OVERDUE]
    return render(
        request,
        "operations.html",
        stages=stages(now, past),
        consumers=consumers(now, past, registered, backbone.registry.signalled),
        here=address(PATH, [("owed", window.value), ("plots", past.span.value)]),
        spans=_links(Span, past.span, owed=window.value),
        dead_letters=None if dead_letters is None else dead_letters[:_SHOWN],
        more_dead_letters=dead_letters is not None and len(dead_letters) > _SHOWN,
        failures=failures[:_SHOWN],
        more_failures=len(failures) > _SHOWN,
        reactions=(*overdue, *audit.waiting)[:_SHOWN],
        audit=audit,
        window=window,
        windows=_links(TimeWindow, window, plots=past.span.value),
        running=request.app.state.replays.running,
        message=_count_message(done, n) or _consumer_message(done, name, registered),
    )


@router.get("/stages")
async def show_stages(request: Request, caller: OnCall, backbone: OpenBackbone, plots: str = "1h") -> Response:
    """The stages only, to refresh an open page."""
    now = await take_sample(backbone)
    return render(request, "stages.html", only_stages=stages(now, _past(request, now.at, plots)))


@router.post("/redrive")
async def redrive(caller: OnCall, backbone: OpenBackbone, form: FormData) -> Response:
    """Redrive dead letters; turns that were handled since are not handled twice."""
    body = parse(stream.RedriveBody, {"ids": form.getlist("id"), "all": form.get("all", "") == "1"})
    known = {dead_letter.id for dead_letter in await backbone.stream.dead_letters(limit=1_000_000)}
    # A missing letter was redriven already, for example by a second click.
    ids = (
        [dead_letter_id for dead_letter_id in dict.fromkeys(body.ids) if dead_letter_id in known]
        if body.ids
        else sorted(known)
    )
    return _done("redriven", await backbone.stream.redrive(ids) if ids else 0)


@router.post("/retry")
async def retry(caller: OnCall, backbone: OpenBackbone, form: FormData) -> Response:
    """Retry failed reactions."""
    conversation_id, consumer = form.get("conversation", ""), form.get("consumer", "")
    everything = form.get("all", "") == "1"
    if not everything and not (conversation_id and consumer):
        raise InvalidQuery("Choose a failed reaction first.")
    chosen = [
        failure
        for failure in await backbone.store.failures(limit=1_000_000)
        if everything or (failure.conversation_id == conversation_id and failure.consumer == consumer)
    ]
    return _done("retried", len(await reactions.retry_failures(backbone, chosen)))


@router.post("/emit")
async def emit(caller: OnCall, backbone: OpenBackbone, form: FormData) -> Response:
    """Re-emit every reaction of the window that is overdue or waiting."""
    window = _window(form.get("owed", "") or "24h")
    part = _selection(backbone, window)
    caught = await backbone.ledger.sweep(part, grace=timedelta(0), everything=True)
    return _done("emitted", len(caught), ("owed", window.value))


@router.post("/consumers")
async def change_consumer(caller: Admin, backbone: OpenBackbone, form: FormData) -> Response:
    """Promote a consumer, or retire it."""
    promoting, name = form.get("do", "") == "promote", form.get("name", "")
    change = reactions.promote if promoting else reactions.retire
    await change(caller, backbone, name)
    return redirect(PATH, ("done", "promoted" if promoting else "retired"), ("name", name))


def _done(what: str, number: int, *more: tuple[str, str]) -> Response:
    return redirect(PATH, ("done", what), ("n", str(number)), *more)


def _count_message(done: str, n: str) -> str | None:
    if done not in _NOUNS or not (n.isascii() and n.isdigit() and len(n) < 9):
        return None
    return _MESSAGES[done].format(count(int(n), _NOUNS[done]))


def _consumer_message(done: str, name: str, registered: Mapping[str, Registration]) -> str | None:
    """The message, only if it is true: anybody can write an address."""
    state, words = _CHANGED.get(done, (None, ""))
    return words.format(name) if name in registered and registered[name].state is state else None


def _window(text: str) -> TimeWindow:
    try:
        return TimeWindow(text)
    except ValueError:
        raise InvalidQuery("The ledger can be read over 24h, 7d, 30d, 90d or all.") from None


def _past(request: Request, now: datetime, plots: str) -> PlotRange:
    try:
        span = Span(plots)
    except ValueError:
        raise InvalidQuery("Plots go back 1h or 24h.") from None
    history: History = request.app.state.history
    return PlotRange(span, now, history.over(span, now))


def _links(choices: type[TimeWindow] | type[Span], chosen: TimeWindow | Span, **kept: str) -> tuple[Link, ...]:
    """A link to the page for each choice; other parameters stay."""
    name = "owed" if choices is TimeWindow else "plots"
    return tuple(
        Link(
            choice.label if isinstance(choice, Span) else "all time" if choice is TimeWindow.ALL else choice.value,
            address(PATH, [*kept.items(), (name, choice.value)]),
            choice is chosen,
        )
        for choice in choices
    )


def _selection(backbone: Backbone, window: TimeWindow) -> Selection:
    return Selection(since=None if window.length is None else backbone.clock() - window.length)


WIDTH, HEIGHT = 120.0, 24.0


@dataclass(frozen=True, slots=True)
class Plot:
    """A line as SVG paths in a box of 120 by 24, the area under it, and a label in words.

    ``top``: the highest value; empty if it is 0.
    """

    line: str
    under: str
    top: str
    label: str


@dataclass(frozen=True, slots=True)
class PlotRange:
    """The plotted points, oldest first, and their time range."""

    span: Span
    now: datetime
    points: tuple[Point, ...] = ()


@dataclass(frozen=True, slots=True)
class StageView:
    """``number``: None if the stage is unavailable."""

    key: str
    name: str
    number: int | None
    age: str
    bad: bool
    plot: Plot | None


@dataclass(frozen=True, slots=True)
class ConsumerView:
    """``seen`` of ``looked_at``: its progress with the newest conversations."""

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


def stages(now: Sample, past: PlotRange) -> tuple[StageView, ...]:
    """The stages of a record, in order."""

    def stage(name: str, key: str, number: int | None, oldest: datetime | None, bad: bool = False) -> StageView:
        return StageView(
            key=key,
            name=name,
            number=number,
            age=_aged(number, None if oldest is None else now.at - oldest, bad),
            bad=number is None or (bad and number > 0),
            plot=plot(_values(past, now, lambda point: point.stages.get(key)), past, name),
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
    """Every registered consumer, also the retired."""
    return tuple(_consumer(registration, now, past, name in declared) for name, registration in registrations.items())


def _consumer(registration: Registration, now: Sample, past: PlotRange, declared: bool) -> ConsumerView:
    sample = now.consumers.get(registration.name, ConsumerSample())
    lags = failures = None
    if registration.state is ConsumerState.LIVE:
        lagged = _values(past, now, lambda point: point.lags.get(registration.name, 0))
        lags = plot(lagged, past, f"Lag of {registration.name}", written=lambda value: _lag(timedelta(seconds=value)))
        failed = _values(past, now, lambda point: point.failures.get(registration.name, 0))
        if any(value for _, value in failed):
            failures = plot(failed, past, f"Failures of {registration.name}")
    return ConsumerView(
        name=registration.name,
        state=registration.state.value,
        declared=declared,
        since=registration.registered_at,
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
    return [(point.at, value(point)) for point in (*past.points, point_of(now))]


def plot(
    values: Sequence[tuple[datetime, float | None]],
    past: PlotRange,
    name: str,
    *,
    written: Callable[[float], str] = lambda value: f"{value:g}",
) -> Plot | None:
    """A line over time; it breaks where samples are missing.

    It begins with the span, or with the first value if that is later. None if fewer than two values are known.
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
