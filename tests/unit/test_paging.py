"""What the inbox decides without a store: how much to read next, what a query asks for, what a row matches."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.contract.samples import T0, at

from afterturn.inbox import InboxPage, InboxQuery, TimeWindow
from afterturn.inbox.filters import property_ids, row_filter
from afterturn.inbox.inbox import read_size
from afterturn.inbox.page import row_of
from afterturn.model import Conversation, StoredStamp
from afterturn.store.port import ConsumerState, Registration


@given(st.integers(1, 500), st.integers(0, 5_000), st.integers(0, 500), st.integers(1, 1_000_000))
def test_a_read_is_never_empty_and_never_beyond_the_budget(
    missing: int, scanned: int, passed: int, budget: int
) -> None:
    assert 1 <= read_size(missing, max(scanned, passed), passed, budget) <= min(budget, 1_000)


def test_reads_grow_while_nothing_matches() -> None:
    """A rare row costs a number of reads that grows with the logarithm of its depth."""
    scanned, reads = 0, []
    while scanned < 2_000:
        reads.append(read_size(50, scanned, 0, 10_000))
        scanned += reads[-1]
    assert reads == [50, 100, 300, 900, 1_000]


@pytest.mark.parametrize(
    ("missing", "scanned", "passed", "expected"),
    [(50, 0, 0, 50), (25, 50, 25, 50), (1, 50, 49, 2), (50, 50, 50, 50), (10, 100, 1, 1_000)],
)
def test_reads_follow_the_share_that_passed(missing: int, scanned: int, passed: int, expected: int) -> None:
    assert read_size(missing, scanned, passed, 10_000) == expected


def test_windows_are_counted_back_from_now() -> None:
    assert InboxQuery(window=TimeWindow.WEEK).bounds(T0) == (T0 - timedelta(days=7), None)
    assert InboxQuery(window=TimeWindow.ALL).bounds(T0) == (None, None)
    assert InboxQuery().bounds(T0) == (None, None)
    assert InboxQuery(since=at(-1), until=T0).bounds(at(99)) == (at(-1), T0)
    assert InboxQuery(window=TimeWindow.DAY, until=T0).bounds(T0) == (T0 - timedelta(hours=24), T0)


@pytest.mark.parametrize(
    "asked",
    [
        {"window": "24h", "since": T0},
        {"since": T0, "until": T0},
        {"since": at(1), "until": T0},
        {"window": "1y"},
        {"limit": 0},
        {"limit": 501},
        {"budget": 0},
        {"channels": ("pigeon",)},
        {"since": "2026-03-01T12:00:00"},
        {"topics": ("Rent!",)},
        {"owned": ("topics",)},
    ],
)
def test_a_query_that_makes_no_sense_is_refused(asked: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        InboxQuery.model_validate(asked)


def test_properties_are_asked_once_each() -> None:
    assert property_ids(InboxQuery(properties=("p2", "UNASSIGNED", "p1", "p2"))) == ("p2", None, "p1")


def conversation(**stamps: StoredStamp) -> Conversation:
    return Conversation(
        id="c1", channel="sms", created_at=T0, settled_at=T0, recorded_at=T0, last_message_at=T0, reactions=stamps
    )


def registration(name: str, state: ConsumerState = ConsumerState.LIVE) -> Registration:
    return Registration(name, T0, state, timedelta(0))


@pytest.mark.parametrize(
    "data", [{}, {"topics": None}, {"topics": "rent"}, {"topics": {"rent": 1}}, {"topics": [None]}]
)
def test_a_stamp_of_another_shape_matches_no_topic(data: dict[str, object]) -> None:
    """A user may register a consumer named topics that stamps what it likes."""
    row = row_of(
        conversation(topics=StoredStamp.model_validate({"through": T0, "data": data})),
        {"topics": registration("topics")},
    )
    assert not row_filter(InboxQuery(topics=("rent",)))(row)
    assert row_filter(InboxQuery())(row)


@pytest.mark.parametrize("state", [ConsumerState.SHADOW, ConsumerState.RETIRED])
def test_the_stamps_of_shadows_and_retired_consumers_are_not_asked(state: ConsumerState) -> None:
    row = row_of(
        conversation(grade=StoredStamp(through=T0, data={"grade": "A"})), {"grade": registration("grade", state)}
    )
    assert row.states == {}
    assert not row_filter(InboxQuery(grades=("A",)))(row)
    assert not row_filter(InboxQuery(owed=("any",)))(row)


def test_a_page_is_json() -> None:
    row = row_of(conversation(topics=StoredStamp(through=T0, data={"n": 1})), {"topics": registration("topics")})
    page = InboxPage((row,), None, complete=True, scanned=1).to_json()
    assert (page["nextCursor"], page["complete"], page["scanned"]) == (None, True, 1)
    assert page["rows"][0]["reactions"] == {
        "topics": {"state": "fresh", "through": "2026-03-01T12:00:00.000000Z", "data": {"n": 1}}
    }
    assert page["rows"][0]["settledAt"] == "2026-03-01T12:00:00.000000Z"
