"""Units of work of the keeping half: notes."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import JsonValue

from afterturn.clock import to_text
from afterturn.store.sqlite import rows

_FORGOTTEN_AT_ONCE = 100
"""More than one, so that what is over goes faster than it comes; few, so that nobody waits for it."""


@dataclass(frozen=True, slots=True)
class Note:
    """What is noted; ``dump``: the value as JSON."""

    name: str
    key: str
    dump: str
    rank: int


def note(connection: sqlite3.Connection, given: Note, replace: bool, kept: timedelta | None, now: datetime) -> bool:
    if kept is not None:
        _forget(connection, now)
    wins = ">=" if replace else ">"
    written = connection.execute(
        "INSERT INTO notes (name, key, value, rank, expires_at) VALUES (?,?,?,?,?) "
        "ON CONFLICT (name, key) DO UPDATE SET value=excluded.value, rank=excluded.rank, "
        f"expires_at=excluded.expires_at WHERE excluded.rank {wins} notes.rank",
        (given.name, given.key, given.dump, given.rank, None if kept is None else to_text(now + kept)),
    )
    return written.rowcount > 0


def noted(connection: sqlite3.Connection, name: str, keys: Sequence[str]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for key in keys:
        row = connection.execute("SELECT value FROM notes WHERE name = ? AND key = ?", (name, key)).fetchone()
        if row is not None:
            found[key] = rows.from_dump(row[0])
    return found


def _forget(connection: sqlite3.Connection, now: datetime) -> None:
    connection.execute(
        "DELETE FROM notes WHERE (name, key) IN "
        "(SELECT name, key FROM notes WHERE expires_at < ? ORDER BY expires_at LIMIT ?)",
        (to_text(now), _FORGOTTEN_AT_ONCE),
    )
