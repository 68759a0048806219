"""The due queue of the embedded engine: crashes of workers and a failed reaction's backoff."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from afterturn.reactions.debounce import Debounce
from afterturn.reactions.embedded import due_queue
from afterturn.reactions.embedded.due_queue import ClaimedReaction
from afterturn.reactions.port import Signal
from afterturn.sqlite import schema

START = datetime(2026, 3, 1, tzinfo=UTC)
AT_ONCE = Debounce(quiet=timedelta(0), max_wait=timedelta(0))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "due.db", isolation_level=None)
    schema.prepare(connection, "due.db")
    due_queue.signal(connection, Signal("c", "c1", START), AT_ONCE, START)
    yield connection
    connection.close()


def claim(file: sqlite3.Connection, minute: int) -> ClaimedReaction:
    """Claimed by a worker that crashes unless the test reports an end; its lease ends within a minute."""
    now = START + timedelta(minutes=minute)
    (claimed,) = due_queue.claim(file, "c", 1, worker="w", now=now, until=now + timedelta(seconds=30), eager=False)
    return claimed


def test_a_worker_s_crash_uses_up_no_attempt(file: sqlite3.Connection) -> None:
    assert [(claimed.attempt, claimed.crashes) for claimed in (claim(file, minute) for minute in range(4))] == [
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
    ]


def test_a_failed_run_resets_the_count_of_crashes(file: sqlite3.Connection) -> None:
    claim(file, 0)
    due_queue.retry_later(file, claim(file, 1), START + timedelta(minutes=2), counted=True)
    after = claim(file, 2)
    assert (after.attempt, after.crashes) == (2, 0)


def test_a_claim_that_is_given_back_is_no_crash(file: sqlite3.Connection) -> None:
    claim(file, 0)
    due_queue.give_back(file, [claim(file, 1)], START + timedelta(minutes=2))
    assert claim(file, 2).crashes == 1


def test_a_newer_turn_starts_without_crashes(file: sqlite3.Connection) -> None:
    claim(file, 0)
    due_queue.give_up(file, claim(file, 1), AT_ONCE)
    later = START + timedelta(minutes=2)
    due_queue.signal(file, Signal("c", "c1", later), AT_ONCE, later)
    assert claim(file, 2).crashes == 0


def test_a_reaction_may_wait_after_a_crash_so_that_others_run_without_it(file: sqlite3.Connection) -> None:
    """It keeps its crashes, and a drain that skips quiet periods does not hurry it."""
    wait = timedelta(minutes=10)
    claim(file, 0)
    claim(file, 1)
    at = START + timedelta(minutes=2)
    counts: list[int] = []

    def crash_backoff(crashes: int) -> timedelta:
        counts.append(crashes)
        return wait

    def again(now: datetime, *, eager: bool = False) -> list[ClaimedReaction]:
        until = now + timedelta(seconds=30)
        return due_queue.claim(file, "c", 1, worker="w", now=now, until=until, eager=eager, crash_backoff=crash_backoff)

    assert again(at) == []
    assert again(at + wait / 2, eager=True) == []
    assert [claimed.crashes for claimed in again(at + wait)] == [2]
    assert counts == [2]


DEBOUNCE = Debounce(quiet=timedelta(seconds=60), max_wait=timedelta(minutes=5))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.fixture
def backing_off(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A reaction that has failed at second 0, is tried again at second 4, and got a new turn at second 1."""
    connection = sqlite3.connect(tmp_path / "due.db", isolation_level=None)
    schema.prepare(connection, "due.db")
    due_queue.signal(connection, Signal("c", "c1", at(0)), DEBOUNCE, at(0))
    (claimed,) = due_queue.claim(connection, "c", 1, worker="w", now=at(0), until=at(30), eager=True)
    due_queue.retry_later(connection, claimed, at(4), counted=True)
    due_queue.signal(connection, Signal("c", "c1", at(1)), DEBOUNCE, at(1))
    yield connection
    connection.close()


def test_an_eager_worker_waits_for_the_backoff(backing_off: sqlite3.Connection) -> None:
    assert not due_queue.any_due(backing_off, "c", at(3.9), eager=True)


def test_an_eager_worker_does_not_wait_for_the_quiet_period_after_it(backing_off: sqlite3.Connection) -> None:
    assert due_queue.any_due(backing_off, "c", at(4), eager=True)
    assert due_queue.claim(backing_off, "c", 1, worker="w", now=at(4), until=at(30), eager=True)[0].attempt == 2


def test_a_worker_that_is_not_eager_waits_for_both(backing_off: sqlite3.Connection) -> None:
    assert not due_queue.any_due(backing_off, "c", at(60.9), eager=False)
    assert due_queue.any_due(backing_off, "c", at(61), eager=False)


def test_an_immediate_turn_waits_for_the_backoff_alone(backing_off: sqlite3.Connection) -> None:
    due_queue.signal(backing_off, Signal("c", "c1", at(2), immediate=True), DEBOUNCE, at(2))
    assert not due_queue.any_due(backing_off, "c", at(3.9), eager=False)
    assert due_queue.any_due(backing_off, "c", at(4), eager=False)
