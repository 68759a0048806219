"""``/``, the search box, and the event stream of new conversations."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from afterturn.clock import EPOCH, parse_time
from afterturn.errors import AfterturnError, InvalidCursor, InvalidRecord, NotFound
from afterturn.inbox import InboxQuery
from afterturn.model import MAX_ID_CHARS, UNASSIGNED, parse
from afterturn.store.port import ConsumerState, RecencyKey
from afterturn.store.tokenizer import MAX_WORDS_CHARS
from afterturn.web.access import AccessControl
from afterturn.web.api.common import OpenBackbone, Operator, StoreOfCaller
from afterturn.web.api.scoped_store import ScopedStore
from afterturn.web.pages.inbox_view import arrived, inbox_view
from afterturn.web.pages.query_params import address_of_person, conversation_path, read_query
from afterturn.web.pages.rendering import HEADERS, render
from afterturn.web.pages.routing import PageRoute, redirect
from afterturn.web.pages.sse import EventStreams

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_LOOKED_AT = 200
"""Newest index rows that one check for new conversations reads."""
_MOST_ARRIVED = 50

Look = Callable[[ScopedStore], Awaitable[dict[str, object]]]
"""Reads what a page is sent, within the caller's scope: numbers and states only."""

_CURSOR_GONE = "This page belongs to another address, or its address was cut off. Start again from the newest."


@router.get("/")
async def show_inbox(request: Request, scoped: StoreOfCaller, backbone: OpenBackbone, caller: Operator) -> Response:
    """A page of the inbox."""
    pairs = request.query_params.multi_items()
    cursor = request.query_params.get("cursor")
    query = read_query(pair for pair in pairs if pair[0] != "cursor")
    try:
        page = await scoped.page(query, cursor)
    except InvalidCursor:
        raise InvalidCursor(_CURSOR_GONE) from None
    registrations = await backbone.inbox.registrations()
    live = [name for name, one in registrations.items() if one.state is ConsumerState.LIVE]
    view = inbox_view(
        query,
        page,
        consumers=live,
        properties=caller.scope.properties or (UNASSIGNED,),
        paged=cursor is not None,
        searches=backbone.searcher is not None,
        now=backbone.clock(),
    )
    return render(request, "inbox.html", view=view)


@router.get("/search")
async def search(scoped: StoreOfCaller, q: str = "") -> Response:
    """To the conversation of that id, else to those with that phone number, e-mail address or name, else to those in
    which these words were said."""
    words = q.strip()
    if not words:
        return redirect("/")
    person = address_of_person(words, scoped.backbone.settings.phone_region)
    if person is None:
        try:
            row = await scoped.row(words)
        except NotFound:
            pass
        else:
            return redirect(conversation_path(row.conversation.id))
    if scoped.backbone.searcher is None or await _is_somebody(scoped, person, words):
        return redirect("/", ("participant", person or words[:MAX_ID_CHARS]))
    return redirect("/", ("words", words[:MAX_WORDS_CHARS]))


async def _is_somebody(scoped: ScopedStore, person: str | None, words: str) -> bool:
    """Whether somebody of that address or name is in the inbox; an address that was not looked for to the end is."""
    try:
        query = parse(InboxQuery, {"participant": person or words, "limit": 1})
    except InvalidRecord:
        return False
    page = await scoped.page(query, None)
    return bool(page.rows) or (person is not None and not page.complete and page.next_cursor is not None)


@router.get("/live")
async def tell_arrivals(request: Request, scoped: StoreOfCaller) -> Response:
    """Server-sent events: how many conversations stand above the newest one of a page (``after``, ``id``).

    ``more``: there may be others, since so much came in that a look does not get through it.
    """
    given = request.query_params
    try:
        after = RecencyKey(parse_time(given.get("after", "")), given.get("id", ""))
    except ValueError:
        after = RecencyKey(EPOCH, "")
    query = read_query(pair for pair in given.multi_items() if pair[0] not in ("after", "id"))
    query = query.model_copy(
        update={"window": None, "since": after.at, "until": None, "limit": _MOST_ARRIVED, "budget": _LOOKED_AT}
    )

    async def look(scoped: ScopedStore) -> dict[str, object]:
        page = await scoped.page(query, None)
        found = arrived(page.rows, after)
        return {"count": found, "more": found == _MOST_ARRIVED or not page.complete}

    return StreamingResponse(
        events(request, look), media_type="text/event-stream", headers={**HEADERS, "x-accel-buffering": "no"}
    )


async def events(request: Request, look: Look) -> AsyncIterator[str]:
    """What ``look`` finds, whenever it changes, until the session or the server ends.

    A look costs the same whatever the fleet, and each one asks again what the caller may see.
    """
    access: AccessControl = request.app.state.access
    live: EventStreams = request.app.state.live
    sent: dict[str, object] | None = None
    yield f"retry: {int(live.every * 2_000)}\n\n"
    for _ in range(live.looks):
        caller = access.caller(request.headers)
        if caller is None:
            yield "event: over\ndata: {}\n\n"
            return
        try:
            found = await look(ScopedStore(request.app.state.backbone, caller.scope))
        except AfterturnError:  # the store may be back at the next look
            found = sent or {}
        if found != sent:
            sent = found
            yield f"data: {json.dumps(found)}\n\n"
        elif sent is not None:
            yield ": still here\n\n"
        if await live.pause():
            return
