"""Large databases for the inbox, filled by SQL straight into the tables and kept for the next run.

What a conversation is like follows from its number by a few multiplications, so every build gives the same rows: ids
in random order of time, properties of unequal size, an eighth unassigned, a year of history, stamps of the four
shipped consumers. 2% owe one consumer its newest turn, 0.2% have failed, 5% are about the topic that is filtered for.
"""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

from afterturn.sqlite import schema
from afterturn.store.sqlite.rows import PREVIEW
from bench import files

PROPERTIES = 200
RARE_TOPIC = "pests"
"""The topic of one conversation in twenty."""
NOW = "2026-11-30 12:00:00"
YEAR = 31_536_000

_AT = "strftime('%Y-%m-%dT%H:%M:%S', {seconds}, 'unixepoch') || printf('.%06dZ', {micros})"

_CONVERSATIONS = f"""
INSERT INTO conversations (id, channel, property_id, type, participants, status, synthetic, gauntlet, created_at,
  newest_message_at, last_message_at, settled_at, recorded_at, recency, message_count, settled_count,
  {{preview}})
SELECT id, channel, property_id, type, participants, status, synthetic, 0, {{created}}, {{last}}, {{last}},
  {{settled}}, {{last}}, {{last}}, 8, 8, id || '-8', 'outbound', 'agent', {{last}},
  'Thank you for writing. The office can show you the apartment on any weekday after nine.', 0, NULL
FROM (
  SELECT printf('conv-%010d', n) AS id,
    CASE h % 10 WHEN 0 THEN 'voice' WHEN 1 THEN 'email' WHEN 2 THEN 'email' WHEN 3 THEN 'web' WHEN 4 THEN 'telegram'
      ELSE 'sms' END AS channel,
    CASE WHEN h / 16 % 8 = 0 THEN NULL
      ELSE printf('property-%03d', (h / 128 % {PROPERTIES}) * (h / 25600 % {PROPERTIES}) / {PROPERTIES}) END
      AS property_id,
    CASE h / 7 % 3 WHEN 0 THEN 'lead' ELSE 'general' END AS type,
    json_array(printf('+1555%07d', h % 10000000)) AS participants,
    CASE h / 11 % 4 WHEN 0 THEN 'open' ELSE 'closed' END AS status,
    h / 13 % 100 = 0 AS synthetic,
    unixepoch('{NOW}') - (n * 2654435761 % :count) * {YEAR} / :count - h % 60 AS seconds,
    h % 1000000 AS micros
  FROM (SELECT n, n * 40503 * 2654435761 / 65536 % 2147483647 AS h FROM numbers)
)
""".format(
    preview=", ".join(PREVIEW),
    created=_AT.format(seconds="seconds - 86400", micros="micros"),
    last=_AT.format(seconds="seconds", micros="micros"),
    settled=_AT.format(seconds="seconds", micros="micros / 1000 * 1000"),
)

_STAMPS = f"""
INSERT INTO stamps (conversation_id, consumer, through, at, data, failed_through, error)
SELECT id, consumer,
  CASE WHEN consumer = 'topics' AND (owed OR failed) THEN NULL ELSE settled_at END,
  CASE WHEN consumer = 'topics' AND (owed OR failed) THEN created_at ELSE recorded_at END,
  CASE consumer
    WHEN 'topics' THEN json_object('topics', json_array(
      CASE WHEN n % 20 = 7 THEN '{RARE_TOPIC}' ELSE 'leasing' END, 'availability'), 'matched', json_array('apartment'))
    WHEN 'grade' THEN json_object('grade', substr('ABBCD', 1 + n % 5, 1), 'answered', json('true'), 'seconds', n % 900,
      'reasons', json_array('answered', 'polite'))
    WHEN 'maintenance' THEN json_object('orders', json_array(), 'urgency', NULL, 'seen', 8)
    ELSE json_object('inbound', 4, 'handed', 1, 'through', settled_at) END,
  CASE WHEN consumer = 'topics' AND failed THEN settled_at END,
  CASE WHEN consumer = 'topics' AND failed THEN 'TimeoutError' END
FROM (
  SELECT id, created_at, settled_at, recorded_at, n, n % 50 = 3 AS owed, n % 500 = 4 AS failed
  FROM (SELECT id, created_at, settled_at, recorded_at, CAST(substr(id, 6) AS INTEGER) * 7919 % 1000003 AS n
        FROM conversations)
) CROSS JOIN (SELECT 'grade' AS consumer UNION ALL SELECT 'inbound-package' UNION ALL SELECT 'maintenance'
  UNION ALL SELECT 'topics')
"""


def database(conversations: int, folder: Path | None = None) -> Path:
    """A file with so many conversations; built where it is not there yet, for exactly this schema and this module."""
    recipe = hashlib.sha256("".join((schema.SCHEMA, _CONVERSATIONS, _STAMPS)).encode()).hexdigest()[:12]
    place = folder or files.CACHE
    path = place / f"fleet-{recipe}-{conversations}.db"
    if path.exists():
        return path
    place.mkdir(parents=True, exist_ok=True)
    for older in place.glob(f"fleet-*-{conversations}.db*"):
        older.unlink()
    unfinished = files.fresh(place, "fleet-unfinished")
    with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
        _fill(connection, conversations)
    unfinished.rename(path)
    return path


def _fill(connection: sqlite3.Connection, conversations: int) -> None:
    """Without indexes first: they are built faster at the end, out of sorted rows."""
    for pragma in ("journal_mode = DELETE", "synchronous = OFF", "cache_size = -400000", "temp_store = FILE"):
        connection.execute(f"PRAGMA {pragma}")
    indexes = connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name IN ('conversations', 'stamps') "
        "AND sql IS NOT NULL"
    ).fetchall()
    connection.execute("BEGIN")
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    numbers = "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :count) "
    connection.execute(numbers + _CONVERSATIONS, {"count": conversations})
    connection.execute(_STAMPS)
    for _, sql in indexes:
        connection.execute(sql)
    connection.executemany(
        "INSERT INTO consumers (name, registered_at, state, max_wait_ms) VALUES (?, '2020-01-01T00:00:00.000000Z', "
        "'live', 300000)",
        [("topics",), ("grade",), ("maintenance",), ("inbound-package",)],
    )
    connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode = WAL")
