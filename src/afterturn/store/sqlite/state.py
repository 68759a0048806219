"""Units of work of typed state and opt-outs."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from datetime import datetime

from afterturn.clock import from_text, to_text
from afterturn.model import Channel
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
    found = connection.execute(
        f"SELECT {_OPT_OUT} FROM opt_outs WHERE (channel, address) > (?, ?) ORDER BY channel, address LIMIT ?",
        (*beyond, limit),
    )
    return tuple(map(_opt_out, found))


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
