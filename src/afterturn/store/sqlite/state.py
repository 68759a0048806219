"""Units of work of typed state, opt-outs and the job queue."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from afterturn.clock import from_text, to_text
from afterturn.model import Channel
from afterturn.store.jobs import Job, LeasedJob, WaitingJob
from afterturn.store.sqlite import rows
from afterturn.store.state import OptOut, OptOutKey, StateRecord, StateRecords, Ties, load_state

_DELETED_AT_ONCE = 100
"""More than one, so that expired records go faster than they come; few, so that nobody waits for it."""


def put(connection: sqlite3.Connection, record: StateRecord, dump: str, now: datetime) -> bool:
    """``dump``: its value as JSON."""
    kept_for = record.kept_for
    if kept_for is not None:
        _delete_expired(connection, now)
    wins = ">=" if record.ties is Ties.LAST else ">"
    written = connection.execute(
        "INSERT INTO state (kind, key, version, value, expires_at) VALUES (?,?,?,?,?) "
        "ON CONFLICT (kind, key) DO UPDATE SET value=excluded.value, version=excluded.version, "
        f"expires_at=excluded.expires_at WHERE excluded.version {wins} state.version",
        (record.kind, record.key, record.version, dump, None if kept_for is None else to_text(now + kept_for)),
    )
    return written.rowcount > 0


def get_many(connection: sqlite3.Connection, keys: Mapping[type[StateRecord], Collection[str]]) -> StateRecords:
    records: list[StateRecord] = []
    for kind, some in keys.items():
        for key in some:
            row = connection.execute(
                "SELECT version, value FROM state WHERE kind = ? AND key = ?", (kind.kind, key)
            ).fetchone()
            if row is not None:
                records.append(load_state(kind, key, *row))
    return StateRecords(records)


def put_opt_out(connection: sqlite3.Connection, opt_out: OptOut) -> bool:
    written = connection.execute(
        "INSERT INTO opt_outs (channel, address, opted_out, at) VALUES (?,?,?,?) ON CONFLICT (channel, address) "
        "DO UPDATE SET opted_out=excluded.opted_out, at=excluded.at WHERE excluded.at >= opt_outs.at",
        (opt_out.channel.value, opt_out.address, opt_out.opted_out, to_text(opt_out.at)),
    )
    return written.rowcount > 0


def opt_out(connection: sqlite3.Connection, channel: Channel, address: str) -> OptOut | None:
    row = connection.execute(
        f"SELECT {_OPT_OUT} FROM opt_outs WHERE channel = ? AND address = ?", (channel.value, address)
    ).fetchone()
    return None if row is None else _opt_out(row)


def opt_outs(connection: sqlite3.Connection, after: OptOutKey | None, limit: int) -> tuple[OptOut, ...]:
    beyond = ("", "") if after is None else (after.channel, after.address)
    rows = connection.execute(
        f"SELECT {_OPT_OUT} FROM opt_outs WHERE (channel, address) > (?, ?) ORDER BY channel, address LIMIT ?",
        (*beyond, limit),
    )
    return tuple(map(_opt_out, rows))


_OPT_OUT = "channel, address, opted_out, at"


def _opt_out(row: tuple[str, str, int, str]) -> OptOut:
    channel, address, opted_out, at = row
    return OptOut(channel=Channel(channel), address=address, opted_out=bool(opted_out), at=from_text(at))


def _delete_expired(connection: sqlite3.Connection, now: datetime) -> None:
    connection.execute(
        "DELETE FROM state WHERE (kind, key) IN "
        "(SELECT kind, key FROM state WHERE expires_at < ? ORDER BY expires_at LIMIT ?)",
        (to_text(now), _DELETED_AT_ONCE),
    )


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
    rows = connection.execute(
        f"SELECT {_JOB}, attempts + 1 FROM jobs WHERE kind = ? AND done = 0 AND visible_at <= ? "
        "ORDER BY visible_at, key LIMIT ?",
        (kind, to_text(now), limit),
    ).fetchall()
    for row in rows:
        connection.execute(
            "UPDATE jobs SET attempts = ?, lease = ?, visible_at = ? WHERE kind = ? AND key = ?",
            (row[5], name, to_text(until), kind, row[1]),
        )
    return tuple(LeasedJob(**_job(row), attempts=row[5], until=until, lease=name) for row in rows)


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
    rows = connection.execute(
        f"SELECT {_JOB}, visible_at, attempts FROM jobs WHERE kind = ? AND done = 0 ORDER BY visible_at, key LIMIT ?",
        (kind, limit),
    )
    return tuple(WaitingJob(**_job(row), visible_at=from_text(row[5]), attempts=row[6]) for row in rows)


_JOB = "kind, key, conversation_id, value, due_at"


def _job(row: tuple[Any, ...]) -> dict[str, Any]:
    return {
        "kind": row[0],
        "key": row[1],
        "conversation_id": row[2],
        "value": rows.from_dump(row[3]),
        "due_at": from_text(row[4]),
    }
