"""Workers that die during a run say nothing against the consumer: its attempts and its back-off are its own."""

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
    """By a worker that is not heard of again, unless the test lets it tell more; its lease ends within a minute."""
    now = START + timedelta(minutes=minute)
    (claimed,) = due_queue.claim(file, "c", 1, worker="w", now=now, until=now + timedelta(seconds=30), eager=False)
    return claimed


def test_deaths_use_up_no_attempts(file: sqlite3.Connection) -> None:
    assert [(one.attempt, one.crashes) for one in (claim(file, minute) for minute in range(4))] == [
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
    ]


def test_a_run_that_fails_and_lives_ends_the_row_of_deaths(file: sqlite3.Connection) -> None:
    claim(file, 0)
    due_queue.retry_later(file, claim(file, 1), START + timedelta(minutes=2), counted=True)
    after = claim(file, 2)
    assert (after.attempt, after.crashes) == (2, 0)


def test_a_claim_that_is_given_back_was_no_death(file: sqlite3.Connection) -> None:
    claim(file, 0)
    due_queue.give_back(file, [claim(file, 1)], START + timedelta(minutes=2))
    assert claim(file, 2).crashes == 1


def test_a_newer_turn_gets_deaths_of_its_own(file: sqlite3.Connection) -> None:
    claim(file, 0)
    due_queue.give_up(file, claim(file, 1), AT_ONCE)
    later = START + timedelta(minutes=2)
    due_queue.signal(file, Signal("c", "c1", later), AT_ONCE, later)
    assert claim(file, 2).crashes == 0


def test_after_a_death_a_reaction_may_be_crash_backoff_so_that_others_run_without_it(file: sqlite3.Connection) -> None:
    """It keeps its crashes, and a drain that skips quiet periods does not hurry it."""
    wait = timedelta(minutes=10)
    claim(file, 0)
    claim(file, 1)
    at = START + timedelta(minutes=2)
    told: list[int] = []

    def crash_backoff(crashes: int) -> timedelta:
        told.append(crashes)
        return wait

    def again(now: datetime, *, eager: bool = False) -> list[ClaimedReaction]:
        until = now + timedelta(seconds=30)
        return due_queue.claim(file, "c", 1, worker="w", now=now, until=until, eager=eager, crash_backoff=crash_backoff)

    assert again(at) == []
    assert again(at + wait / 2, eager=True) == []
    assert [one.crashes for one in again(at + wait)] == [2]
    assert told == [2]
