"""The rules and conversions that a store applies inside its transactions. Pure, so that both adapters decide alike."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from datetime import datetime, timedelta

from pydantic import JsonValue, TypeAdapter, ValidationError

from afterturn.clock import MILLISECOND, floor_millis, to_utc
from afterturn.errors import Conflict, InvalidInput, InvalidRecord
from afterturn.model import (
    MAX_PARTICIPANTS,
    MAX_PREVIEW_CHARS,
    Conversation,
    ConversationMeta,
    Message,
    StoredStamp,
    Text,
    Turn,
    invalid,
)
from afterturn.store.jobs import MAX_JOBS, Job

FUTURE_TOLERANCE_HOURS = 24
MAX_VALUE_BYTES = 10_000
"""Of the JSON of a state record or a job: ids and small facts, no content."""

MAX_PREVIEW_BYTES = 300
_PREVIEW_SOURCE_CHARS = 4 * MAX_PREVIEW_CHARS
"""As much of a text is read for its preview; runs of white space beyond that are not worth reading."""
_MAX_CLUSTER_CHARS = 16

to_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Compact JSON: it keeps every number and every empty text as it was given."""


def check_times(
    messages: Iterable[Message], now: datetime, turn_at: datetime | None = None, created_at: datetime | None = None
) -> None:
    """Refuse times over a day ahead, usually milliseconds taken for seconds. Raises InvalidRecord."""
    if created_at is not None and _is_future(created_at, now):
        raise InvalidRecord("conversation.createdAt", _FUTURE)
    if turn_at is not None and _is_future(turn_at, now):
        raise InvalidRecord("at", _FUTURE)
    for index, message in enumerate(messages):
        if _is_future(message.at, now):
            raise InvalidRecord(f"messages[{index}].at", _FUTURE)


def check_edit_time(at: datetime, now: datetime) -> None:
    """Refuse an edit from the future: it would win against every later one. Raises InvalidRecord."""
    if _is_future(at, now):
        raise InvalidRecord("at", _FUTURE)


_FUTURE = (
    f"lies more than {FUTURE_TOLERANCE_HOURS} hours in the future; check the year, and whether milliseconds were "
    "taken for seconds"
)


def _is_future(at: datetime, now: datetime) -> bool:
    return (at - now).total_seconds() > FUTURE_TOLERANCE_HOURS * 3600


def meta_of(conversation: Conversation) -> ConversationMeta:
    """The attributes that the writer owns."""
    return ConversationMeta(**{name: getattr(conversation, name) for name in ConversationMeta.model_fields})


def next_occurred_at(turn: Turn, settled_at: datetime | None, now: datetime) -> datetime:
    """The number of a settled turn: its own time, never in the future, and later than every turn before it."""
    turn_at = floor_millis(min(turn.at, now) if turn.at else now)
    return turn_at if settled_at is None else max(turn_at, settled_at + MILLISECOND)


def newest_message_at(known: datetime | None, messages: Iterable[Message], now: datetime) -> datetime | None:
    """The newest message time; never moves back. A time in the future (a sender's fast clock) counts as now."""
    times = [min(message.at, now) for message in messages]
    if known is not None:
        times.append(known)
    return max(times, default=None)


def merge_participants(stored: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """Stored participants, then new ones, up to MAX_PARTICIPANTS."""
    return (stored + tuple(address for address in new if address not in stored))[:MAX_PARTICIPANTS]


def merge_property(stored: str | None, new: str | None, *, pinned: bool = False) -> str | None:
    """A turn assigns an unassigned conversation; a property that is set stays.

    So a channel does not undo an operator's change. ``pinned``: an operator set the property, possibly to none.
    """
    return stored if stored is not None or pinned else new


def merge_contact_name(
    participants: tuple[str, ...], stored: str | None, new_participants: tuple[str, ...], new: str | None
) -> str | None:
    """The newest name of the first participant; the name of anybody else is not shown."""
    return new if new and participants[:1] == new_participants[:1] else stored


def message_to_preview(known_at: datetime | None, messages: Iterable[Message]) -> Message | None:
    """The newest of these messages; None if none of them is as new as the previewed one.

    ``messages``: those that were added, in arrival order. Of two messages of the same time the later arrival is newer.
    """
    newest: Message | None = None
    for message in messages:
        if (known_at is None or message.at >= known_at) and (newest is None or message.at >= newest.at):
            newest = message
    return newest


def preview_text(text: str) -> str:
    """The beginning of a text in one line, cut between two characters as a reader sees them."""
    line = " ".join(text[:_PREVIEW_SOURCE_CHARS].split())
    if len(text) <= _PREVIEW_SOURCE_CHARS and _fits_preview(line):
        return line
    cut = line.encode()[: MAX_PREVIEW_BYTES - len("…".encode())].decode(errors="ignore")
    end = min(len(cut), MAX_PREVIEW_CHARS - 1)
    for _ in range(_MAX_CLUSTER_CHARS):
        if not 0 < end < len(line) or not _is_joined(line[end - 1], line[end]):
            break
        end -= 1
    return line[:end].rstrip() + "…"


def _fits_preview(line: str) -> bool:
    return len(line) <= MAX_PREVIEW_CHARS and (line.isascii() or len(line.encode()) <= MAX_PREVIEW_BYTES)


def _is_joined(left: str, right: str) -> bool:
    """Whether two code points belong to one visible character: marks, joined emoji, skin tones, halves of flags."""
    return (
        unicodedata.category(right).startswith("M")
        or "\u200d" in (left, right)
        or "\U0001f3fb" <= right <= "\U0001f3ff"
        or ("\U0001f1e6" <= left <= "\U0001f1ff" and "\U0001f1e6" <= right <= "\U0001f1ff")
    )


def check_revision(conversation_id: str, stored: int, expected: int | None) -> None:
    """Refuse a change that is based on an older revision. Raises Conflict."""
    if expected is not None and expected != stored:
        raise Conflict(
            f"conversation {conversation_id!r} is at revision {stored}, not {expected}: it was changed in the "
            "meantime; read it again and repeat the change"
        )


def stamp_moves_forward(stored: StoredStamp | None, through: datetime) -> bool:
    """Whether a stamp up to ``through`` may replace the stored one."""
    return stored is None or stored.through is None or stored.through < through


_TEXT: TypeAdapter[str] = TypeAdapter(Text)


def edit_of(text: str, at: datetime) -> tuple[str, datetime]:
    """The text and the time of an edit, validated as a message's are. Raises InvalidRecord."""
    try:
        return _TEXT.validate_python(text), to_utc(at)
    except ValidationError as error:
        raise invalid(error, "text") from None
    except ValueError as error:
        raise InvalidRecord("at", str(error)) from None


def edit_changes(stored: str, edited_at: datetime | None, text: str, at: datetime) -> bool:
    """Whether an edit is newer than the last one and changes the text."""
    return stored != text and (edited_at is None or edited_at < at)


JobKey = tuple[str, str]
"""Kind and key: what a job is known by."""


def jobs_to_add(jobs: Iterable[Job]) -> dict[JobKey, tuple[Job, str]]:
    """Each once, with its value as JSON. Raises InvalidRecord."""
    added: dict[JobKey, tuple[Job, str]] = {}
    for index, job in enumerate(jobs):
        added.setdefault((job.kind, job.key), (job, value_dump(job.value, f"jobs[{index}].value")))
    if len(added) > MAX_JOBS:
        raise InvalidRecord("jobs", f"are {len(added)}; one transaction takes at most {MAX_JOBS}")
    return added


def lease_end(now: datetime, lease: timedelta) -> datetime:
    """Until when what is taken now is nobody else's. Raises InvalidInput."""
    if lease <= timedelta(0):
        raise InvalidInput(f"a lease of {lease.total_seconds():g} seconds holds nothing; give it some time")
    return now + lease


def value_dump(value: JsonValue, field: str) -> str:
    """A small value as compact JSON. Raises InvalidRecord for what is large, or no JSON that every store can hold."""
    try:
        dump = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        size = len(dump.encode())
    except UnicodeEncodeError as error:
        raise InvalidRecord(field, "has a lone surrogate, which no encoding can hold; leave it out") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRecord(field, "is not JSON; give text, whole and finite numbers, lists and objects") from error
    if size > MAX_VALUE_BYTES:
        raise InvalidRecord(field, f"has {size} bytes as JSON; at most {MAX_VALUE_BYTES} are allowed: keep ids only")
    return dump


def parse_value(dump: str) -> dict[str, JsonValue]:
    """The fields of a state record."""
    value: dict[str, JsonValue] = json.loads(dump)
    return value
