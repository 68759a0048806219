"""Debts: who owes what, since when, and when a sweep reminds of it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.samples import T0, at

from afterturn.ledger.ledger import OwedReaction, OwedState, Selection, doublings, overdue_after, remind
from afterturn.model import Conversation, StoredStamp
from afterturn.reactions.state import ReactionState, reaction_state, reaction_states
from afterturn.store.port import ConsumerState, Range, Registration

GRACE = timedelta(minutes=2)
LONG_AGO = at(-100)


def conversation(settled: datetime | None = T0, recorded: datetime | None = None) -> Conversation:
    return Conversation(id="c1", channel="sms", created_at=at(-9), settled_at=settled, recorded_at=recorded or settled)


def registration(since: datetime = LONG_AGO, state: ConsumerState = ConsumerState.LIVE) -> Registration:
    return Registration("topics", since, state, timedelta(minutes=5))


class TestState:
    @pytest.mark.parametrize(
        ("stamp", "expected"),
        [
            (None, "owed"),
            (StoredStamp(), "owed"),
            (StoredStamp(through=at(-1)), "owed"),
            (StoredStamp(through=T0), "fresh"),
            (StoredStamp(through=at(1)), "fresh"),
            (StoredStamp(failed_through=T0), "failed"),
            (StoredStamp(through=at(-1), failed_through=T0), "failed"),
            (StoredStamp(through=at(-2), failed_through=at(-1)), "owed"),
            (StoredStamp(through=T0, failed_through=T0), "fresh"),
        ],
    )
    def test_a_reaction_is_fresh_owed_or_failed(self, stamp: StoredStamp | None, expected: str) -> None:
        assert reaction_state(conversation(), stamp, registration()) == expected

    def test_what_never_settled_owes_nothing(self) -> None:
        assert reaction_state(conversation(None), None, registration()) is ReactionState.FRESH

    def test_a_late_consumer_owes_nothing_from_before(self) -> None:
        """Unless it was asked: then even an empty stamp holds it to the conversation."""
        late = registration(since=at(1))
        assert reaction_state(conversation(), None, late) is ReactionState.FRESH
        assert reaction_state(conversation(), StoredStamp(), late) is ReactionState.OWED

    def test_imported_history_is_owed_by_when_it_was_recorded(self) -> None:
        """A turn of last year that comes in today is owed by who was registered yesterday."""
        imported = conversation(settled=at(-86_400 * 365), recorded=T0)
        assert reaction_state(imported, None, registration(since=at(-86_400))) is ReactionState.OWED

    def test_a_shadow_owes_as_a_live_one_does_and_a_retired_one_nothing(self) -> None:
        states = {
            state: reaction_states(conversation(), {"topics": registration(state=state)}) for state in ConsumerState
        }
        assert states == {
            ConsumerState.LIVE: {"topics": ReactionState.OWED},
            ConsumerState.SHADOW: {"topics": ReactionState.OWED},
            ConsumerState.RETIRED: {},
        }


class TestReminding:
    def test_an_owed_reaction_is_overdue_after_grace_and_debounce(self) -> None:
        assert overdue_after(registration(), GRACE) == timedelta(minutes=7)
        assert overdue_after(registration(), timedelta(0)) == timedelta(0)

    def test_ages_double(self) -> None:
        """Swept every minute for a day, a hopeless reaction is reminded of at 2, 4, 8, … minutes."""
        reminded = [
            minute
            for minute in range(1, 1_440)
            if remind(timedelta(minutes=minute), timedelta(minutes=minute - 1), GRACE)
        ]
        assert reminded == [2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024]

    @given(st.lists(st.integers(1, 600), min_size=1, max_size=200), st.integers(1, 600))
    def test_however_irregular_the_sweeps_no_doubling_is_missed_or_told_twice(
        self, gaps: list[int], first: int
    ) -> None:
        age, before, reminded = 0, None, 0
        limit = timedelta(seconds=first)
        for gap in gaps:
            age += gap
            reminded += remind(timedelta(seconds=age), before, limit)
            before = timedelta(seconds=age)
        assert reminded <= doublings(timedelta(seconds=age), limit) + 1
        assert (reminded > 0) == (age >= first)

    def test_a_first_sweep_reminds_of_all_that_is_overdue(self) -> None:
        assert remind(timedelta(days=9), None, GRACE)
        assert not remind(timedelta(minutes=1), None, GRACE)

    def test_without_grace_every_owed_reaction_is_reminded_of(self) -> None:
        assert remind(timedelta(0), timedelta(0), timedelta(0))

    def test_a_sweep_whose_clock_stepped_back_reminds_of_nothing_twice(self) -> None:
        assert not remind(timedelta(minutes=5), timedelta(minutes=9), GRACE)

    @pytest.mark.parametrize(("age", "expected"), [(1, 0), (2, 1), (3, 1), (4, 2), (7, 2), (8, 3)])
    def test_doublings_count_from_the_first_age(self, age: int, expected: int) -> None:
        assert doublings(timedelta(seconds=age), timedelta(seconds=1)) == expected


class TestWindows:
    @pytest.fixture(params=["UTC", "Europe/London", "America/New_York", "Pacific/Kiritimati"])
    def host(self, request: pytest.FixtureRequest) -> Iterator[str]:
        """A host in another time zone."""
        before = os.environ.get("TZ")
        os.environ["TZ"] = request.param
        time.tzset()
        yield request.param
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()

    @pytest.mark.parametrize("day", ["2026-10-25", "2026-03-29"])
    @pytest.mark.usefixtures("host")
    def test_days_are_days_in_utc_wherever_the_host_stands(self, day: str) -> None:
        """F38: the 25-hour and the 23-hour day of London: every turn in exactly one daily window."""
        begin = datetime.fromisoformat(f"{day}T00:00:00+00:00")
        days = [
            Selection(since=begin + timedelta(days=n), until=begin + timedelta(days=n + 1)).range() for n in (-1, 0, 1)
        ]
        for minutes in (-1, 0, 30, 90, 1_439, 1_440):
            moment = begin + timedelta(minutes=minutes)
            assert sum(_holds(one, moment) for one in days) == 1

    def test_a_selection_names_a_property_or_the_unassigned(self) -> None:
        assert Selection().range() == Range()
        assert Selection(property_id="p1").range() == Range(of_property=True, property_id="p1")
        assert Selection(property_id="UNASSIGNED").range() == Range(of_property=True, property_id=None)

    @pytest.mark.usefixtures("host")
    def test_an_owed_reaction_is_told_in_utc(self) -> None:
        reaction = OwedReaction(conversation(), "topics", OwedState.OVERDUE, since=T0, age=timedelta(seconds=61.9))
        assert reaction.to_json() == {
            "conversationId": "c1",
            "consumer": "topics",
            "state": "overdue",
            "settledAt": "2026-03-01T12:00:00.000000Z",
            "owedSince": "2026-03-01T12:00:00.000000Z",
            "ageSeconds": 61,
        }


def _holds(part: Range, moment: datetime) -> bool:
    assert part.since is not None
    assert part.until is not None
    return part.since <= moment < part.until
