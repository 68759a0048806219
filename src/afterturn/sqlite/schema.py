"""The tables of a SQLite file, and the check that a file has them.

Times are text of fixed width (see ``clock.to_text``), so they sort as text and can be read with any SQLite tool.
Composite keys are columns, so no id needs escaping.
"""

from __future__ import annotations

import sqlite3

from afterturn.errors import StoreForeign, StoreTooNew, StoreTooOld

APPLICATION_ID = 0x41465452
"""``AFTR``: marks the file as afterturn's."""

VERSION = 4
"""Raised with every change of SCHEMA; a file of any other version is refused."""

SCHEMA = """
CREATE TABLE conversations (
  id TEXT PRIMARY KEY,
  channel TEXT NOT NULL,
  property_id TEXT,
  type TEXT NOT NULL,
  participants TEXT NOT NULL,
  contact_name TEXT,
  status TEXT NOT NULL,
  synthetic INTEGER NOT NULL,
  gauntlet INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  newest_message_at TEXT,
  last_message_at TEXT,
  settled_at TEXT,
  recorded_at TEXT,
  recency TEXT NOT NULL,
  message_count INTEGER NOT NULL DEFAULT 0,
  settled_count INTEGER NOT NULL DEFAULT 0,
  preview_message_id TEXT,
  preview_direction TEXT,
  preview_role TEXT,
  preview_at TEXT,
  preview_text TEXT,
  preview_attachments INTEGER,
  preview_problem TEXT,
  assignee TEXT,
  revision INTEGER NOT NULL DEFAULT 0,
  patched_at TEXT,
  property_pinned INTEGER NOT NULL DEFAULT 0,
  closed_seq INTEGER,
  searched_seq INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX conversations_recency ON conversations (recency, id);
CREATE INDEX conversations_property ON conversations (property_id, recency, id);
CREATE INDEX conversations_unsearched ON conversations (id) WHERE searched_seq < message_count;

CREATE TABLE messages (
  conversation_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  id TEXT NOT NULL,
  provider_id TEXT,
  at TEXT NOT NULL,
  direction TEXT NOT NULL,
  role TEXT NOT NULL,
  text TEXT NOT NULL,
  attachments TEXT NOT NULL,
  edited_at TEXT,
  whole TEXT,
  PRIMARY KEY (conversation_id, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX messages_id ON messages (conversation_id, id);
CREATE UNIQUE INDEX messages_provider ON messages (conversation_id, provider_id) WHERE provider_id IS NOT NULL;

CREATE TABLE turns (
  conversation_id TEXT NOT NULL,
  occurred_at TEXT NOT NULL,
  recorded_at TEXT NOT NULL,
  last_seq INTEGER NOT NULL,
  origin TEXT NOT NULL,
  channel TEXT NOT NULL,
  emitter TEXT NOT NULL,
  flush_mode TEXT NOT NULL,
  PRIMARY KEY (conversation_id, occurred_at)
) STRICT, WITHOUT ROWID;

CREATE TABLE stamps (
  conversation_id TEXT NOT NULL,
  consumer TEXT NOT NULL,
  through TEXT,
  at TEXT,
  data TEXT NOT NULL,
  failed_through TEXT,
  error TEXT,
  PRIMARY KEY (conversation_id, consumer)
) STRICT, WITHOUT ROWID;
CREATE INDEX stamps_failed ON stamps (consumer, conversation_id) WHERE failed_through IS NOT NULL;

CREATE TABLE claims (
  name TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  done INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE work_orders (
  id TEXT PRIMARY KEY,
  conversation_id TEXT NOT NULL,
  property_id TEXT,
  category TEXT NOT NULL,
  urgency TEXT NOT NULL,
  urgency_rank INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  opened_at TEXT NOT NULL,
  status TEXT NOT NULL,
  closed_at TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX work_orders_open ON work_orders (urgency_rank, opened_at) WHERE status = 'open';
CREATE INDEX work_orders_urgency ON work_orders (urgency_rank, opened_at);
CREATE INDEX work_orders_conversation ON work_orders (conversation_id);

CREATE TABLE consumers (
  name TEXT PRIMARY KEY,
  registered_at TEXT NOT NULL,
  state TEXT NOT NULL,
  max_wait_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (name TEXT PRIMARY KEY, at TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE stream_main (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  consumer TEXT NOT NULL,
  group_id TEXT NOT NULL,
  event_id TEXT NOT NULL,
  body TEXT NOT NULL,
  published_at TEXT NOT NULL,
  visible_at TEXT NOT NULL,
  receives INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX stream_main_event ON stream_main (group_id, event_id);
CREATE INDEX stream_main_received ON stream_main (group_id, position) WHERE receives > 0;

CREATE TABLE stream_retry (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  consumer TEXT NOT NULL,
  group_id TEXT NOT NULL,
  event_id TEXT NOT NULL,
  body TEXT NOT NULL,
  published_at TEXT NOT NULL,
  visible_at TEXT NOT NULL,
  receives INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX stream_retry_event ON stream_retry (group_id, event_id, consumer);
CREATE INDEX stream_retry_received ON stream_retry (group_id, position) WHERE receives > 0;

CREATE TABLE dead_letters (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  consumer TEXT NOT NULL,
  group_id TEXT NOT NULL,
  event_id TEXT NOT NULL,
  body TEXT NOT NULL,
  published_at TEXT NOT NULL,
  died_at TEXT NOT NULL,
  receives INTEGER NOT NULL,
  reason TEXT NOT NULL
) STRICT;

CREATE TABLE reactions (
  consumer TEXT NOT NULL,
  conversation_id TEXT NOT NULL,
  newest TEXT NOT NULL,
  first_at TEXT,
  last_at TEXT,
  immediate INTEGER NOT NULL DEFAULT 0,
  due_at TEXT NOT NULL,
  retry_at TEXT,
  lease TEXT,
  attempts INTEGER NOT NULL DEFAULT 0,
  crashes INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (consumer, conversation_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX reactions_due ON reactions (consumer, due_at) WHERE failed = 0;

CREATE TABLE state (
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  version INTEGER NOT NULL,
  value TEXT NOT NULL,
  expires_at TEXT,
  PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX state_expiring ON state (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE opt_outs (
  channel TEXT NOT NULL,
  address TEXT NOT NULL,
  opted_out INTEGER NOT NULL,
  at TEXT NOT NULL,
  PRIMARY KEY (channel, address)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  conversation_id TEXT NOT NULL,
  value TEXT NOT NULL,
  due_at TEXT NOT NULL,
  visible_at TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  lease TEXT,
  done INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_waiting ON jobs (kind, visible_at, key) WHERE done = 0;

CREATE TABLE search_blocks (
  block INTEGER PRIMARY KEY,
  conversation_id TEXT NOT NULL,
  number INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX search_blocks_place ON search_blocks (conversation_id, number);

CREATE TABLE search_edits (
  conversation_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  before TEXT NOT NULL,
  PRIMARY KEY (conversation_id, seq)
) STRICT, WITHOUT ROWID;
"""


def prepare(connection: sqlite3.Connection, path: str) -> None:
    """Create the tables in a new file, in one transaction; change nothing in a file that has them.

    Raises StoreForeign for another program's database, StoreTooOld and StoreTooNew for a file of another version.
    """
    if _is_ready_at_once(connection, path):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _is_ready(connection, path):
            for statement in SCHEMA.split(";"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _is_ready_at_once(connection: sqlite3.Connection, path: str) -> bool:
    """On one snapshot: another process may be creating the tables meanwhile."""
    connection.execute("BEGIN")
    try:
        return _is_ready(connection, path)
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


def _is_ready(connection: sqlite3.Connection, path: str) -> bool:
    """Whether the tables are there; false for an empty file."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID:
        if objects or version or application:
            raise StoreForeign(f"{path} is a SQLite database of another program; name another file with --db")
        return False
    if version > VERSION:
        raise StoreTooNew(
            f"{path} was written by a newer afterturn (schema {version}, this one knows {VERSION}); upgrade afterturn"
        )
    if version < VERSION:
        raise StoreTooOld(
            f"{path} was written by an older afterturn (schema {version}, this one needs {VERSION}); "
            "name a new file with --db and import your conversations again"
        )
    return True
