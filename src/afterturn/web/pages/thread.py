"""View models of a conversation: messages with the turns between them, and stamps. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from pydantic import JsonValue

from afterturn.channels.outbox import DeliverySummary, Sending, delivery_summary
from afterturn.channels.state import MessageDetails
from afterturn.channels.types import SuppressReason
from afterturn.clock import MILLISECOND
from afterturn.inbox import InboxRow
from afterturn.inbox.presentation import count
from afterturn.model import Direction, Message, SettledTurn, StoredStamp
from afterturn.reactions.state import ReactionState

LONG_CHARS = 4_000
"""A text longer than this is folded."""
SHOWN_CHARS = 1_500

_LINK = re.compile(r"https?://[^\s<>\"'\u200e\u200f\u202a-\u202e\u2066-\u2069]{1,2000}", re.IGNORECASE)
_TRAILING = ".,;:!?)]}»…"
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text; ``href`` if it is a web address."""

    text: str
    href: str | None = None


@dataclass(frozen=True, slots=True)
class FileView:
    """An attachment; ``href`` only if it is a web address. Nothing is fetched."""

    name: str
    media_type: str
    href: str | None


@dataclass(frozen=True, slots=True)
class MessageView:
    id: str
    at: datetime
    outbound: bool
    role: str
    parts: tuple[TextPart, ...]
    rest: str
    """The rest of a long text, folded."""
    whole: str
    """The full e-mail with its quotes, folded."""
    files: tuple[FileView, ...]
    edited_at: datetime | None
    delivery: DeliverySummary | None
    unknown_sender: str | None
    """The sender, if it is not a participant."""
    unanswered: str | None
    """Why it got no automatic reply."""
    kind: str = "message"


@dataclass(frozen=True, slots=True)
class TurnView:
    """A settled turn with the state of each consumer: ``seen``, ``owed``, ``failed`` or ``not owed``."""

    at: datetime
    emitter: str
    immediate: bool
    reactions: tuple[tuple[str, str], ...]
    kind: str = "turn"

    @property
    def label(self) -> str:
        """Such as ``turn settled, seen by 3 of 4 consumers``."""
        owing = [state for _, state in self.reactions if state in ("owed", "failed")]
        seen = sum(state == "seen" for _, state in self.reactions)
        return (
            f"turn settled, seen by {count(seen + len(owing), 'consumer')}"
            if not owing
            else (f"turn settled, seen by {seen} of {count(seen + len(owing), 'consumer')}")
        )


@dataclass(frozen=True, slots=True)
class DayView:
    at: datetime
    kind: str = "day"


Item = MessageView | TurnView | DayView


@dataclass(frozen=True, slots=True)
class StampView:
    """A consumer's stamp: readable labels and values, and all of it as JSON."""

    consumer: str
    state: str
    at: datetime | None
    through: datetime | None
    error: str | None
    facts: tuple[tuple[str, str], ...]
    raw: str


def items(
    row: InboxRow,
    messages: Sequence[Message],
    turns: Sequence[SettledTurn],
    first: int,
    sent: Mapping[str, Sending],
    details: Mapping[str, MessageDetails],
) -> Iterator[Item]:
    """Messages in thread order, each turn after its last message, with a separator before each day.

    ``first``: the number of messages before these; turns that end elsewhere are left out. ``sent``: what became of
    sending a message, ``details``: what its channel says of it, by the message's id.
    """
    ends: dict[int, list[SettledTurn]] = {}
    for turn in turns:
        ends.setdefault(turn.last_seq, []).append(turn)
    day = None
    for number, message in enumerate(messages, first + 1):
        if message.at.date() != day:
            day = message.at.date()
            yield DayView(message.at)
        yield message_view(message, delivery_summary(sent.get(message.id)), details.get(message.id))
        for turn in ends.get(number, ()):
            yield turn_view(row, turn)
    if not messages:
        for turn in turns:
            yield turn_view(row, turn)


def before(messages: Sequence[Message]) -> datetime | None:
    """After which time the turns of these messages are: a turn's time is at most the part of a millisecond short."""
    return messages[0].at - 2 * MILLISECOND if messages else None


def message_view(
    message: Message, sending: DeliverySummary | None = None, details: MessageDetails | None = None
) -> MessageView:
    """``details``: what its channel says of it."""
    text, rest = message.text, ""
    if len(text) > LONG_CHARS:
        text, rest = text[:SHOWN_CHARS], text[SHOWN_CHARS:]
    return MessageView(
        id=message.id,
        at=message.at,
        outbound=message.direction is Direction.OUTBOUND,
        role=message.role.value,
        parts=tuple(text_parts(text)),
        rest=rest,
        whole=message.whole or "",
        files=tuple(
            FileView(one.name or one.media_type, one.media_type, web_link(one.url)) for one in message.attachments
        ),
        edited_at=message.edited_at,
        delivery=sending,
        unknown_sender=None if details is None else details.facts.get("from"),
        unanswered=None if details is None else _UNANSWERED.get(details.suppress or ""),
    )


_UNANSWERED: Mapping[str, str] = {
    SuppressReason.AUTO_REPLY: "automatic message",
    SuppressReason.BOUNCE: "delivery failure notice",
    SuppressReason.BULK: "bulk mail",
    SuppressReason.RECEIPT: "receipt",
    SuppressReason.COMPLAINT: "complaint about our mail",
    SuppressReason.SPAM: "spam",
    SuppressReason.OPT_OUT: "opted out",
    SuppressReason.OWN: "sent by us",
    SuppressReason.LOOP: "rate limit for automatic replies reached",
}
"""Unknown senders have a line of their own."""


def turn_view(row: InboxRow, turn: SettledTurn) -> TurnView:
    reactions = tuple(
        (name, _state_at(row.conversation.reactions.get(name), state, turn.occurred_at))
        for name, state in row.states.items()
    )
    return TurnView(turn.occurred_at, turn.emitter, turn.flush_mode == "immediate", reactions)


def stamp_view(row: InboxRow, consumer: str) -> StampView:
    stamp = row.conversation.reactions.get(consumer) or StoredStamp()
    data = row.stamp(consumer)
    return StampView(
        consumer=consumer,
        state=row.states[consumer].value,
        at=stamp.at,
        through=stamp.through,
        error=stamp.error if row.states[consumer] is ReactionState.FAILED else None,
        facts=tuple(readable(data)),
        raw=json.dumps(dict(data), ensure_ascii=False, indent=2) if data else "",
    )


def readable(data: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    """The values of a stamp that fit in a line each; nested values are only in the JSON."""
    for key, value in data.items():
        if isinstance(value, list):
            if value and all(isinstance(one, str | int | float) for one in value) and len(value) <= 12:
                yield _words(key), ", ".join(str(one) for one in value)
        elif isinstance(value, bool):
            yield _words(key), "yes" if value else "no"
        elif value is not None and not isinstance(value, dict) and value != "":
            yield _words(key), str(value)


def text_parts(text: str) -> Iterator[TextPart]:
    """A text split at its web addresses. No other scheme becomes a link."""
    end = 0
    for found in _LINK.finditer(text):
        address = found[0].rstrip(_TRAILING)
        href = web_link(address)
        if href is None:
            continue
        if found.start() > end:
            yield TextPart(text[end : found.start()])
        yield TextPart(address, href)
        end = found.start() + len(address)
    if end < len(text):
        yield TextPart(text[end:])


def web_link(url: str) -> str | None:
    """The address, if it is a web address."""
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname
    except ValueError:
        return None
    return url.strip() if parts.scheme in ("http", "https") and host else None


def _state_at(stamp: StoredStamp | None, now: ReactionState, at: datetime) -> str:
    if stamp is not None and stamp.through is not None and stamp.through >= at:
        return "seen"
    if stamp is not None and stamp.failed_through is not None and stamp.failed_through >= at:
        return "failed"
    return "not owed" if now is ReactionState.FRESH else "owed"


def _words(key: str) -> str:
    """``firstResponseS`` as ``first response (s)``."""
    words = _WORD.sub(" ", key)
    return words[:-2].lower() + " (s)" if words.endswith(" S") else words.lower()
