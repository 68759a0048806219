"""What every store decides in its transactions: times never move back, and nobody's word undoes another's."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn.clock import MILLISECOND, floor_millis
from afterturn.errors import InvalidRecord
from afterturn.model import Channel, ConversationMeta, Direction, Message, Role, StoredStamp, Turn
from afterturn.store import invariants

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
META = ConversationMeta(id="c1", channel=Channel.SMS)
times = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def message(at: datetime, name: str = "m1") -> Message:
    return Message(id=name, direction=Direction.INBOUND, role=Role.CUSTOMER, text="hi", at=at)


def turn(at: datetime | None = None) -> Turn:
    return Turn(conversation=META, at=at)


@given(st.lists(st.tuples(st.none() | times, times), max_size=30))
def test_the_number_of_a_turn_only_grows_whatever_clocks_do(given: list[tuple[datetime | None, datetime]]) -> None:
    settled_at: datetime | None = None
    for at, now in given:
        occurred_at = invariants.next_occurred_at(turn(at), settled_at, now)
        assert settled_at is None or occurred_at > settled_at
        assert occurred_at == floor_millis(occurred_at)
        settled_at = occurred_at


def test_history_keeps_its_own_time_and_a_live_turn_takes_now() -> None:
    original = NOW - timedelta(days=400)
    assert invariants.next_occurred_at(turn(original), None, NOW) == original
    assert invariants.next_occurred_at(turn(), None, NOW) == NOW


def test_a_turn_is_never_numbered_in_the_future() -> None:
    assert invariants.next_occurred_at(turn(NOW + timedelta(hours=3)), None, NOW) == NOW


def test_two_turns_of_one_millisecond_get_two_numbers() -> None:
    first = invariants.next_occurred_at(turn(), None, NOW)
    assert invariants.next_occurred_at(turn(), first, NOW + timedelta(microseconds=400)) == first + MILLISECOND


@given(st.lists(st.tuples(times, times), max_size=20))
def test_recency_never_moves_back_nor_past_the_clock(given: list[tuple[datetime, datetime]]) -> None:
    known: datetime | None = None
    for at, now in given:
        newest = invariants.newest_message_at(known, [message(at)], now)
        assert newest is not None
        assert known is None or newest >= known
        assert newest <= max(now, known or now)
        known = newest


def test_f29_a_late_message_does_not_sink_the_conversation() -> None:
    late = NOW - timedelta(minutes=5)
    assert invariants.newest_message_at(NOW, [message(late)], NOW) == NOW
    assert invariants.newest_message_at(NOW, [], NOW) == NOW
    assert invariants.newest_message_at(None, [], NOW) is None


@pytest.mark.parametrize("ahead", [timedelta(hours=24), timedelta(0), timedelta(days=-9000)])
def test_a_senders_clock_may_be_a_day_ahead(ahead: timedelta) -> None:
    invariants.check_times([message(NOW + ahead)], NOW, NOW + ahead)


def test_milliseconds_taken_for_seconds_are_named_with_their_place() -> None:
    wrong = datetime(4147, 8, 20, tzinfo=UTC)
    with pytest.raises(InvalidRecord, match=r"messages\[1\]\.at: .*milliseconds"):
        invariants.check_times([message(NOW), message(wrong, "m2")], NOW)
    with pytest.raises(InvalidRecord, match=r"^at: .*future"):
        invariants.check_times([], NOW, wrong)


@given(st.lists(times, min_size=1))
def test_a_stamp_only_moves_forward(seen: list[datetime]) -> None:
    stored: StoredStamp | None = None
    for through in seen:
        if invariants.stamp_moves_forward(stored, through):
            assert stored is None or stored.through is None or stored.through < through
            stored = StoredStamp(through=through)
    assert stored is not None
    assert stored.through == max(seen)


def test_a_requested_stamp_has_seen_nothing() -> None:
    assert invariants.stamp_moves_forward(StoredStamp(), NOW)


def test_a_rule_takes_records_and_gives_decisions() -> None:
    """No rule is a coroutine or knows a database, so every adapter can use it inside its transaction."""
    functions = [
        f for _, f in inspect.getmembers(invariants, inspect.isfunction) if f.__module__ == invariants.__name__
    ]
    assert functions
    assert not any(inspect.iscoroutinefunction(function) for function in functions)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        (" a\n\n b\t", "a b"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 199 + "…"),
        ("word " * 50_000, ("word " * 40)[:199].rstrip() + "…"),
        ("é" * 150, "é" * 150),
        ("é" * 151, "é" * 148 + "…"),
        ("x" * 198 + "e\u0301 more", "x" * 198 + "…"),
        ("👍🏽" * 50, "👍🏽" * 37 + "…"),
        ("👩\u200d🔧" * 40, "👩\u200d🔧" * 27 + "…"),
    ],
)
def test_a_preview_is_cut_between_two_characters_that_a_reader_sees(text: str, shown: str) -> None:
    assert invariants.preview_text(text) == shown


@given(st.text(max_size=1_500))
def test_a_preview_is_one_short_line(text: str) -> None:
    shown = invariants.preview_text(text)
    assert len(shown) <= 200
    assert len(shown.encode()) <= 300
    assert shown == " ".join(shown.split())


@given(st.none() | times, st.lists(times, max_size=6))
def test_the_previewed_message_is_the_last_of_the_thread(known_at: datetime | None, given: list[datetime]) -> None:
    messages = [message(at, str(number)) for number, at in enumerate(given)]
    expected = max(enumerate(given), key=lambda entry: (entry[1], entry[0]), default=None)
    previewed = invariants.message_to_preview(known_at, messages)
    if expected is None or (known_at is not None and expected[1] < known_at):
        assert previewed is None
    else:
        assert previewed == messages[expected[0]]
