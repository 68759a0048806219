"""The filters of the inbox. Each is declared once: a field of :class:`Filters` with a :class:`Filter`.

The query's field, the HTTP parameter and its documentation, the option of ``afterturn inbox``, the control on the page,
the text of an active filter and the test that a row has to pass all follow from that line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any, Self, get_args, get_origin

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from afterturn.clock import parse_time_or_date
from afterturn.inbox.page import InboxRow
from afterturn.inbox.presentation import CHANNEL_LABELS, consumers_in, grade_of, topics_of
from afterturn.model import UNASSIGNED, Channel, Id, Label, Record, Status, Time
from afterturn.reactions.state import ReactionState
from afterturn.store.tokenizer import MAX_WORDS_CHARS


class TimeWindow(StrEnum):
    """How far back the inbox looks from now."""

    DAY = "24h"
    WEEK = "7d"
    MONTH = "30d"
    QUARTER = "90d"
    ALL = "all"

    @property
    def length(self) -> timedelta | None:
        """None: without end."""
        return _LENGTHS[self]

    @property
    def label(self) -> str:
        return "All time" if self is TimeWindow.ALL else self.value


_LENGTHS: dict[TimeWindow, timedelta | None] = {
    TimeWindow.DAY: timedelta(hours=24),
    TimeWindow.WEEK: timedelta(days=7),
    TimeWindow.MONTH: timedelta(days=30),
    TimeWindow.QUARTER: timedelta(days=90),
    TimeWindow.ALL: None,
}

_NOT_IN_WORDS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def _line(words: object) -> object:
    """In one line, without what no encoding can hold: that is no part of any word."""
    return " ".join(_NOT_IN_WORDS.sub(" ", words).split()) if isinstance(words, str) else words


Words = Annotated[str, BeforeValidator(_line), Field(max_length=MAX_WORDS_CHARS)]
"""Words to search messages for, as they are typed."""

Grade = Annotated[str, Field(pattern=r"^[A-DFa-df]$"), AfterValidator(str.upper)]
"""A letter of the grade consumer, in either case."""

Moment = Annotated[Time, BeforeValidator(lambda value: parse_time_or_date(value) if isinstance(value, str) else value)]
"""A time with an offset, or a date."""

ANY = "any"
"""In place of a consumer's name: every consumer."""


class Control(StrEnum):
    """How the page offers a filter."""

    CHECKBOXES = "checkboxes"
    CHECKBOXES_AND_TEXT = "checkboxes-and-text"
    TEXT = "text"
    """A text field with suggestions, and checkboxes for the values that are chosen."""
    RADIO = "radio"
    TOGGLE = "toggle"
    LINKS = "links"
    SEARCH = "search"
    """Set by the search box."""
    NONE = "none"


Values = Callable[[InboxRow], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter.

    Args:
        name: The HTTP parameter, the page's parameter, and the option (``--name``, with dashes for underscores).
        help: What it selects, as a sentence.
        label: Its name on the page.
        metavar: The value in the command's help.
        control: How the page offers it.
        values: What a row has; a row passes if one of these is among the values of the filter. None: the filter is
            part of the read itself.
        choices: The values that there are; empty if they are those of the rows that are shown.
        by_consumer: The values are names of consumers, or ``any``.
        hides: Rows that are left out unless the filter is set.
        chip: An active filter in words, with ``{}`` for its value.
        labels: Words for particular values.
    """

    name: str
    help: str
    label: str = ""
    metavar: str = "TEXT"
    control: Control = Control.CHECKBOXES
    values: Values | None = None
    choices: tuple[str, ...] = ()
    by_consumer: bool = False
    hides: Callable[[InboxRow], bool] | None = None
    chip: str = "{}"
    labels: dict[str, str] = field(default_factory=dict, hash=False)

    @property
    def option(self) -> str:
        """The option of ``afterturn inbox``."""
        return f"--{self.name.replace('_', '-')}"

    def text(self, value: str) -> str:
        """An active filter in words."""
        shown = "any reaction" if self.by_consumer and value == ANY else value
        return self.labels.get(value) or self.chip.format(shown)


def _in_state(state: ReactionState) -> Values:
    def values(row: InboxRow) -> Iterable[str]:
        names = consumers_in(row, state)
        return (*names, ANY) if names else ()

    return values


_CHANNELS = {channel.value: label for channel, label in CHANNEL_LABELS.items()}


def _is_synthetic(row: InboxRow) -> bool:
    return row.conversation.synthetic or row.conversation.gauntlet


class Filters(Record):
    """What can be asked of the inbox. A filter that is left out selects everything."""

    window: Annotated[
        TimeWindow | None,
        Filter(
            "window",
            "Time window, counted back from now. Not together with since.",
            metavar="24h|7d|30d|90d|all",
            control=Control.LINKS,
            chip="Last {}",
        ),
    ] = None
    since: Annotated[
        Moment | None,
        Filter(
            "since", "From this time on (ISO 8601 with an offset, or a UTC date).", metavar="TIME", control=Control.NONE
        ),
    ] = None
    until: Annotated[
        Moment | None,
        Filter(
            "until", "Before this time (ISO 8601 with an offset, or a UTC date).", metavar="TIME", control=Control.NONE
        ),
    ] = None
    properties: Annotated[
        tuple[Id, ...],
        Field(max_length=500),
        Filter(
            "property",
            "Property id, or UNASSIGNED.",
            "Property",
            "ID",
            Control.TEXT,
            lambda row: (row.conversation.property_id or UNASSIGNED,),
            chip="Property {}",
            labels={UNASSIGNED: "Unassigned"},
        ),
    ] = ()
    channels: Annotated[
        tuple[Channel, ...],
        Field(max_length=10),
        Filter(
            "channel",
            "Channel: sms, email, voice, telegram or web.",
            "Channel",
            "CHANNEL",
            values=lambda row: (row.conversation.channel.value,),
            choices=tuple(_CHANNELS),
            labels=_CHANNELS,
        ),
    ] = ()
    topics: Annotated[
        tuple[Label, ...],
        Field(max_length=100),
        Filter(
            "topic",
            "Topic that was stamped.",
            "Topic",
            "TOPIC",
            Control.CHECKBOXES_AND_TEXT,
            topics_of,
            chip="Topic {}",
        ),
    ] = ()
    types: Annotated[
        tuple[Label, ...],
        Field(max_length=100),
        Filter(
            "type",
            "Type of the conversation.",
            "Type",
            "TYPE",
            values=lambda row: (row.conversation.type,),
            chip="Type {}",
        ),
    ] = ()
    grades: Annotated[
        tuple[Grade, ...],
        Field(max_length=20),
        Filter(
            "grade",
            "Grade that was stamped, A to F.",
            "Grade",
            "A-F",
            values=lambda row: filter(None, (grade_of(row),)),
            choices=("A", "B", "C", "D", "F"),
            chip="Grade {}",
        ),
    ] = ()
    owed: Annotated[
        tuple[Label, ...],
        Field(max_length=100),
        Filter(
            "owed",
            "Consumer that owes a reaction, or `any`.",
            "Owed",
            "CONSUMER",
            values=_in_state(ReactionState.OWED),
            by_consumer=True,
            chip="Owed: {}",
        ),
    ] = ()
    failed: Annotated[
        tuple[Label, ...],
        Field(max_length=100),
        Filter(
            "failed",
            "Consumer whose reaction failed, or `any`.",
            "Failed",
            "CONSUMER",
            values=_in_state(ReactionState.FAILED),
            by_consumer=True,
            chip="Failed: {}",
        ),
    ] = ()
    status: Annotated[
        Status | None,
        Filter(
            "status",
            "Status: open or closed.",
            "Status",
            "open|closed",
            Control.RADIO,
            lambda row: (row.conversation.status.value,),
            tuple(Status),
            labels={status.value: status.value.capitalize() for status in Status},
        ),
    ] = None
    participant: Annotated[
        Id | None,
        Filter(
            "participant",
            "Exact address of a participant.",
            metavar="ADDRESS",
            control=Control.SEARCH,
            values=lambda row: row.conversation.participants,
        ),
    ] = None
    words: Annotated[
        Words | None,
        Filter(
            "words",
            "Full-text search: all words in one message; the last word may be a prefix. Embedded profile only.",
            control=Control.SEARCH,
            chip="Words: {}",
        ),
    ] = None
    include_synthetic: Annotated[
        bool,
        Filter(
            "include_synthetic",
            "Include probes and tests.",
            "Show probes and tests",
            control=Control.TOGGLE,
            hides=_is_synthetic,
            labels={"1": "Tests shown"},
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class FilterField:
    """A declared filter with its field of :class:`Filters`.

    ``annotation``: the field's type with its constraints. ``type``: the class of one value. ``many``: any number of
    values can be given; a row has to have one of them.
    """

    field: str
    filter: Filter
    annotation: Any
    type: Any
    many: bool

    @property
    def default(self) -> Any:
        return Filters.model_fields[self.field].default

    def values(self, query: Filters) -> tuple[Any, ...]:
        """The values that a query asks for; empty if it does not filter by this."""
        value = getattr(query, self.field)
        if self.many:
            return tuple(value)
        return () if value is None or value is False or value == "" else (value,)


def _declared() -> Iterable[FilterField]:
    for name, info in Filters.model_fields.items():
        declaration = next(constraint for constraint in info.metadata if isinstance(constraint, Filter))
        constraints = [constraint for constraint in info.metadata if constraint is not declaration]
        annotation: Any = info.annotation
        for constraint in constraints:
            annotation = Annotated[annotation, constraint]
        many = get_origin(info.annotation) is tuple
        yield FilterField(name, declaration, annotation, _class_of(info.annotation), many)


def _class_of(annotation: Any) -> Any:
    """``Channel`` of ``tuple[Channel, ...]``, ``datetime`` of ``Annotated[datetime, …] | None``."""
    while not isinstance(annotation, type) or get_args(annotation):
        annotation = next(argument for argument in get_args(annotation) if argument is not NoneType)
    return annotation


FILTERS = tuple(_declared())
"""Every filter, in the order in which help and page show them."""
BY_NAME = {declared.filter.name: declared for declared in FILTERS}
BY_FIELD = {declared.field: declared for declared in FILTERS}


def row_filter(query: Filters) -> Callable[[InboxRow], bool]:
    """The test that a row has to pass."""
    hidden = [declared.filter.hides for declared in FILTERS if declared.filter.hides and not declared.values(query)]
    required = [
        (declared.filter.values, frozenset(values))
        for declared in FILTERS
        if declared.filter.values is not None and (values := declared.values(query))
    ]

    def passes(row: InboxRow) -> bool:
        return not any(hides(row) for hides in hidden) and all(
            not chosen.isdisjoint(values(row)) for values, chosen in required
        )

    return passes


def consumers_named(query: Filters) -> tuple[str, ...]:
    """The consumers that a query names."""
    named = (value for declared in FILTERS if declared.filter.by_consumer for value in declared.values(query))
    return tuple(name for name in named if name != ANY)


MAX_LIMIT = 500


class InboxQuery(Filters):
    """A window (by name, or ``since <= recency < until``) and filters; :mod:`afterturn.inbox.filters` declares them.

    ``limit``: rows a page, at most 500. ``budget``: index rows that one request may read.
    """

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 50
    budget: Annotated[int, Field(ge=1, le=1_000_000)] = 5_000

    @model_validator(mode="after")
    def _one_window(self) -> Self:
        if self.window is not None and self.since is not None:
            raise ValueError("give a window or since, not both")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ValueError("since is not before until")
        return self

    def bounds(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """``since`` and ``until``; a relative window is counted back from now. Default: all time."""
        length = None if self.window is None else self.window.length
        return (self.since if length is None else now - length), self.until

    def fingerprint(self) -> str:
        """What a cursor is bound to: everything that selects and orders rows."""
        query = self.model_dump(mode="json", exclude={"limit", "budget"})
        return hashlib.sha256(json.dumps(query, sort_keys=True).encode()).hexdigest()[:16]


def property_ids(query: InboxQuery) -> tuple[str | None, ...]:
    """The query's properties, each once; None: unassigned."""
    return tuple(dict.fromkeys(None if property_id == UNASSIGNED else property_id for property_id in query.properties))
