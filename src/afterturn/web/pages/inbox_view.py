"""The inbox as a page: rows, filters and links. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from afterturn.channels.outbox import problem_text
from afterturn.clock import to_text
from afterturn.inbox import InboxPage, InboxQuery, InboxRow, TimeWindow
from afterturn.inbox.filters import ANY, BY_NAME, FILTERS, Control, FilterField
from afterturn.inbox.presentation import CHANNEL_LABELS, alerts_of, grade_of, topics_of
from afterturn.inbox.search import SnippetPart
from afterturn.model import UNASSIGNED, Direction, Status
from afterturn.store.pagination import key_of
from afterturn.store.port import RecencyKey
from afterturn.web.pages.query_params import Pairs, address, conversation_path, pairs_of, replaced, without


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
        return tuple(one.name for one in self.reactions if one.state == state)


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
            _group(one, query, page, consumers, {"property": properties})
            for one in FILTERS
            if one.filter.control in _IN_FORM
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
            one.label,
            address("/", replaced(pairs, "window", None if one is TimeWindow.ALL else one.value)),
            one is chosen,
        )
        for one in TimeWindow
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
    return tuple(Link(label, address("/", asked), asked == pairs) for label, asked in views)


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
