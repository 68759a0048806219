"""What can be asked of the inbox, and what comes back."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator

from afterturn.clock import to_text
from afterturn.inbox.search import Hit
from afterturn.model import UNASSIGNED, Channel, Conversation, Id, Label, Record, Role, Status, Time
from afterturn.reactions.state import ReactionState, reaction_states
from afterturn.store.port import ConsumerState, Registration
from afterturn.store.tokenizer import MAX_WORDS_CHARS

MAX_LIMIT = 500


class Window(StrEnum):
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


_LENGTHS: dict[Window, timedelta | None] = {
    Window.DAY: timedelta(hours=24),
    Window.WEEK: timedelta(days=7),
    Window.MONTH: timedelta(days=30),
    Window.QUARTER: timedelta(days=90),
    Window.ALL: None,
}


_NOT_IN_WORDS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def _line(words: object) -> object:
    """In one line, without what no encoding can hold: it is no part of any word."""
    return " ".join(_NOT_IN_WORDS.sub(" ", words).split()) if isinstance(words, str) else words


Words = Annotated[str, BeforeValidator(_line), Field(max_length=MAX_WORDS_CHARS)]
"""What is looked for in messages; as it is typed."""

Grade = Annotated[str, Field(pattern=r"^[A-DFa-df]$"), AfterValidator(str.upper)]
"""A letter of the grade consumer; a small one is the same."""


class InboxQuery(Record):
    """A window (by name, or ``since <= recency < until``) and filters; those left empty ask nothing.

    ``properties``: ids, or ``UNASSIGNED``. ``topics``: any of them. ``grade``: any of these. ``owed`` and ``failed``:
    conversations where any of these consumers is in that state; ``any`` for every consumer. ``participant``: one
    exact address. ``words``: all of them in one message, the last one perhaps a beginning, whatever the case and the
    accents; signs are no part of words. ``limit``: rows a page, at most 500. ``budget``: index rows that one request
    may read.
    """

    window: Window | None = None
    since: Time | None = None
    until: Time | None = None
    properties: tuple[Id, ...] = ()
    types: tuple[Label, ...] = ()
    channels: tuple[Channel, ...] = ()
    topics: tuple[Label, ...] = ()
    grades: tuple[Grade, ...] = ()
    owed: tuple[Label, ...] = ()
    failed: tuple[Label, ...] = ()
    status: Status | None = None
    participant: Id | None = None
    words: Words | None = None
    include_synthetic: bool = False
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
        """since and until, with a relative window counted back from now (all time where nothing is said)."""
        length = None if self.window is None else self.window.length
        return (self.since if length is None else now - length), self.until

    def fingerprint(self) -> str:
        """What a cursor is bound to: everything that decides which rows come, and in which order."""
        asked = self.model_dump(mode="json", exclude={"limit", "budget"})
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Row:
    """A conversation with the state of each live consumer's reaction. ``hit``: where words were asked for."""

    conversation: Conversation
    states: Mapping[str, ReactionState]
    hit: Hit | None = None

    @property
    def text(self) -> str:
        """The words that were found, else the beginning of the newest message, in one line."""
        if self.hit is not None:
            return "".join(piece.text for piece in self.hit.snippet)
        preview = self.conversation.preview
        if preview is None:
            return ""
        number = preview.attachments
        return preview.text or (f"{number} attachment{'' if number == 1 else 's'}" if number else "")

    @property
    def role(self) -> Role | None:
        """Who wrote :attr:`text`."""
        shown = self.conversation.preview if self.hit is None else self.hit.message
        return None if shown is None else shown.role

    def stamp(self, consumer: str) -> Mapping[str, JsonValue]:
        """What the consumer stamped; empty where it has not, or works in shadow."""
        found = self.conversation.reactions.get(consumer)
        return found.data if found is not None and consumer in self.states else {}

    def to_json(self) -> dict[str, Any]:
        body = self.conversation.to_json()
        body["reactions"] = {
            name: {
                "state": state.value,
                "through": None
                if (stamp := self.conversation.reactions.get(name)) is None or stamp.through is None
                else to_text(stamp.through),
                "data": dict(self.stamp(name)),
            }
            for name, state in self.states.items()
        }
        if self.hit is not None:
            body["hit"] = self.hit.to_json()
        return body


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, newest first. ``next_cursor`` is None at the end.

    ``complete`` is false where the read budget was spent before the page was full: there may be more, ask on with the
    cursor. ``scanned``: index rows read.
    """

    rows: tuple[Row, ...]
    next_cursor: str | None
    complete: bool
    scanned: int

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": [row.to_json() for row in self.rows],
            "nextCursor": self.next_cursor,
            "complete": self.complete,
            "scanned": self.scanned,
        }


def row_of(conversation: Conversation, registrations: Mapping[str, Registration]) -> Row:
    """The row of a conversation; consumers in shadow are not shown."""
    live = {name: one for name, one in registrations.items() if one.state is ConsumerState.LIVE}
    return Row(conversation, reaction_states(conversation, live))


def matches(row: Row, query: InboxQuery) -> bool:
    """Whether a row passes every filter of the query (the window and properties are keys, not filters)."""
    conversation = row.conversation
    return (
        (query.include_synthetic or not (conversation.synthetic or conversation.gauntlet))
        and (not query.types or conversation.type in query.types)
        and (not query.channels or conversation.channel in query.channels)
        and (query.status is None or conversation.status == query.status)
        and (query.participant is None or query.participant in conversation.participants)
        and (not query.topics or _has_topic(row, query.topics))
        and (not query.grades or row.stamp("grade").get("grade") in query.grades)
        and (not query.owed or _any_in(row, query.owed, ReactionState.OWED))
        and (not query.failed or _any_in(row, query.failed, ReactionState.FAILED))
    )


def property_ids(query: InboxQuery) -> tuple[str | None, ...]:
    """The properties asked for, once each; None is the unassigned one."""
    return tuple(dict.fromkeys(None if one == UNASSIGNED else one for one in query.properties))


def _has_topic(row: Row, wanted: tuple[str, ...]) -> bool:
    topics = row.stamp("topics").get("topics")
    return isinstance(topics, list) and any(topic in wanted for topic in topics)


def _any_in(row: Row, consumers: tuple[str, ...], state: ReactionState) -> bool:
    return any(found is state and ("any" in consumers or name in consumers) for name, found in row.states.items())
