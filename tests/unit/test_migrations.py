"""A file of every released schema becomes one of this version, with everything that is in it."""

from __future__ import annotations

import hashlib
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from tests.contract.samples import T0, at, message, turn

from afterturn.model import Urgency
from afterturn.sqlite import schema
from afterturn.sqlite.database import Database
from afterturn.store.port import Amendment
from afterturn.store.sqlite import SqliteStore

VERSION_1 = "57c900c820c61d93"
"""The beginning of its SHA-256."""

OLD_ROWS = """
INSERT INTO conversations (id, channel, property_id, type, participants, status, synthetic, gauntlet, created_at,
  newest_message_at, last_message_at, settled_at, recorded_at, recency, message_count, settled_count)
  VALUES ('c1', 'sms', 'p1', 'general', '["+1555"]', 'open', 0, 0, '2026-03-01T12:00:00.000000Z',
  '2026-03-01T12:00:01.000000Z', '2026-03-01T12:00:01.000000Z', '2026-03-01T12:00:01.000000Z',
  '2026-03-01T12:00:01.000000Z', '2026-03-01T12:00:01.000000Z', 1, 1);
INSERT INTO messages (conversation_id, seq, id, provider_id, at, direction, role, text, attachments)
  VALUES ('c1', 1, 'm1', 'SM1', '2026-03-01T12:00:01.000000Z', 'inbound', 'customer', 'text of m1', '[]');
INSERT INTO turns (conversation_id, occurred_at, recorded_at, last_seq, origin, channel, emitter, flush_mode)
  VALUES ('c1', '2026-03-01T12:00:01.000000Z', '2026-03-01T12:00:01.000000Z', 1, 'text', 'sms', 'worker', 'debounced');
INSERT INTO work_orders (id, conversation_id, property_id, category, urgency, urgency_rank, message_id, opened_at,
  status) VALUES ('w1', 'c1', 'p1', 'plumbing', 'urgent', 1, 'm1', '2026-03-01T12:00:01.000000Z', 'open');
INSERT INTO claims (name, key, value) VALUES ('alert', 'k', '1')
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "afterturn.db"


def make_version_1(path: Path) -> None:
    """A file as the first release made it, with a row of each kind that has changed since."""
    connection = sqlite3.connect(path)
    connection.executescript(schema.MIGRATIONS[0] + OLD_ROWS)
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()


def test_a_released_script_is_never_edited() -> None:
    """Files that it made are out there: what is new goes into a new script."""
    assert hashlib.sha256(schema.MIGRATIONS[0].encode()).hexdigest().startswith(VERSION_1)


async def test_a_file_of_the_first_schema_keeps_what_is_in_it(path: Path) -> None:
    make_version_1(path)
    with Database.open(path) as database:
        store = SqliteStore(database)
        found = await store.conversation("c1")
        assert found is not None
        assert (found.property_id, found.participants, found.settled_at) == ("p1", ("+1555",), at(1))
        assert await store.messages("c1") == (message("m1", 1, provider_id="SM1"),)
        (order,) = await store.work_orders(limit=9)
        assert (order.id, order.urgency) == ("w1", Urgency.URGENT)
        assert await store.claim("alert", "k", 2) == 1


async def test_a_file_of_the_first_schema_takes_what_is_new(path: Path) -> None:
    """And stands at the same version as a new one, with the same tables."""
    make_version_1(path)
    with Database.open(path) as database:
        store = SqliteStore(database)
        assert not (await store.settle(turn("c1", message("m1", 1)), now=at(9), emitter="worker")).new
        assert (await store.settle(turn("c1", message("m2", 2)), now=at(9), emitter="worker")).new
        assert await store.note("mail", "k", "c1")
        assert await store.edit_message("c1", "SM1", "new", at=at(10))
        amended = await store.amend("c1", Amendment(assignee="sam", property_id=None), revision=0, now=at(11))
        assert (amended.assignee, amended.property_id, amended.revision) == ("sam", None, 1)
        closed = await store.close_work_order("c1", "w1", now=at(12))
        assert closed is not None
        assert await store.work_orders(limit=9) == ()
    fresh = path.with_name("fresh.db")
    Database.open(fresh).close()
    assert shape(path) == shape(fresh)


def shape(path: Path) -> list[tuple[str, list[tuple[object, ...]]]]:
    """Every table and index with its columns, and the version."""
    connection = sqlite3.connect(path)
    names = connection.execute("SELECT type, name FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY 1, 2").fetchall()
    found = [(name, connection.execute(f"PRAGMA {kind}_xinfo({name})").fetchall()) for kind, name in names]
    found.append(("version", connection.execute("PRAGMA user_version").fetchall()))
    connection.close()
    return found


async def test_a_note_whose_time_is_over_is_forgotten(path: Path) -> None:
    """Otherwise a file would keep every idempotency key there ever was; what has no time is kept."""
    now = T0
    with Database.open(path) as database:
        store = SqliteStore(database, clock=lambda: now)
        await store.note("idempotency", "old", 1, kept=timedelta(days=1))
        await store.note("mail", "kept", 2)
        now = T0 + timedelta(hours=23)
        await store.note("idempotency", "young", 3, kept=timedelta(days=1))
        assert await store.noted("idempotency", ["old", "young"]) == {"old": 1, "young": 3}
        now = T0 + timedelta(hours=25)
        await store.note("idempotency", "next", 4, kept=timedelta(days=1))
        assert await store.noted("idempotency", ["old", "young"]) == {"young": 3}
        assert await store.noted("mail", ["kept"]) == {"kept": 2}
        assert await store.note("idempotency", "old", 5, kept=timedelta(days=1))
