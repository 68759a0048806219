"""Units of work on windows, stamps, claims and registrations."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta

from pydantic import JsonValue

from afterturn.clock import from_text, to_text
from afterturn.errors import NotFound
from afterturn.model import Stamp, StoredStamp, WorkOrder
from afterturn.store import invariants
from afterturn.store.invariants import to_dump
from afterturn.store.port import ConsumerState, ReactionWindow, Registration
from afterturn.store.sqlite import rows
from afterturn.store.sqlite.writer import find


def window(connection: sqlite3.Connection, conversation_id: str, consumer: str) -> ReactionWindow | None:
    conversation = find(connection, conversation_id)
    if conversation is None or conversation.settled_at is None:
        return None
    stamp = conversation.reactions.get(consumer)
    if not invariants.stamp_moves_forward(stamp, conversation.settled_at):
        return None
    seen = 0
    if stamp is not None and stamp.through is not None:
        row = connection.execute(
            "SELECT last_seq FROM turns WHERE conversation_id = ? AND occurred_at <= ? "
            "ORDER BY occurred_at DESC LIMIT 1",
            (conversation_id, to_text(stamp.through)),
        ).fetchone()
        seen = row[0] if row else 0
    cursor = connection.execute(
        f"SELECT {rows.MESSAGE} FROM messages WHERE conversation_id = ? AND seq > ? AND seq <= "
        "(SELECT settled_count FROM conversations WHERE id = messages.conversation_id) ORDER BY at, seq",
        (conversation_id, seen),
    )
    return ReactionWindow(
        conversation=conversation,
        messages=tuple(rows.message(row) for row in cursor),
        through=conversation.settled_at,
    )


def stamp(
    connection: sqlite3.Connection,
    conversation_id: str,
    consumer: str,
    new_stamp: Stamp,
    through: datetime,
    now: datetime,
) -> bool:
    if not _may_move(connection, conversation_id, consumer, through):
        return False
    connection.execute(
        "INSERT INTO stamps (conversation_id, consumer, through, at, data) VALUES (?,?,?,?,?) "
        "ON CONFLICT (conversation_id, consumer) DO UPDATE SET through=excluded.through, at=excluded.at, "
        "data=excluded.data, failed_through=NULL, error=NULL",
        (
            conversation_id,
            consumer,
            to_text(through),
            to_text(now),
            to_dump(new_stamp.model_dump(mode="json")["data"]),
        ),
    )
    for order in new_stamp.work_orders:
        _open_work_order(connection, order)
    return True


def fail(
    connection: sqlite3.Connection,
    conversation_id: str,
    consumer: str,
    through: datetime,
    error: str,
    now: datetime,
) -> None:
    if not _may_move(connection, conversation_id, consumer, through):
        return
    connection.execute(
        "INSERT INTO stamps (conversation_id, consumer, at, data, failed_through, error) VALUES (?,?,?,'{}',?,?) "
        "ON CONFLICT (conversation_id, consumer) DO UPDATE SET failed_through=excluded.failed_through, "
        "error=excluded.error",
        (conversation_id, consumer, to_text(now), to_text(through), error),
    )


def failed_through(connection: sqlite3.Connection, conversation_id: str, consumer: str) -> datetime | None:
    """The newest turn that the consumer failed on, if any."""
    row = connection.execute(
        "SELECT failed_through FROM stamps WHERE conversation_id = ? AND consumer = ?", (conversation_id, consumer)
    ).fetchone()
    return None if row is None else rows.time_or_none(row[0])


def request(connection: sqlite3.Connection, conversation_id: str, consumers: Sequence[str], now: datetime) -> None:
    for consumer in consumers:
        connection.execute(
            "INSERT INTO stamps (conversation_id, consumer, at, data) SELECT id, ?, ?, '{}' FROM conversations "
            "WHERE id = ? ON CONFLICT (conversation_id, consumer) DO UPDATE SET failed_through=NULL, error=NULL",
            (consumer, to_text(now), conversation_id),
        )


def claim(connection: sqlite3.Connection, name: str, key: str, value: JsonValue) -> JsonValue:
    connection.execute(
        "INSERT INTO claims (name, key, value) VALUES (?,?,?) ON CONFLICT DO NOTHING",
        (name, key, to_dump(value)),
    )
    (taken,) = connection.execute("SELECT value FROM claims WHERE name = ? AND key = ?", (name, key)).fetchone()
    stored: JsonValue = rows.from_dump(taken)
    return stored


def claim_done(connection: sqlite3.Connection, name: str, key: str) -> bool:
    row = connection.execute("SELECT done FROM claims WHERE name = ? AND key = ?", (name, key)).fetchone()
    return bool(row and row[0])


def finish_claim(connection: sqlite3.Connection, name: str, key: str) -> None:
    connection.execute("UPDATE claims SET done = 1 WHERE name = ? AND key = ?", (name, key))


def register(connection: sqlite3.Connection, registrations: Sequence[Registration]) -> None:
    for registration in registrations:
        connection.execute(
            "INSERT INTO consumers (name, registered_at, state, max_wait_ms) VALUES (?,?,?,?) "
            "ON CONFLICT (name) DO UPDATE SET max_wait_ms=excluded.max_wait_ms "
            "WHERE max_wait_ms <> excluded.max_wait_ms",
            (
                registration.name,
                to_text(registration.registered_at),
                registration.state.value,
                registration.max_wait // timedelta(milliseconds=1),
            ),
        )


def registrations(connection: sqlite3.Connection) -> dict[str, Registration]:
    return {
        name: Registration(
            name=name,
            registered_at=from_text(registered_at),
            state=ConsumerState(state),
            max_wait=timedelta(milliseconds=max_wait_ms),
        )
        for name, registered_at, state, max_wait_ms in connection.execute(
            "SELECT name, registered_at, state, max_wait_ms FROM consumers ORDER BY registered_at, name"
        )
    }


def set_state(connection: sqlite3.Connection, consumer: str, state: ConsumerState) -> None:
    changed = connection.execute("UPDATE consumers SET state = ? WHERE name = ?", (state.value, consumer))
    if not changed.rowcount:
        raise NotFound(f"no consumer {consumer!r} was ever registered")


def _may_move(connection: sqlite3.Connection, conversation_id: str, consumer: str, through: datetime) -> bool:
    """Whether the conversation exists and the stored stamp is older."""
    row = connection.execute(
        "SELECT through FROM conversations LEFT JOIN stamps ON conversation_id = id AND consumer = ? WHERE id = ?",
        (consumer, conversation_id),
    ).fetchone()
    if row is None:
        return False
    return invariants.stamp_moves_forward(StoredStamp.model_construct(through=rows.time_or_none(row[0])), through)


def _open_work_order(connection: sqlite3.Connection, order: WorkOrder) -> None:
    """Insert a new work order; a stored one that is open can only become more urgent."""
    connection.execute(
        "INSERT INTO work_orders (id, conversation_id, property_id, category, urgency, urgency_rank, message_id, "
        "opened_at, status) VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET urgency=excluded.urgency, "
        "urgency_rank=excluded.urgency_rank WHERE excluded.urgency_rank < urgency_rank AND work_orders.status = 'open'",
        (
            order.id,
            order.conversation_id,
            order.property_id,
            order.category,
            order.urgency.value,
            order.urgency.rank,
            order.message_id,
            to_text(order.opened_at),
            order.status.value,
        ),
    )
