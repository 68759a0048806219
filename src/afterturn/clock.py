"""Time: always aware, always UTC, always fixed width where it is written.

Only a clock tells the time, and it is a parameter wherever it is needed, so that tests decide what time it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

Clock = Callable[[], datetime]
"""Tells the present time as an aware UTC datetime."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)

_SHAPE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?(Z|z|[+-]\d\d:?\d\d)?\Z")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)\Z")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def system_clock() -> datetime:
    """The machine's time."""
    return datetime.now(UTC)


def to_text(at: datetime) -> str:
    """27 characters, microseconds, ``Z``: sorts as text exactly as it sorts as time.

    >>> to_text(datetime(2026, 3, 1, 12, 0, 5, 500_000, tzinfo=UTC))
    '2026-03-01T12:00:05.500000Z'
    """
    return at.isoformat(timespec="microseconds")[:-6] + "Z"


@lru_cache(maxsize=4096)  # the times of a row and of its stamps are mostly the same
def from_text(text: str) -> datetime:
    """The inverse of :func:`to_text`; for text that afterturn itself wrote."""
    return datetime.fromisoformat(text)


def parse_time(text: str) -> datetime:
    """An ISO 8601 date and time with an offset, as UTC.

    Raises ValueError that says what is wrong: no offset, a year outside 1970–9999, or not ISO at all.
    """
    if not _SHAPE.match(text):
        raise ValueError("is not an ISO 8601 time with an offset, such as 2026-03-01T12:00:05Z")
    try:
        at = datetime.fromisoformat(text.replace("z", "Z").replace(",", "."))
    except ValueError as error:
        raise ValueError(f"is not a time that exists ({error})") from None
    return to_utc(at)


def parse_time_or_date(text: str) -> datetime:
    """A time as :func:`parse_time` takes it, or a date: its beginning in UTC. Raises ValueError."""
    return parse_time(f"{text}T00:00:00Z" if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else text)


def to_utc(at: datetime) -> datetime:
    """The same instant in UTC; refuses a time without an offset and years outside 1970–9999."""
    if at.tzinfo is None or at.utcoffset() is None:
        raise ValueError("has no UTC offset; add Z or an offset such as +02:00")
    try:
        at = at.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the years 1970 to 9999") from None
    if at < EPOCH:
        raise ValueError("lies before 1970")
    return at


def to_millis(at: datetime) -> int:
    """Whole milliseconds since 1970."""
    return (at - EPOCH) // MILLISECOND


def floor_millis(at: datetime) -> datetime:
    """The same time without what is finer than a millisecond."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def parse_duration(text: str) -> timedelta:
    """``"90s"``, ``"5m"``, ``"1.5h"``, ``"7d"``, ``"250ms"``.

    >>> parse_duration("5m")
    datetime.timedelta(seconds=300)
    """
    match = _DURATION.match(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a duration such as 90s, 5m, 24h or 7d")
    try:
        return timedelta(seconds=float(match[1]) * _UNITS[match[2]])
    except OverflowError:
        raise ValueError(f"{text!r} is too long") from None
