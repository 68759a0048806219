"""Units of work of the keeping half: notes and jobs."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from afterturn.clock import from_text, to_text
from afterturn.store.port import Job, LeasedJob, Note, WaitingJob
from afterturn.store.sqlite import rows

_FORGOTTEN_AT_ONCE = 100
"""More than one, so that what is over goes faster than it comes; few, so that nobody waits for it."""


def note(connection: sqlite3.Connection, given: Note, dump: str, now: datetime) -> bool:
    """``dump``: its value as JSON."""
    if given.kept is not None:
        _forget(connection, now)
    wins = ">=" if given.replace else ">"
    written = connection.execute(
        "INSERT INTO state (kind, key, value, version, expires_at) VALUES (?,?,?,?,?) "
        "ON CONFLICT (kind, key) DO UPDATE SET value=excluded.value, version=excluded.version, "
        f"expires_at=excluded.expires_at WHERE excluded.version {wins} state.version",
        (given.name, given.key, dump, given.rank, None if given.kept is None else to_text(now + given.kept)),
    )
    return written.rowcount > 0


def noted(connection: sqlite3.Connection, name: str, keys: Sequence[str]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for key in keys:
        row = connection.execute("SELECT value FROM state WHERE kind = ? AND key = ?", (name, key)).fetchone()
        if row is not None:
            found[key] = rows.from_dump(row[0])
    return found


def add_job(connection: sqlite3.Connection, job: Job, dump: str) -> None:
    """Unless its kind and key are known. ``dump``: its value as JSON."""
    due = to_text(job.due_at)
    connection.execute(
        "INSERT INTO jobs (kind, key, conversation_id, value, due_at, visible_at) VALUES (?,?,?,?,?,?) "
        "ON CONFLICT DO NOTHING",
        (job.kind, job.key, job.conversation_id, dump, due, due),
    )


def lease_jobs(
    connection: sqlite3.Connection, kind: str, now: datetime, until: datetime, lease: str, limit: int
) -> tuple[LeasedJob, ...]:
    found = connection.execute(
        f"SELECT {_JOB}, attempts + 1 FROM jobs WHERE kind = ? AND done = 0 AND visible_at <= ? "
        "ORDER BY visible_at, key LIMIT ?",
        (kind, to_text(now), limit),
    ).fetchall()
    for row in found:
        connection.execute(
            "UPDATE jobs SET attempts = ?, lease = ?, visible_at = ? WHERE kind = ? AND key = ?",
            (row[5], lease, to_text(until), kind, row[1]),
        )
    return tuple(LeasedJob(**_job(row), attempts=row[5], until=until, lease=lease) for row in found)


def complete(connection: sqlite3.Connection, kind: str, key: str, lease: str) -> bool:
    done = connection.execute("UPDATE jobs SET done = 1 WHERE kind = ? AND key = ? AND lease = ?", (kind, key, lease))
    return done.rowcount > 0


def retry_later(connection: sqlite3.Connection, kind: str, key: str, lease: str, until: datetime) -> bool:
    put_off = connection.execute(
        "UPDATE jobs SET lease = NULL, visible_at = ? WHERE kind = ? AND key = ? AND lease = ? AND done = 0",
        (to_text(until), kind, key, lease),
    )
    return put_off.rowcount > 0


def waiting_jobs(connection: sqlite3.Connection, kind: str, limit: int) -> tuple[WaitingJob, ...]:
    found = connection.execute(
        f"SELECT {_JOB}, visible_at, attempts FROM jobs WHERE kind = ? AND done = 0 ORDER BY visible_at, key LIMIT ?",
        (kind, limit),
    )
    return tuple(WaitingJob(**_job(row), visible_at=from_text(row[5]), attempts=row[6]) for row in found)


_JOB = "kind, key, conversation_id, value, due_at"


def _job(row: tuple[Any, ...]) -> dict[str, Any]:
    return {
        "kind": row[0],
        "key": row[1],
        "conversation_id": row[2],
        "value": rows.from_dump(row[3]),
        "due_at": from_text(row[4]),
    }


def _forget(connection: sqlite3.Connection, now: datetime) -> None:
    connection.execute(
        "DELETE FROM state WHERE (kind, key) IN "
        "(SELECT kind, key FROM state WHERE expires_at < ? ORDER BY expires_at LIMIT ?)",
        (to_text(now), _FORGOTTEN_AT_ONCE),
    )
