"""What a store decides inside its transactions, pure, so that every adapter decides alike."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta

from pydantic import JsonValue, TypeAdapter, ValidationError

from afterturn.clock import MILLISECOND, floor_millis, to_utc
from afterturn.errors import Conflict, InvalidInput, InvalidRecord
from afterturn.model import MAX_PARTICIPANTS, Message, StoredStamp, Text, Turn, invalid
from afterturn.store.kept import MAX_JOBS, MAX_VALUE_BYTES, Job

FUTURE_TOLERANCE_HOURS = 24


def check_times(
    messages: Iterable[Message], now: datetime, turn_at: datetime | None = None, created_at: datetime | None = None
) -> None:
    """Refuse what claims to be more than a day in the future: mostly milliseconds given where seconds are meant."""
    if created_at is not None and _is_future(created_at, now):
        raise InvalidRecord("conversation.createdAt", _FUTURE)
    if turn_at is not None and _is_future(turn_at, now):
        raise InvalidRecord("at", _FUTURE)
    for place, message in enumerate(messages):
        if _is_future(message.at, now):
            raise InvalidRecord(f"messages[{place}].at", _FUTURE)


def check_edit_time(at: datetime, now: datetime) -> None:
    """Refuse an edit that would win against every later one."""
    if _is_future(at, now):
        raise InvalidRecord("at", _FUTURE)


_FUTURE = (
    f"lies more than {FUTURE_TOLERANCE_HOURS} hours in the future; check the year, and whether milliseconds were "
    "taken for seconds"
)


def _is_future(at: datetime, now: datetime) -> bool:
    return (at - now).total_seconds() > FUTURE_TOLERANCE_HOURS * 3600


def next_occurred_at(turn: Turn, settled_at: datetime | None, now: datetime) -> datetime:
    """The number of a settled turn: its own time, never in the future, and later than every turn before it."""
    own = floor_millis(min(turn.at, now) if turn.at else now)
    return own if settled_at is None else max(own, settled_at + MILLISECOND)


def newest_message_at(known: datetime | None, messages: Iterable[Message], now: datetime) -> datetime | None:
    """The newest message time, where a sender's clock that runs ahead counts as now; never moves back."""
    times = [min(message.at, now) for message in messages]
    if known is not None:
        times.append(known)
    return max(times, default=None)


def merge_participants(stored: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    """A turn adds participants to a known conversation, up to as many as a conversation may have."""
    return (stored + tuple(one for one in given if one not in stored))[:MAX_PARTICIPANTS]


def merge_property(stored: str | None, given: str | None, *, pinned: bool = False) -> str | None:
    """A turn assigns an unassigned conversation; a property that was set stays.

    So an operator's re-attribution is not undone by a channel that does not know of it. ``pinned``: somebody has
    decided on the property, also where that was to take it away.
    """
    return stored if stored is not None or pinned else given


def check_revision(conversation_id: str, stored: int, given: int | None) -> None:
    """Refuse a change that is based on what is not there any more. Raises Conflict."""
    if given is not None and given != stored:
        raise Conflict(
            f"conversation {conversation_id!r} is at revision {stored}, not {given}: somebody has changed it; read it "
            "again and decide anew"
        )


def stamp_moves_forward(stored: StoredStamp | None, through: datetime) -> bool:
    """Whether a stamp that has seen ``through`` may replace the stored one."""
    return stored is None or stored.through is None or stored.through < through


_TEXT: TypeAdapter[str] = TypeAdapter(Text)


def edit_of(text: str, at: datetime) -> tuple[str, datetime]:
    """The text and the time of an edit, as a message holds them. Raises InvalidRecord."""
    try:
        return _TEXT.validate_python(text), to_utc(at)
    except ValidationError as error:
        raise invalid(error, "text") from None
    except ValueError as error:
        raise InvalidRecord("at", str(error)) from None


def edit_changes(stored: str, edited_at: datetime | None, text: str, at: datetime) -> bool:
    """Whether an edit is newer than the last one, and says something else."""
    return stored != text and (edited_at is None or edited_at < at)


JobKey = tuple[str, str]
"""Kind and key: what a job is known by."""


def jobs_to_add(jobs: Iterable[Job]) -> dict[JobKey, tuple[Job, str]]:
    """Each once, with its value as JSON. Raises InvalidRecord."""
    found: dict[JobKey, tuple[Job, str]] = {}
    for place, job in enumerate(jobs):
        found.setdefault((job.kind, job.key), (job, value_dump(job.value, f"jobs[{place}].value")))
    if len(found) > MAX_JOBS:
        raise InvalidRecord("jobs", f"are {len(found)}; one transaction takes at most {MAX_JOBS}")
    return found


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
