"""Written times sort as they happened, and only times that are certain are read."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn.clock import (
    EPOCH,
    MILLISECOND,
    floor_millis,
    from_text,
    parse_duration,
    parse_time,
    system_clock,
    to_millis,
    to_text,
    to_utc,
)

LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
instants = st.integers(0, (LAST - EPOCH) // timedelta(microseconds=1)).map(
    lambda us: EPOCH + timedelta(microseconds=us)
)
offsets = st.integers(-24 * 60 + 1, 24 * 60 - 1).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def test_f7_trimmed_fractions_do_not_break_the_order() -> None:
    written = [f"2026-03-01T{time}Z" for time in ("12:00:05", "12:00:05.5", "12:00:05.123", "12:00:05.123456")]
    written.append("2026-03-01T12:00:04.999Z")
    kept = sorted((to_text(parse_time(text)) for text in written), reverse=True)
    assert [key.removeprefix("2026-03-01T12:00:") for key in kept] == [
        "05.500000Z",
        "05.123456Z",
        "05.123000Z",
        "05.000000Z",
        "04.999000Z",
    ]


def test_f37_mixed_offsets_are_compared_as_instants() -> None:
    given = ["2026-03-01T12:30:00+00:00", "2026-03-01T13:00:00+02:00", "2026-03-01T11:45:00-01:00"]
    since = parse_time("2026-03-01T12:00:00Z")
    found = sorted((parse_time(text) for text in given), reverse=True)
    assert [at.strftime("%H:%M") for at in found] == ["12:45", "12:30", "11:00"]
    assert [at.strftime("%H:%M") for at in found if at >= since] == ["12:45", "12:30"]
    with pytest.raises(ValueError, match="no UTC offset"):
        parse_time("2026-03-01T12:40:00")


@given(instants, instants)
def test_text_order_is_time_order(one: datetime, other: datetime) -> None:
    assert (to_text(one) < to_text(other)) == (one < other)
    assert len(to_text(one)) == len(to_text(other)) == 27


@given(instants)
def test_written_times_read_back_exactly(at: datetime) -> None:
    assert from_text(to_text(at)) == parse_time(to_text(at)) == at
    assert parse_time(to_text(at)).tzinfo is UTC


@given(st.integers(0, 250_000_000_000), offsets)
def test_any_offset_is_the_same_instant(seconds: int, offset: timezone) -> None:
    at = EPOCH + timedelta(seconds=seconds)
    local = at.astimezone(offset).isoformat()
    assert parse_time(local) == parse_time(local.replace("T", " ")) == at


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01T12:00Z", "2026-03-01T12:00:00.000000Z"),
        ("2026-03-01T12:00:00z", "2026-03-01T12:00:00.000000Z"),
        ("2026-03-01T12:00:05,25Z", "2026-03-01T12:00:05.250000Z"),
        ("2026-03-01T12:00:05.123456789Z", "2026-03-01T12:00:05.123456Z"),
        ("2026-03-01T12:00:00+0530", "2026-03-01T06:30:00.000000Z"),
        ("2026-03-01T12:00:00-00:00", "2026-03-01T12:00:00.000000Z"),
        ("2024-02-29T23:59:59+00:00", "2024-02-29T23:59:59.000000Z"),
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
    ],
)
def test_iso_times_are_read(text: str, expected: str) -> None:
    assert to_text(parse_time(text)) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "ISO 8601"),
        ("yesterday", "ISO 8601"),
        ("2026-03-01", "ISO 8601"),
        ("1772366405", "ISO 8601"),
        ("1772366405123", "ISO 8601"),
        ("12026-03-01T12:00:00Z", "ISO 8601"),
        ("+12026-03-01T12:00:00Z", "ISO 8601"),
        ("2026-3-1T12:00:00Z", "ISO 8601"),
        ("2026-03-01T12:00:00Z\n", "ISO 8601"),
        ("2026-03-01T12:00:00+1", "ISO 8601"),
        ("2026-03-01T12:00:00 EST", "ISO 8601"),
        ("2026-03-01T12:00:00", "no UTC offset"),
        ("2026-02-30T12:00:00Z", "not a time that exists"),
        ("2026-03-01T24:30:00Z", "not a time that exists"),
        ("2026-03-01T12:61:00Z", "not a time that exists"),
        ("2026-03-01T12:00:00+99:00", "not a time that exists"),
        ("1969-12-31T23:59:59Z", "before 1970"),
        ("1970-01-01T00:30:00+01:00", "before 1970"),
        ("0001-01-01T00:00:00+14:00", "outside the years|before 1970"),
        ("9999-12-31T23:59:59-01:00", "outside the years"),
    ],
)
def test_what_is_no_certain_time_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_time(text)


@given(st.text())
def test_no_text_crashes_the_reader(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_time(text) >= EPOCH


def test_times_without_offset_are_refused_in_python_too() -> None:
    with pytest.raises(ValueError, match="no UTC offset"):
        to_utc(datetime(2026, 3, 1))  # noqa: DTZ001


@given(instants)
def test_milliseconds_are_rounded_down(at: datetime) -> None:
    assert EPOCH + to_millis(at) * MILLISECOND == floor_millis(at)
    assert timedelta(0) <= at - floor_millis(at) < MILLISECOND


@pytest.mark.parametrize(
    ("text", "seconds"), [("250ms", 0.25), ("90s", 90), ("5m", 300), ("1.5h", 5400), ("7d", 604_800), (" 0s ", 0)]
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "90", "-5m", "5 m", "five minutes", "1h30m", "inf", "1e3s", "99999999999999d"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as 90s|too long"):
        parse_duration(text)


def test_the_system_clock_tells_aware_utc() -> None:
    assert system_clock().tzinfo is UTC
