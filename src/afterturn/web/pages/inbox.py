"""``/``, the search box, and the event stream of new conversations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, Request
from fastapi.responses import Response

from afterturn.channels.email.addresses import normalise_address
from afterturn.channels.outbox import problem_text
from afterturn.clock import EPOCH, parse_time, to_text
from afterturn.errors import InvalidCursor, InvalidQuery, InvalidRecord, NotFound
from afterturn.ids import normalise
from afterturn.inbox import InboxPage, InboxQuery, InboxRow, TimeWindow
from afterturn.inbox.filters import ANY, BY_FIELD, BY_NAME, FILTERS, Control, FilterField
from afterturn.inbox.presentation import CHANNEL_LABELS, alerts_of, grade_of, topics_of
from afterturn.inbox.search import SnippetPart
from afterturn.model import MAX_ID_CHARS, UNASSIGNED, Direction, Status, parse
from afterturn.store.pagination import key_of
from afterturn.store.port import ConsumerState, RecencyKey
from afterturn.store.tokenizer import MAX_WORDS_CHARS
from afterturn.web.api.common import OpenBackbone, Operator, StoreOfCaller
from afterturn.web.api.scoped_store import ScopedStore
from afterturn.web.pages.rendering import Pairs, address, conversation_path, render
from afterturn.web.pages.routing import PageRoute, redirect
from afterturn.web.pages.sse import event_stream

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_LOOKED_AT = 200
"""Newest index rows that one check for new conversations reads."""
_MOST_ARRIVED = 50

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
    live = [name for name, registration in registrations.items() if registration.state is ConsumerState.LIVE]
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
    """Redirect to the conversation of that id, else to those of that phone number, e-mail address or name, else to a
    full-text search.
    """
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
    if scoped.backbone.searcher is None or await _has_participant(scoped, person, words):
        return redirect("/", ("participant", person or words[:MAX_ID_CHARS]))
    return redirect("/", ("words", words[:MAX_WORDS_CHARS]))


async def _has_participant(scoped: ScopedStore, person: str | None, words: str) -> bool:
    """Whether the inbox has a participant of that address or name; also if the search for an address was cut short."""
    try:
        query = parse(InboxQuery, {"participant": person or words, "limit": 1})
    except InvalidRecord:
        return False
    page = await scoped.page(query, None)
    return bool(page.rows) or (person is not None and not page.complete and page.next_cursor is not None)


@router.get("/live")
async def stream_arrivals(request: Request, scoped: StoreOfCaller) -> Response:
    """Server-sent events: the number of conversations newer than the newest one of a page (``after``, ``id``).

    ``more``: there may be others, which the bounded read did not reach.
    """
    parameters = request.query_params
    try:
        after = RecencyKey(parse_time(parameters.get("after", "")), parameters.get("id", ""))
    except ValueError:
        after = RecencyKey(EPOCH, "")
    query = read_query(pair for pair in parameters.multi_items() if pair[0] not in ("after", "id"))
    query = query.model_copy(
        update={"window": None, "since": after.at, "until": None, "limit": _MOST_ARRIVED, "budget": _LOOKED_AT}
    )

    async def look(scoped: ScopedStore) -> dict[str, object]:
        page = await scoped.page(query, None)
        number = arrived(page.rows, after)
        return {"count": number, "more": number == _MOST_ARRIVED or not page.complete}

    return event_stream(request, look)


PAGE = 50

_PHONE = re.compile(r"[+(]?[0-9][0-9 ().\-/]{4,}\Z")


def read_query(pairs: Iterable[tuple[str, str]], *, limit: int = PAGE) -> InboxQuery:
    """The query of an address. Blank fields select everything. Raises InvalidQuery and InvalidRecord."""
    fields: dict[str, object] = {"limit": limit}
    for name, text in pairs:
        value = text.strip()
        if name not in BY_NAME:
            raise InvalidQuery("the address asks for a filter that does not exist; start again from the inbox")
        declared = BY_NAME[name]
        if not value:
            continue
        if declared.many:
            values = fields.setdefault(declared.field, [])
            assert isinstance(values, list)
            if value not in values:
                values.append(value)
        else:
            fields[declared.field] = value
    try:
        return parse(InboxQuery, fields)
    except InvalidRecord as error:
        field = error.field.partition("[")[0]
        name = BY_FIELD[field].filter.name if field in BY_FIELD else error.field
        raise InvalidRecord(name, error.problem) from None


def pairs_of(query: InboxQuery) -> Pairs:
    """The parameters of a query, in the order of the filters."""
    return tuple(
        (declared.filter.name, _text(value))
        for declared in FILTERS
        for value in declared.values(query)
        if value is not TimeWindow.ALL
    )


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return to_text(value)
    return "1" if value is True else str(value)


def without(pairs: Pairs, *taken: tuple[str, str]) -> Pairs:
    return tuple(pair for pair in pairs if pair not in taken)


def replaced(pairs: Pairs, name: str, value: str | None) -> Pairs:
    """The parameters with one set, or removed."""
    rest = tuple(pair for pair in pairs if pair[0] != name)
    return rest if value is None else ((name, value), *rest)


def address_of_person(words: str, region: str | None = None) -> str | None:
    """The normalized phone number or e-mail address that was typed into the search box, if it is one."""
    words = words.strip()
    if "@" in words and " " not in words:
        return normalise_address(words.removeprefix("mailto:"))
    return normalise(words, region) if _PHONE.match(words) else None


@dataclass(frozen=True, slots=True)
class ReactionView:
    """A consumer with the state of its reaction."""

    name: str
    state: str


@dataclass(frozen=True, slots=True)
class RowView:
    """One conversation. ``waits``: the customer wrote last; ``person``: the first participant's name, or ``address``;
    ``words``: the last message, or the search hit; ``unsent``: the problem of our last message, if it was not sent.
    """

    id: str
    href: str
    channel: str
    channel_name: str
    person: str
    address: str
    others: int
    property: str | None
    assignee: str | None
    at: datetime
    speaker: str
    words: tuple[SnippetPart, ...]
    waits: bool
    closed: bool
    synthetic: bool
    topics: tuple[str, ...]
    grade: str | None
    alerts: tuple[str, ...]
    reactions: tuple[ReactionView, ...]
    unsent: str | None

    def names(self, state: str) -> tuple[str, ...]:
        """The consumers in a state."""
        return tuple(reaction.name for reaction in self.reactions if reaction.state == state)


@dataclass(frozen=True, slots=True)
class Link:
    label: str
    href: str
    current: bool = False


@dataclass(frozen=True, slots=True)
class FilterOption:
    value: str
    label: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class FilterGroup:
    """A filter on the page; ``suggestions``: for a text field beside its options."""

    name: str
    label: str
    control: Control
    options: tuple[FilterOption, ...]
    suggestions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InboxView:
    """``older``: the next page; ``incomplete``: the read budget ended the page; ``live``: the event stream of new
    conversations; ``somebody``: a search for the same words as a name; ``searches``: messages can be searched.
    """

    rows: tuple[RowView, ...]
    groups: tuple[FilterGroup, ...]
    windows: tuple[Link, ...]
    views: tuple[Link, ...]
    chosen: tuple[Link, ...]
    older: str | None
    newest: str | None
    incomplete: bool
    scanned: int
    live: str | None
    here: str
    window: str
    participant: str
    words: str
    somebody: str | None
    searches: bool
    filters: int
    """How many are on, beside the window."""

    @property
    def filtered(self) -> bool:
        return self.filters > 0


def reactions_of(row: InboxRow) -> tuple[ReactionView, ...]:
    return tuple(ReactionView(name, state.value) for name, state in row.states.items())


def row_view(row: InboxRow) -> RowView:
    conversation = row.conversation
    people = conversation.participants
    address = people[0] if people else conversation.id
    preview = conversation.preview
    problem = None if preview is None else preview.send_problem
    return RowView(
        id=conversation.id,
        href=conversation_path(conversation.id),
        channel=conversation.channel.value,
        channel_name=CHANNEL_LABELS[conversation.channel],
        person=conversation.contact_name if conversation.contact_name and people else address,
        address=address,
        others=max(len(people) - 1, 0),
        property=conversation.property_id,
        assignee=conversation.assignee,
        at=conversation.recency,
        speaker="" if row.role is None else row.role.value,
        words=(SnippetPart(row.text),) if row.hit is None else row.hit.snippet,
        waits=preview is not None and preview.direction is Direction.INBOUND and conversation.status is Status.OPEN,
        closed=conversation.status is Status.CLOSED,
        synthetic=conversation.synthetic or conversation.gauntlet,
        topics=topics_of(row),
        grade=grade_of(row),
        alerts=alerts_of(row),
        reactions=reactions_of(row),
        unsent=None if problem is None else problem_text(problem),
    )


def inbox_view(
    query: InboxQuery,
    page: InboxPage,
    *,
    consumers: Sequence[str],
    properties: Iterable[str] = (),
    paged: bool,
    searches: bool,
    now: datetime,
) -> InboxView:
    """``properties``: suggestions, such as the caller's own; ``paged``: not the first page."""
    pairs = pairs_of(query)
    here = address("/", pairs)
    return InboxView(
        rows=tuple(row_view(row) for row in page.rows),
        groups=tuple(
            _group(declared, query, page, consumers, {"property": properties})
            for declared in FILTERS
            if declared.filter.control in _IN_FORM
        ),
        windows=_windows(query, pairs),
        views=_views(pairs),
        chosen=tuple(Link(BY_NAME[pair[0]].filter.text(pair[1]), address("/", without(pairs, pair))) for pair in pairs),
        older=None if page.next_cursor is None else address("/", (*pairs, ("cursor", page.next_cursor))),
        newest=here if paged else None,
        incomplete=not page.complete and page.next_cursor is not None,
        scanned=page.scanned,
        live=None if paged else address("/live", (*pairs, *_after(page, now))),
        here=here,
        window=(query.window or TimeWindow.ALL).value,
        participant=query.participant or "",
        words=query.words or "",
        somebody=address("/", (("participant", query.words),)) if query.words else None,
        searches=searches,
        filters=len(replaced(pairs, "window", None)),
    )


def arrived(rows: Iterable[InboxRow], after: RecencyKey) -> int:
    """The number of rows that are newer than the newest one on the page."""
    return sum(key_of(row.conversation) > after for row in rows)


def _after(page: InboxPage, now: datetime) -> Pairs:
    if not page.rows:
        return (("after", to_text(now)),)
    top = key_of(page.rows[0].conversation)
    return (("after", to_text(top.at)), ("id", top.conversation_id))


def _windows(query: InboxQuery, pairs: Pairs) -> tuple[Link, ...]:
    chosen = query.window or TimeWindow.ALL
    return tuple(
        Link(
            window.label,
            address("/", replaced(pairs, "window", None if window is TimeWindow.ALL else window.value)),
            window is chosen,
        )
        for window in TimeWindow
    )


def _views(pairs: Pairs) -> tuple[Link, ...]:
    views: tuple[tuple[str, Pairs], ...] = (
        ("Everything", ()),
        ("Today", (("window", "24h"),)),
        ("Open", (("status", "open"),)),
        ("Unassigned", (("property", UNASSIGNED),)),
        ("Repairs", (("topic", "maintenance"),)),
        ("Poor answers", (("grade", "D"), ("grade", "F"))),
        ("Owed", (("owed", "any"),)),
        ("Failed", (("failed", "any"),)),
        ("Closed", (("status", "closed"),)),
    )
    return tuple(Link(label, address("/", filters), filters == pairs) for label, filters in views)


_IN_FORM = (Control.CHECKBOXES, Control.CHECKBOXES_AND_TEXT, Control.TEXT, Control.RADIO, Control.TOGGLE)


def _group(
    declared: FilterField,
    query: InboxQuery,
    page: InboxPage,
    consumers: Sequence[str],
    known: Mapping[str, Iterable[str]],
) -> FilterGroup:
    about = declared.filter
    chosen = tuple("1" if value is True else str(value) for value in declared.values(query))
    on_page = {value for row in page.rows for value in about.values(row)} if about.values else set()
    choices = about.choices or sorted({*on_page, *known.get(about.name, ())})
    suggestions: tuple[str, ...] = ()
    match about.control:
        case Control.TEXT:
            values, suggestions = chosen, tuple(choices)
        case Control.TOGGLE:
            values = ("1",)
        case _ if about.by_consumer:
            values = (ANY, *consumers)
        case _:
            values = tuple(dict.fromkeys([*choices, *chosen]))
    options = tuple(FilterOption(value, about.labels.get(value, value), value in chosen) for value in values)
    return FilterGroup(about.name, about.label, about.control, options, suggestions)
