"""The debounce, alone: exact times, and a reference timeline of every flush."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.contract.samples import T0, at

from afterturn.reactions.debounce import Debounce, Pending

QUIET, MAX_WAIT = 5, 60
POLICY = Debounce(quiet=timedelta(seconds=QUIET), max_wait=timedelta(seconds=MAX_WAIT))

ARRIVALS = st.lists(
    st.tuples(st.integers(0, 200), st.sampled_from([False, False, False, True])), min_size=1, max_size=60
).map(lambda arrivals: sorted(arrivals, key=lambda arrival: arrival[0]))


def flushes(arrivals: list[tuple[int, bool]]) -> list[tuple[datetime, list[int]]]:
    """What an engine does that runs everything at the moment it is due, before what arrives at that moment."""
    done: list[tuple[datetime, list[int]]] = []
    pending: Pending | None = None
    waiting: list[int] = []
    for number, (second, immediate) in enumerate(arrivals):
        if pending is not None and POLICY.due_at(pending) <= at(second):
            done.append((POLICY.due_at(pending), waiting))
            pending, waiting = None, []
        pending = POLICY.signal(pending, at(second), immediate=immediate)
        waiting.append(number)
        if POLICY.due_at(pending) <= at(second):
            done.append((at(second), waiting))
            pending, waiting = None, []
    if pending is not None:
        done.append((POLICY.due_at(pending), waiting))
    return done


def reference(arrivals: list[tuple[int, bool]]) -> list[tuple[datetime, list[int]]]:
    """The same, second by second, from the words of the promise alone."""
    done: list[tuple[datetime, list[int]]] = []
    waiting: list[int] = []
    for second in range(400):
        if waiting:
            first, last = arrivals[waiting[0]][0], arrivals[waiting[-1]][0]
            if second - last >= QUIET or second - first >= MAX_WAIT:
                done.append((at(second), waiting))
                waiting = []
        for number, (arrived, immediate) in enumerate(arrivals):
            if arrived == second:
                waiting.append(number)
                if immediate:
                    done.append((at(second), waiting))
                    waiting = []
    return done


@given(ARRIVALS)
def test_flushes_are_those_of_the_reference_timeline(arrivals: list[tuple[int, bool]]) -> None:
    assert flushes(arrivals) == reference(arrivals)


@given(ARRIVALS)
def test_every_turn_is_in_exactly_one_flush_and_none_waits_too_long(arrivals: list[tuple[int, bool]]) -> None:
    done = flushes(arrivals)
    assert [number for _, flushed in done for number in flushed] == list(range(len(arrivals)))
    for moment, flushed in done:
        waited = (moment - at(arrivals[flushed[0]][0])).total_seconds()
        assert 0 <= waited <= MAX_WAIT


def test_a_first_turn_waits_one_quiet_period() -> None:
    pending = POLICY.signal(None, T0)
    assert pending == Pending(T0, T0)
    assert POLICY.due_at(pending) == at(QUIET)


def test_each_turn_moves_the_end_but_never_beyond_the_maximum() -> None:
    pending = POLICY.signal(None, T0)
    for second in range(4, 100, 4):
        pending = POLICY.signal(pending, at(second))
        assert POLICY.due_at(pending) == at(min(second + QUIET, MAX_WAIT))


def test_immediate_is_due_at_once_and_stays_so() -> None:
    pending = POLICY.signal(POLICY.signal(None, T0), at(2), immediate=True)
    assert POLICY.due_at(pending) <= at(2)
    assert POLICY.due_at(POLICY.signal(pending, at(3))) <= at(2)


def test_nothing_waits_for_a_clock_that_stepped_back_to_catch_up() -> None:
    """The maximum counts from the earliest time that was seen; what asks for now is due now."""
    pending = POLICY.signal(POLICY.signal(None, at(100)), at(20))
    assert pending == Pending(at(20), at(100))
    assert POLICY.due_at(pending) == at(20 + MAX_WAIT)
    assert POLICY.due_at(POLICY.signal(pending, at(21), immediate=True)) <= at(21)


def test_no_quiet_period_means_now() -> None:
    now = Debounce(quiet=timedelta(0), max_wait=timedelta(0))
    assert now.due_at(now.signal(None, T0)) == T0


@dataclass
class Arrivals:
    arrivals: list[datetime] = field(default_factory=list)
    immediate: bool = False


class DebounceMachine(RuleBasedStateMachine):
    """Turns, flushes and a clock that also steps back, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = T0
        self.pending: Pending | None = None
        self.waiting = Arrivals()

    @rule(seconds=st.sampled_from([0, 0.5, 1, 4, 5, 30, 61, -3]))
    def time_passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(immediate=st.booleans())
    def turn(self, immediate: bool) -> None:
        self.pending = POLICY.signal(self.pending, self.now, immediate=immediate)
        self.waiting.arrivals.append(self.now)
        self.waiting.immediate = self.waiting.immediate or immediate

    @rule()
    def flush_if_due(self) -> None:
        if self.pending is not None and POLICY.due_at(self.pending) <= self.now:
            self.pending, self.waiting = None, Arrivals()

    @invariant()
    def due_is_what_was_promised(self) -> None:
        if self.pending is None:
            assert self.waiting.arrivals == []
            return
        first, last = min(self.waiting.arrivals), max(self.waiting.arrivals)
        due = POLICY.due_at(self.pending)
        if self.waiting.immediate:
            assert due == first
        else:
            assert due == min(last + POLICY.quiet, first + POLICY.max_wait)


TestDebounceMachine = DebounceMachine.TestCase
