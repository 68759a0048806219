"""What the inbox returns: pages of rows, each a conversation with the states of its reactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from afterturn.clock import to_text
from afterturn.inbox.search import Hit
from afterturn.model import Conversation, Role
from afterturn.reactions.state import ReactionState, reaction_states
from afterturn.store.port import ConsumerState, Registration


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A conversation with the state of each live consumer's reaction. ``hit``: the match of a full-text search."""

    conversation: Conversation
    states: Mapping[str, ReactionState]
    hit: Hit | None = None

    @property
    def text(self) -> str:
        """The matching snippet, else the beginning of the newest message, in one line."""
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
        """The data of the consumer's stamp; empty if there is none or the consumer is in shadow."""
        stored = self.conversation.reactions.get(consumer)
        return stored.data if stored is not None and consumer in self.states else {}

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
class InboxPage:
    """Rows, newest first. ``next_cursor`` is None at the end.

    ``complete`` is false if the read budget was spent before the page was full; the cursor continues. ``scanned``:
    index rows read.
    """

    rows: tuple[InboxRow, ...]
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


def row_of(conversation: Conversation, registrations: Mapping[str, Registration]) -> InboxRow:
    """The row of a conversation; consumers in shadow are not shown."""
    live = {
        name: registration for name, registration in registrations.items() if registration.state is ConsumerState.LIVE
    }
    return InboxRow(conversation, reaction_states(conversation, live))
