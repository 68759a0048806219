"""What pages are made of, without a server: addresses, words, links, plots."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from afterturn import Channel
from afterturn.clock import EPOCH
from afterturn.errors import InvalidInput
from afterturn.inbox import InboxQuery, TimeWindow
from afterturn.inbox.presentation import age
from afterturn.model import Status
from afterturn.store.invariants import MAX_VALUE_BYTES
from afterturn.store.state import dump_state, load_state
from afterturn.web.pages.conversation import readable, text_parts, web_link
from afterturn.web.pages.history import MOST_CONSUMERS, PlotSlot, Point, Span, worst
from afterturn.web.pages.inbox import PAGE, address_of_person, pairs_of, read_query
from afterturn.web.pages.operations import PlotRange, plot
from afterturn.web.pages.rendering import address, conversation_path
from afterturn.web.pages.routing import local_path

IDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=20)
LABELS = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,9}", fullmatch=True)


@given(
    st.builds(
        InboxQuery,
        window=st.sampled_from([None, *(one for one in TimeWindow if one is not TimeWindow.ALL)]),
        properties=st.lists(IDS, unique=True, max_size=3),
        channels=st.lists(st.sampled_from(Channel), unique=True),
        topics=st.lists(LABELS, unique=True, max_size=3),
        grades=st.lists(st.sampled_from("ABCDF"), unique=True),
        owed=st.lists(LABELS, unique=True, max_size=2),
        failed=st.lists(LABELS, unique=True, max_size=2),
        status=st.sampled_from([None, *Status]),
        participant=st.none() | IDS,
        include_synthetic=st.booleans(),
    )
)
def test_an_address_says_all_of_its_query_and_nothing_else(query: InboxQuery) -> None:
    where = address("/", pairs_of(query)).partition("?")[2]
    assert read_query(parse_qsl(where, keep_blank_values=True)) == query


@given(st.lists(st.tuples(st.sampled_from(["window", "grade", "type", "x", "owed", "status"]), st.text(max_size=9))))
def test_no_address_is_answered_with_anything_but_a_query_or_a_reason(pairs: list[tuple[str, str]]) -> None:
    with suppress(InvalidInput):
        assert read_query(pairs).limit == PAGE


@given(st.text(max_size=300))
def test_links_take_nothing_from_a_text_and_lead_into_the_web_only(text: str) -> None:
    found = list(text_parts(text + " https://a.example/b?c=d. javascript:alert(1)"))
    assert "".join(one.text for one in found) == text + " https://a.example/b?c=d. javascript:alert(1)"
    assert "https://a.example/b?c=d" in [one.href for one in found]
    assert all(one.href is None or one.href.startswith(("http://", "https://")) for one in found)


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "https://", "//evil", "file:///etc/passwd", "https://[", "x", ""]
)
def test_what_is_no_address_of_the_web_is_no_link(url: str) -> None:
    assert web_link(url) is None


@pytest.mark.parametrize(
    ("words", "person"),
    [
        ("+1 (515) 555-0142", "+15155550142"),
        ("515 555 0142", "+15155550142"),
        ("mailto:a@example.com", "a@example.com"),
        ("gas-smell-2b", None),
        ("1234", None),
        ("two words@example", None),
    ],
)
def test_phones_and_mails_are_told_from_ids(words: str, person: str | None) -> None:
    assert address_of_person(words, "US") == person


@pytest.mark.parametrize("path", ["//a", "/\\a", "https://a", "a", "", "/a\nb", "/\t/a"])
def test_only_a_path_of_this_server_is_local(path: str) -> None:
    assert local_path(path) == "/"


def test_a_path_keeps_every_character_of_an_id() -> None:
    assert conversation_path("a/b?c#d%") == "/conversations/a%2Fb%3Fc%23d%25"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "now"), (0, "now"), (59, "59s"), (60, "1m"), (7199, "1h"), (86_400, "1d")]
)
def test_ages_have_their_largest_unit(seconds: int, text: str) -> None:
    assert age(timedelta(seconds=seconds)) == text


def test_a_stamp_is_told_in_lines_and_what_is_nested_is_left_to_json() -> None:
    data: dict[str, JsonValue] = {
        "topics": ["keys", "rent"],
        "firstResponseS": 9.0,
        "handedOver": True,
        "alert": None,
        "state": {"a": 1},
    }
    assert list(readable(data)) == [
        ("topics", "keys, rent"),
        ("first response (s)", "9.0"),
        ("handed over", "yes"),
    ]


NOW = EPOCH + timedelta(days=1)
HOUR = PlotRange(Span.HOUR, NOW)


def past(*values: float | None, every: timedelta = timedelta(minutes=5)) -> list[tuple[datetime, float | None]]:
    """Values of which the last one is of now."""
    return [(NOW - every * (len(values) - place - 1), value) for place, value in enumerate(values)]


def test_a_plot_spans_its_box_and_says_what_it_shows() -> None:
    drawn = plot(past(0, 4, 2), HOUR, "Dead letters")
    assert drawn is not None
    assert drawn.line == "M0.0,24.0 L0.0,24.0 L60.0,0.0 L120.0,12.0"
    assert drawn.label == "Dead letters: now 2, highest 4 of the last 10m"
    assert plot(past(1), HOUR, "Dead letters") is None


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        (past(1, 2, 2), 1),
        (past(1, 2, 2, every=timedelta(minutes=15)), 3),
        (past(1, None, 2, 2), 2),
        (past(None, 1, 2, None), 1),
    ],
)
def test_a_plot_breaks_where_nobody_looked_or_nothing_answered(
    values: list[tuple[datetime, float | None]], lines: int
) -> None:
    drawn = plot(values, HOUR, "Dead letters")
    assert drawn is not None
    assert drawn.line.count("M") == drawn.under.count("Z") == lines
    assert ("now unknown" in drawn.label) == (values[-1][1] is None)


def test_a_plot_goes_back_as_far_as_it_says() -> None:
    whole = [(NOW - timedelta(minutes=ago), float(ago)) for ago in range(60, -1, -1)]
    drawn = plot(whole, HOUR, "Lag", written=lambda value: f"{value:g}m")
    assert drawn is not None
    assert drawn.label == "Lag: now 0m, highest 60m of the last hour"
    assert drawn.line.endswith("L120.0,24.0")


STAGES = st.dictionaries(st.sampled_from(["main", "retry", "waiting", "failed", "dead"]), st.integers(0, 10**9))
POINTS = st.builds(
    Point,
    at=st.just(EPOCH),
    stages=STAGES,
    lags=st.dictionaries(LABELS, st.floats(0.1, 1e9).map(lambda one: round(one, 1)), max_size=MOST_CONSUMERS),
    failures=st.dictionaries(LABELS, st.integers(1, 10**6), max_size=MOST_CONSUMERS),
)


@given(POINTS, POINTS)
def test_what_is_noted_of_a_slot_reads_back_and_only_rises(one: Point, other: Point) -> None:
    assert read_back(one) == one
    both = worst(one, other)
    assert both == worst(other, one) == worst(both, one)


def test_a_note_of_a_slot_stays_within_its_size_whatever_the_number_of_consumers() -> None:
    names = [f"{number:064d}" for number in range(500)]
    point = Point(
        EPOCH,
        dict.fromkeys(("main", "retry", "waiting", "failed", "dead"), 10**12),
        {name: 1e9 + place for place, name in enumerate(names)},
        dict.fromkeys(names, 10**6),
    )
    assert len(dump_state(PlotSlot.of(point))) < MAX_VALUE_BYTES
    assert names[-1] in read_back(point).lags


def read_back(point: Point) -> Point:
    slot = PlotSlot.of(point)
    return load_state(PlotSlot, slot.key, slot.version, dump_state(slot)).point
