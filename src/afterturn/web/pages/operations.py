"""``/operations``: stages, consumers, failed reactions, dead letters and debts. For on-call and admins."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from fastapi import APIRouter, Request
from fastapi.responses import Response

from afterturn.backbone import Backbone
from afterturn.errors import InvalidQuery, NotFound
from afterturn.inbox import TimeWindow
from afterturn.inbox.presentation import count
from afterturn.ledger.debts import DebtState
from afterturn.ledger.ledger import Selection
from afterturn.model import parse
from afterturn.store.port import ConsumerState, Registration
from afterturn.web.api import reactions, stream
from afterturn.web.api.common import Admin, OnCall, OpenBackbone
from afterturn.web.pages.history import History, Span
from afterturn.web.pages.inbox_view import Link
from afterturn.web.pages.operations_view import PlotRange, consumers, dead_letter_view, debt_view, failure_view, stages
from afterturn.web.pages.query_params import address
from afterturn.web.pages.rendering import render
from afterturn.web.pages.routing import FormData, PageRoute, redirect
from afterturn.web.pages.stats import or_none, take_sample

PATH = "/operations"

router = APIRouter(prefix=PATH, route_class=PageRoute, include_in_schema=False)

_SHOWN = 50

_DONE = {
    "redriven": "dead letter",
    "retried": "reaction",
    "emitted": "reaction",
}
_SAID = {
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
    letters = await or_none(backbone.stream.dead_letters(limit=_SHOWN + 1))
    failures = await backbone.store.failures(limit=_SHOWN + 1)
    window = _window(owed)
    audit = await backbone.ledger.audit(_selection(backbone, window), grace=backbone.settings.grace)
    registered = await backbone.store.registrations()
    overdue = [one for one in audit.debts if one.state is DebtState.OVERDUE]
    return render(
        request,
        "operations.html",
        stages=stages(now, past),
        consumers=consumers(now, past, registered, backbone.registry.signalled),
        here=address(PATH, [("owed", window.value), ("plots", past.span.value)]),
        spans=_links(Span, past.span, owed=window.value),
        letters=None if letters is None else [dead_letter_view(one) for one in letters[:_SHOWN]],
        more_letters=letters is not None and len(letters) > _SHOWN,
        failures=[failure_view(one) for one in failures[:_SHOWN]],
        more_failures=len(failures) > _SHOWN,
        debts=[debt_view(one) for one in (*overdue, *audit.waiting)[:_SHOWN]],
        audit=audit,
        window=window,
        windows=_links(TimeWindow, window, plots=past.span.value),
        running=request.app.state.replays.running,
        said=_said(done, n) or _said_of(done, name, registered),
    )


@router.get("/stages")
async def show_stages(request: Request, caller: OnCall, backbone: OpenBackbone, plots: str = "1h") -> Response:
    """The stages alone, for a page that is open."""
    now = await take_sample(backbone)
    return render(request, "stages.html", only_stages=stages(now, _past(request, now.at, plots)))


@router.post("/redrive")
async def redrive(caller: OnCall, backbone: OpenBackbone, form: FormData) -> Response:
    """Redrive dead letters; turns that were handled since are not handled twice."""
    given = parse(stream.RedriveBody, {"ids": form.all("id"), "all": form.one("all") == "1"})
    known = {one.id for one in await backbone.stream.dead_letters(limit=1_000_000)}
    # A missing one was redriven by somebody else, or by a second click.
    ids = [one for one in dict.fromkeys(given.ids) if one in known] if given.ids else sorted(known)
    return _done("redriven", await backbone.stream.redrive(ids) if ids else 0)


@router.post("/retry")
async def retry(caller: OnCall, backbone: OpenBackbone, form: FormData) -> Response:
    """Retry failed reactions."""
    conversation_id, consumer = form.one("conversation"), form.one("consumer")
    everything = form.one("all") == "1"
    if not everything and not (conversation_id and consumer):
        raise InvalidQuery("Choose a failed reaction first.")
    chosen = [
        one
        for one in await backbone.store.failures(limit=1_000_000)
        if everything or (one.conversation_id == conversation_id and one.consumer == consumer)
    ]
    retried = 0
    for one in chosen:
        with suppress(NotFound):  # somebody else was quicker
            await backbone.engine.retry(one.consumer, one.conversation_id)
            retried += 1
    return _done("retried", retried)


@router.post("/emit")
async def emit(caller: OnCall, backbone: OpenBackbone, form: FormData) -> Response:
    """Re-emit every reaction of the window that is overdue or waiting."""
    window = _window(form.one("owed") or "24h")
    part = _selection(backbone, window)
    caught = await backbone.ledger.sweep(part, grace=timedelta(0), everything=True)
    return _done("emitted", len(caught), ("owed", window.value))


@router.post("/consumers")
async def change_consumer(caller: Admin, backbone: OpenBackbone, form: FormData) -> Response:
    """Promote a consumer, or retire it."""
    promoting, name = form.one("do") == "promote", form.one("name")
    change = reactions.promote if promoting else reactions.retire
    await change(caller, backbone, name)
    return redirect(PATH, ("done", "promoted" if promoting else "retired"), ("name", name))


def _done(what: str, number: int, *more: tuple[str, str]) -> Response:
    return redirect(PATH, ("done", what), ("n", str(number)), *more)


def _said(done: str, n: str) -> str | None:
    if done not in _DONE or not (n.isascii() and n.isdigit() and len(n) < 9):
        return None
    return _SAID[done].format(count(int(n), _DONE[done]))


def _said_of(done: str, name: str, registered: Mapping[str, Registration]) -> str | None:
    """Only if it is true: an address may come from anywhere."""
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
    """A link to the page with each choice; the other one stays as it is."""
    name = "owed" if choices is TimeWindow else "plots"
    return tuple(
        Link(
            one.label if isinstance(one, Span) else "all time" if one is TimeWindow.ALL else one.value,
            address(PATH, [*kept.items(), (name, one.value)]),
            one is chosen,
        )
        for one in choices
    )


def _selection(backbone: Backbone, window: TimeWindow) -> Selection:
    return Selection(since=None if window.length is None else backbone.clock() - window.length)
