"""When a failed job runs again."""

from __future__ import annotations

from datetime import timedelta

from afterturn.jobs.runner import RetryPolicy

POLICY = RetryPolicy((5, 30, 120), give_up_after=timedelta(days=3))


def seconds(attempts: int, *, age: timedelta = timedelta(0), after: timedelta | None = None) -> float | None:
    delay = POLICY.next_delay(attempts, age, after)
    return None if delay is None else delay.total_seconds()


def test_delays_grow_and_the_last_one_repeats() -> None:
    assert [seconds(attempts) for attempts in (1, 2, 3, 4, 99)] == [5, 30, 120, 120, 120]


def test_a_failure_that_says_how_long_to_wait_is_believed() -> None:
    assert seconds(1, after=timedelta(minutes=15)) == 900


def test_a_job_is_given_up_by_its_age_whatever_the_failure_asks_for() -> None:
    assert seconds(1, age=timedelta(days=3)) == 5
    assert seconds(1, age=timedelta(days=3, seconds=1), after=timedelta(minutes=1)) is None


def test_a_policy_without_an_end_never_gives_up() -> None:
    assert RetryPolicy((5,)).next_delay(1_000, timedelta(days=9_999)) == timedelta(seconds=5)
