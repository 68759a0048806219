"""A turn that settles while a failed reaction backs off: a drain without quiet periods waits for the back-off only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from afterturn.reactions.debounce import Debounce
from afterturn.reactions.embedded import due_queue
from afterturn.reactions.port import Signal
from afterturn.sqlite import schema

START = datetime(2026, 3, 1, tzinfo=UTC)
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


def test_an_eager_worker_waits_for_the_back_off(backing_off: sqlite3.Connection) -> None:
    assert not due_queue.any_due(backing_off, "c", at(3.9), eager=True)


def test_and_not_for_the_quiet_period_after_it(backing_off: sqlite3.Connection) -> None:
    assert due_queue.any_due(backing_off, "c", at(4), eager=True)
    assert due_queue.claim(backing_off, "c", 1, worker="w", now=at(4), until=at(30), eager=True)[0].attempt == 2


def test_another_worker_waits_for_both(backing_off: sqlite3.Connection) -> None:
    assert not due_queue.any_due(backing_off, "c", at(60.9), eager=False)
    assert due_queue.any_due(backing_off, "c", at(61), eager=False)


def test_an_immediate_turn_waits_for_the_back_off_alone(backing_off: sqlite3.Connection) -> None:
    due_queue.signal(backing_off, Signal("c", "c1", at(2), immediate=True), DEBOUNCE, at(2))
    assert not due_queue.any_due(backing_off, "c", at(3.9), eager=False)
    assert due_queue.any_due(backing_off, "c", at(4), eager=False)
