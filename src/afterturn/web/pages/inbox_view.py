"""The inbox as a page: rows, filters and links. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from afterturn.channels.delivery_status import problem_text
from afterturn.clock import to_text
from afterturn.inbox import InboxQuery, Page, Row, Window
from afterturn.inbox.search import Piece
from afterturn.model import UNASSIGNED, Channel, Direction, Status
from afterturn.reactions.state import ReactionState
from afterturn.store.pagination import key_of
from afterturn.store.port import RecencyKey
from afterturn.web.pages.format import CHANNELS, address, conversation_path
from afterturn.web.pages.query_params import Pairs, options, pairs_of, replaced, told, without

GRADES = ("A", "B", "C", "D", "F")


@dataclass(frozen=True, slots=True)
class ReactionView:
    """A consumer and how far it is, for the pips of a row."""

    name: str
    state: str


@dataclass(frozen=True, slots=True)
class RowView:
    """One conversation. ``waits``: the customer spoke last; ``person``: whoever it is with, by name where one is known,
    and their ``address``; ``words``: what was said last, or where the words that are looked for stand; ``unsent``: what
    became of our last answer, where a person has to see to it."""

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
    words: tuple[Piece, ...]
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
    """A filter: what can be ticked. ``free``: anything may be typed beside it, with these suggestions."""

    name: str
    label: str
    options: tuple[FilterOption, ...]
    free: bool = False
    suggested: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InboxView:
    """``older``: the next page; ``incomplete``: that it was cut short; ``live``: where arrivals are told; ``somebody``:
    the same words as a name; ``searches``: whether words of messages are searched here."""

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
    synthetic: bool
    filters: int
    """How many are on, beside the window."""

    @property
    def filtered(self) -> bool:
        return self.filters > 0


def topics_of(row: Row) -> tuple[str, ...]:
    """What the topics consumer stamped."""
    topics = row.stamp("topics").get("topics")
    return tuple(str(topic) for topic in topics) if isinstance(topics, list) else ()


def grade_of(row: Row) -> str | None:
    """What the grade consumer stamped."""
    grade = row.stamp("grade").get("grade")
    return grade if isinstance(grade, str) else None


def alerts_of(row: Row) -> tuple[str, ...]:
    """The kinds of emergencies that the maintenance consumer has seen."""
    alerts = row.stamp("maintenance").get("alerts")
    return tuple(str(kind) for kind in alerts) if isinstance(alerts, list) else ()


def reactions_of(row: Row) -> tuple[ReactionView, ...]:
    return tuple(ReactionView(name, state.value) for name, state in row.states.items())


def row_view(row: Row) -> RowView:
    conversation = row.conversation
    people = conversation.participants
    address = people[0] if people else conversation.id
    preview = conversation.preview
    problem = None if preview is None else preview.send_problem
    return RowView(
        id=conversation.id,
        href=conversation_path(conversation.id),
        channel=conversation.channel.value,
        channel_name=CHANNELS[conversation.channel],
        person=conversation.contact_name if conversation.contact_name and people else address,
        address=address,
        others=max(len(people) - 1, 0),
        property=conversation.property_id,
        assignee=conversation.assignee,
        at=conversation.recency,
        speaker="" if row.role is None else row.role.value,
        words=(Piece(row.text),) if row.hit is None else row.hit.snippet,
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
    page: Page,
    *,
    consumers: Sequence[str],
    properties: Iterable[str] = (),
    paged: bool,
    searches: bool,
    now: datetime,
) -> InboxView:
    """``properties``: those that are known anyhow, such as the caller's own; ``paged``: not the first page."""
    pairs = pairs_of(query)
    here = address("/", pairs)
    return InboxView(
        rows=tuple(row_view(row) for row in page.rows),
        groups=_groups(query, page, consumers, properties),
        windows=_windows(query, pairs),
        views=_views(pairs),
        chosen=tuple(Link(told(*pair), address("/", without(pairs, pair))) for pair in pairs),
        older=None if page.next_cursor is None else address("/", (*pairs, ("cursor", page.next_cursor))),
        newest=here if paged else None,
        incomplete=not page.complete and page.next_cursor is not None,
        scanned=page.scanned,
        live=None if paged else address("/live", (*pairs, *_after(page, now))),
        here=here,
        window=(query.window or Window.ALL).value,
        participant=query.participant or "",
        words=query.words or "",
        somebody=address("/", (("participant", query.words),)) if query.words else None,
        searches=searches,
        synthetic=query.include_synthetic,
        filters=len(replaced(pairs, "window", None)),
    )


def arrived(rows: Iterable[Row], after: RecencyKey) -> int:
    """How many rows stand above what a person has on the screen."""
    return sum(key_of(row.conversation) > after for row in rows)


def _after(page: Page, now: datetime) -> Pairs:
    if not page.rows:
        return (("after", to_text(now)),)
    top = key_of(page.rows[0].conversation)
    return (("after", to_text(top.at)), ("id", top.conversation_id))


def _windows(query: InboxQuery, pairs: Pairs) -> tuple[Link, ...]:
    chosen = query.window or Window.ALL
    return tuple(
        Link(
            "All time" if one is Window.ALL else one.value,
            address("/", replaced(pairs, "window", None if one is Window.ALL else one.value)),
            one is chosen,
        )
        for one in Window
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


def _groups(
    query: InboxQuery, page: Page, consumers: Sequence[str], properties: Iterable[str]
) -> tuple[FilterGroup, ...]:
    conversations = [row.conversation for row in page.rows]
    seen = {one.property_id or UNASSIGNED for one in conversations} | set(properties)
    topics = {topic for row in page.rows for topic in topics_of(row)}
    types = {one.type for one in conversations}
    owing = [ReactionState.OWED.value, ReactionState.FAILED.value]
    return (
        _group("property", "Property", options((), query.properties), query.properties, suggested=tuple(sorted(seen))),
        _group("channel", "Channel", tuple(Channel), query.channels),
        _group("topic", "Topic", options(topics, query.topics), query.topics, suggested=()),
        _group("type", "Type", options(types, query.types), query.types),
        _group("grade", "Grade", options(GRADES, query.grades), query.grades),
        *(
            _group(name, name.capitalize(), ("any", *consumers), query.owed if name == "owed" else query.failed)
            for name in owing
        ),
        _group("status", "Status", tuple(Status), () if query.status is None else (query.status,)),
    )


def _group(
    name: str,
    label: str,
    values: Sequence[str],
    chosen: Sequence[str],
    *,
    suggested: tuple[str, ...] | None = None,
) -> FilterGroup:
    found = tuple(FilterOption(str(value), _label(name, str(value)), value in chosen) for value in values)
    return FilterGroup(name, label, found, free=suggested is not None, suggested=suggested or ())


def _label(name: str, value: str) -> str:
    return value if name in ("owed", "failed", "topic", "type", "grade", "property") else told(name, value)
