"""A conversation as a page: its thread with the turns between the messages, stamps in words. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from pydantic import JsonValue

from afterturn.channels.delivery_status import Delivered, delivered
from afterturn.channels.types import SuppressReason
from afterturn.clock import MILLISECOND
from afterturn.inbox import InboxRow
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
    """Some of a text; ``href`` where it is an address of the web."""

    text: str
    href: str | None = None


@dataclass(frozen=True, slots=True)
class FileView:
    """What came with a message: ``href`` only where it leads into the web. Nothing of it is fetched."""

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
    """What is folded away, of a long text."""
    whole: str
    """All that a mail holds, folded away, where its text is only what is new in it."""
    files: tuple[FileView, ...]
    edited_at: datetime | None
    delivery: Delivered | None
    unknown_sender: str | None
    """Who wrote it, where that is nobody of the conversation."""
    unanswered: str | None
    """Why no machine answers it, where that is not said already."""
    kind: str = "message"


@dataclass(frozen=True, slots=True)
class TurnView:
    """A settled turn and how far each consumer is with it: ``seen``, ``owed``, ``failed``, or not owed at all."""

    at: datetime
    emitter: str
    immediate: bool
    reactions: tuple[tuple[str, str], ...]
    kind: str = "turn"

    @property
    def told(self) -> str:
        owing = [name for name, state in self.reactions if state in ("owed", "failed")]
        seen = sum(state == "seen" for _, state in self.reactions)
        behind = ", ".join(owing) if len(owing) < 3 else str(len(owing))
        return f"turn settled, {behind} behind" if owing else f"turn settled, seen by {seen}"


@dataclass(frozen=True, slots=True)
class DayView:
    at: datetime
    kind: str = "day"


Item = MessageView | TurnView | DayView


@dataclass(frozen=True, slots=True)
class StampView:
    """What a consumer left: labels and values that people can read, and all of it as JSON."""

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
    sent: Mapping[str, JsonValue],
    about: Mapping[str, JsonValue],
) -> Iterator[Item]:
    """Messages in thread order, each turn after the last one that it settled, with a mark where a day begins.

    ``first``: how many messages come before these; turns that end among others are left out. ``sent``: what became of
    sending a message, ``about``: what the webhooks noted of it, by its id.
    """
    ends: dict[int, list[SettledTurn]] = {}
    for turn in turns:
        ends.setdefault(turn.last_seq, []).append(turn)
    day = None
    for number, message in enumerate(messages, first + 1):
        if message.at.date() != day:
            day = message.at.date()
            yield DayView(message.at)
        yield message_view(message, delivered(sent.get(message.id)), about.get(message.id))
        for turn in ends.get(number, ()):
            yield turn_view(row, turn)
    if not messages:
        for turn in turns:
            yield turn_view(row, turn)


def before(messages: Sequence[Message]) -> datetime | None:
    """After which time the turns of these messages are: a turn's time is at most the part of a millisecond short."""
    return messages[0].at - 2 * MILLISECOND if messages else None


def message_view(message: Message, sending: Delivered | None = None, about: JsonValue = None) -> MessageView:
    """``about``: what the webhooks has noted of it."""
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
        unknown_sender=unknown_sender(about),
        unanswered=unanswered(about),
    )


def unknown_sender(noted: JsonValue) -> str | None:
    """Who wrote a message from outside of its conversation, as the webhooks has noted it."""
    return str(noted["from"]) if isinstance(noted, dict) and noted.get("from") else None


_UNANSWERED = {
    SuppressReason.AUTO_REPLY: "a machine wrote it",
    SuppressReason.BOUNCE: "it says that mail could not be delivered",
    SuppressReason.BULK: "it went to many",
    SuppressReason.RECEIPT: "it is a receipt",
    SuppressReason.COMPLAINT: "it is a complaint about mail of ours",
    SuppressReason.SPAM: "it was found to be spam",
    SuppressReason.OPT_OUT: "they want none",
    SuppressReason.OWN: "it is ours",
    SuppressReason.LOOP: "there were too many before it, as between two machines",
}
"""Nothing of strangers: that is said in red."""


def unanswered(noted: JsonValue) -> str | None:
    """Why a message got no automatic answer, as the webhooks has noted it."""
    hush = noted.get("hush") if isinstance(noted, dict) else None
    return next((why for one, why in _UNANSWERED.items() if one.value == hush), None)


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
    """What of a stamp can be said in a line each; nested values are left to the JSON."""
    for key, value in data.items():
        if isinstance(value, list):
            if value and all(isinstance(one, str | int | float) for one in value) and len(value) <= 12:
                yield _words(key), ", ".join(str(one) for one in value)
        elif isinstance(value, bool):
            yield _words(key), "yes" if value else "no"
        elif value is not None and not isinstance(value, dict) and value != "":
            yield _words(key), str(value)


def text_parts(text: str) -> Iterator[TextPart]:
    """A text with its web addresses apart. No other scheme becomes a link."""
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
    """The address, where it is one of the web that a person may follow."""
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
