"""Units of work of the job queue."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Any

from afterturn.clock import from_text, to_text
from afterturn.store.jobs import Job, LeasedJob, WaitingJob
from afterturn.store.sqlite import rows


def add_job(connection: sqlite3.Connection, job: Job, dump: str) -> None:
    """Unless its kind and key are known. ``dump``: its value as JSON."""
    due = to_text(job.due_at)
    connection.execute(
        "INSERT INTO jobs (kind, key, conversation_id, value, due_at, visible_at) VALUES (?,?,?,?,?,?) "
        "ON CONFLICT DO NOTHING",
        (job.kind, job.key, job.conversation_id, dump, due, due),
    )


def lease(
    connection: sqlite3.Connection, kind: str, now: datetime, until: datetime, name: str, limit: int
) -> tuple[LeasedJob, ...]:
    found = connection.execute(
        f"SELECT {_JOB}, attempts + 1 FROM jobs WHERE kind = ? AND done = 0 AND visible_at <= ? "
        "ORDER BY visible_at, key LIMIT ?",
        (kind, to_text(now), limit),
    ).fetchall()
    for row in found:
        connection.execute(
            "UPDATE jobs SET attempts = ?, lease = ?, visible_at = ? WHERE kind = ? AND key = ?",
            (row[5], name, to_text(until), kind, row[1]),
        )
    return tuple(LeasedJob(**_job(row), attempts=row[5], until=until, lease=name) for row in found)


def complete(connection: sqlite3.Connection, kind: str, key: str, lease: str) -> bool:
    done = connection.execute("UPDATE jobs SET done = 1 WHERE kind = ? AND key = ? AND lease = ?", (kind, key, lease))
    return done.rowcount > 0


def retry_later(connection: sqlite3.Connection, job: LeasedJob, until: datetime, attempts: int | None) -> bool:
    handed_back = connection.execute(
        "UPDATE jobs SET lease = NULL, visible_at = ?, attempts = coalesce(?, attempts) "
        "WHERE kind = ? AND key = ? AND lease = ? AND done = 0",
        (to_text(until), attempts, job.kind, job.key, job.lease),
    )
    return handed_back.rowcount > 0


def waiting(connection: sqlite3.Connection, kind: str, limit: int) -> tuple[WaitingJob, ...]:
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
