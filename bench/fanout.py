"""The baseline of the inbox: the read that ADR-0049 replaced.

It queries the partition of every property in full, and the unassigned one, puts the union together in memory, sorts
it and takes the newest page. It is given every advantage: plain rows instead of records, on one open connection, and
the stamps of the page's own rows only.
"""

from __future__ import annotations

import sqlite3
from typing import Any

_PARTITION = (
    "SELECT id, channel, property_id, type, participants, status, synthetic, gauntlet, created_at, last_message_at, "
    "settled_at, recorded_at, message_count FROM conversations WHERE property_id IS ?"
)
_STAMPS = "SELECT consumer, through, at, data, failed_through, error FROM stamps WHERE conversation_id = ?"


def newest(connection: sqlite3.Connection, properties: list[str | None], limit: int) -> list[tuple[Any, ...]]:
    """The newest rows over all properties, without synthetic ones, each with its stamps."""
    found: list[tuple[Any, ...]] = []
    for one in properties:
        found += connection.execute(_PARTITION, (one,)).fetchall()
    shown = [row for row in found if not row[6] and not row[7]]
    shown.sort(key=lambda row: (row[9], row[0]), reverse=True)
    return [(*row, connection.execute(_STAMPS, (row[0],)).fetchall()) for row in shown[:limit]]


def properties(connection: sqlite3.Connection) -> list[str | None]:
    """Every property, and None for the unassigned conversations. Not part of what is timed."""
    return [None, *(row[0] for row in connection.execute("SELECT DISTINCT property_id FROM conversations") if row[0])]
