"""Units of work that write and change conversations, messages, turns and work orders."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from afterturn.clock import to_text
from afterturn.errors import NotFound
from afterturn.event import TurnSettled, event_of, make_event
from afterturn.model import (
    Channel,
    Conversation,
    ConversationMeta,
    ConversationPatch,
    Direction,
    Message,
    SendProblem,
    Status,
    Turn,
    WorkOrder,
)
from afterturn.store import invariants
from afterturn.store.invariants import to_dump
from afterturn.store.jobs import Job
from afterturn.store.port import Settled
from afterturn.store.sqlite import full_text, rows
from afterturn.store.sqlite.state import add_job

Outbox = Callable[[sqlite3.Connection, TurnSettled, datetime], None]
"""Publishes the event of a turn to a stream in the same file, in the transaction of the turn."""

_TURN_CLAIM = "turn:key"
"""No consumer can have this name, so no claim of theirs collides."""

_NO_PREVIEW = (None,) * len(rows.PREVIEW)
_SET_PREVIEW = "".join(f"{column} = ?, " for column in rows.PREVIEW)


def save_conversation(connection: sqlite3.Connection, meta: ConversationMeta, now: datetime) -> Conversation:
    created_at = meta.created_at or now
    connection.execute(
        "INSERT INTO conversations (id, channel, property_id, type, participants, contact_name, status, synthetic, "
        "gauntlet, created_at, recency) VALUES (?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET "
        "channel=excluded.channel, property_id=excluded.property_id, type=excluded.type, "
        "participants=excluded.participants, contact_name=excluded.contact_name, status=excluded.status, "
        "synthetic=excluded.synthetic, gauntlet=excluded.gauntlet, property_pinned=0, closed_seq=NULL",
        (meta.id, *rows.meta_values(meta), to_text(created_at), to_text(created_at)),
    )
    saved = find(connection, meta.id)
    assert saved is not None
    return saved


def find(connection: sqlite3.Connection, conversation_id: str) -> Conversation | None:
    row = connection.execute(
        f"SELECT {rows.CONVERSATION} FROM conversations WHERE id = ?", (conversation_id,)
    ).fetchone()
    return None if row is None else rows.conversation(row, rows.stamps(connection, conversation_id))


def meta(connection: sqlite3.Connection, conversation_id: str) -> ConversationMeta | None:
    conversation = find(connection, conversation_id)
    return None if conversation is None else invariants.meta_of(conversation)


def save_messages(
    connection: sqlite3.Connection,
    meta: ConversationMeta,
    messages: Sequence[Message],
    now: datetime,
    jobs: Iterable[tuple[Job, str]] = (),
) -> int:
    head = _head(connection, meta.id)
    if head is None:
        first = min((message.at for message in messages), default=now)
        save_conversation(connection, meta, min(first, now))
        head = _NEW
    added, _ = _insert(connection, meta.id, messages, head.last_seq)
    last_seq = head.last_seq + len(added)
    newest = invariants.newest_message_at(head.newest_message_at, added, now)
    set_preview, preview = _preview(head, added)
    connection.execute(
        f"UPDATE conversations SET {set_preview}message_count = ?, newest_message_at = ? WHERE id = ?",
        (*preview, last_seq, rows.text_or_none(newest), meta.id),
    )
    for job, dump in jobs:
        add_job(connection, job, dump)
    return last_seq - head.last_seq


def settle(
    connection: sqlite3.Connection,
    turn: Turn,
    now: datetime,
    emitter: str,
    outbox: Outbox | None,
    jobs: Iterable[tuple[Job, str]] = (),
) -> Settled:
    meta = turn.conversation
    claim = to_dump((meta.id, turn.key)) if turn.key else None
    if claim and (known_turn := _settled_under(connection, meta.id, claim)):
        return Settled(known_turn, new=False, published=outbox is not None)
    head = _head(connection, meta.id)
    before = head or _NEW
    added, newest_seq = _insert(connection, meta.id, turn.messages, before.last_seq)
    last_seq = before.last_seq + len(added)
    if turn.messages and before.settled_at is not None and newest_seq <= before.settled_seq:
        (occurred,) = connection.execute(
            "SELECT occurred_at FROM turns WHERE conversation_id = ? AND last_seq >= ? ORDER BY occurred_at LIMIT 1",
            (meta.id, newest_seq),
        ).fetchone()
        return Settled(_turn_at(connection, meta.id, occurred), new=False, published=outbox is not None)

    occurred_at = invariants.next_occurred_at(turn, before.settled_at, now)
    newest = invariants.newest_message_at(before.newest_message_at, added, now)
    last_message_at = max(filter(None, (newest, before.last_message_at)), default=None)
    occurred, recorded = to_text(occurred_at), to_text(now)
    newest_text = rows.text_or_none(newest)
    last_text = newest_text if last_message_at is newest else rows.text_or_none(last_message_at)
    set_preview, preview = _preview(before, added)
    columns = (
        newest_text,
        last_text,
        occurred,
        recorded,
        last_seq,
        last_seq,
    )
    if head is None:
        created_at = meta.created_at or min((m.at for m in turn.messages), default=now)
        connection.execute(
            "INSERT INTO conversations (newest_message_at, last_message_at, settled_at, recorded_at, message_count, "
            f"settled_count, {', '.join(rows.PREVIEW)}, id, channel, property_id, type, participants, contact_name, "
            f"status, synthetic, gauntlet, created_at, recency) VALUES ({','.join('?' * (17 + len(rows.PREVIEW)))})",
            (
                *columns,
                *(preview or _NO_PREVIEW),
                meta.id,
                *rows.meta_values(meta),
                to_text(created_at),
                last_text or to_text(created_at),
            ),
        )
        channel, property_id = meta.channel, meta.property_id
    else:
        connection.execute(
            f"UPDATE conversations SET {set_preview}newest_message_at = ?, last_message_at = ?, settled_at = ?, "
            "recorded_at = ?, message_count = ?, settled_count = ?, recency = ifnull(?, created_at) WHERE id = ?",
            (*preview, *columns, last_text, meta.id),
        )
        channel, property_id = Channel(head.channel), _merge(connection, head, meta)
        if head.closed_seq is not None:
            _reopen(connection, meta.id, head.closed_seq)
    event = make_event(
        conversation_id=meta.id,
        property_id=property_id,
        origin=turn.origin,
        channel=channel,
        emitter=emitter,
        occurred_at=occurred_at,
        flush_mode=turn.flush_mode,
    )
    connection.execute(
        "INSERT INTO turns (conversation_id, occurred_at, recorded_at, last_seq, origin, channel, emitter, flush_mode) "
        "VALUES (?,?,?,?,?,?,?,?)",
        (meta.id, occurred, recorded, last_seq, turn.origin.value, channel.value, emitter, turn.flush_mode.value),
    )
    if claim:
        connection.execute(
            "INSERT INTO claims (name, key, value, done) VALUES (?,?,?,1)", (_TURN_CLAIM, claim, occurred)
        )
    for job, dump in jobs:
        add_job(connection, job, dump)
    if outbox is not None:
        outbox(connection, event, now)
    return Settled(event, new=True, published=outbox is not None)


def _preview(head: _Head, added: Sequence[Message]) -> tuple[str, tuple[Any, ...]]:
    """The assignments and the values for a new preview; both are empty if it stays."""
    message = invariants.message_to_preview(head.preview_at, added)
    return ("", ()) if message is None else (_SET_PREVIEW, rows.preview_values(message))


class _Head:
    """What a write needs to know of a conversation."""

    __slots__ = (
        "channel",
        "closed_seq",
        "contact_name",
        "last_message_at",
        "last_seq",
        "newest_message_at",
        "participants",
        "preview_at",
        "property_id",
        "property_pinned",
        "settled_at",
        "settled_seq",
    )

    def __init__(self, row: tuple[Any, ...]) -> None:
        self.newest_message_at = rows.time_or_none(row[0])
        self.last_message_at = rows.time_or_none(row[1])
        self.settled_at = rows.time_or_none(row[2])
        self.last_seq: int = row[3]
        self.settled_seq: int = row[4]
        self.channel: str = row[5]
        self.property_id: str | None = row[6]
        self.participants: str = row[7]
        self.property_pinned = bool(row[8])
        self.closed_seq: int | None = row[9]
        self.contact_name: str | None = row[10]
        self.preview_at = rows.time_or_none(row[11])


_NEW = _Head((None, None, None, 0, 0, "", None, "[]", 0, None, None, None))


def _head(connection: sqlite3.Connection, conversation_id: str) -> _Head | None:
    row = connection.execute(
        "SELECT newest_message_at, last_message_at, settled_at, message_count, settled_count, channel, property_id, "
        "participants, property_pinned, closed_seq, contact_name, preview_at "
        "FROM conversations WHERE id = ?",
        (conversation_id,),
    ).fetchone()
    return None if row is None else _Head(row)


def _merge(connection: sqlite3.Connection, head: _Head, meta: ConversationMeta) -> str | None:
    """Write what a turn adds to a known conversation. Returns its property."""
    property_id = invariants.merge_property(head.property_id, meta.property_id, pinned=head.property_pinned)
    participants, contact_name = head.participants, head.contact_name
    if meta.participants:
        stored = tuple(rows.from_dump(participants))
        merged = invariants.merge_participants(stored, meta.participants)
        participants = participants if merged == stored else to_dump(merged)
        contact_name = invariants.merge_contact_name(merged, contact_name, meta.participants, meta.contact_name)
    if (property_id, participants, contact_name) != (head.property_id, head.participants, head.contact_name):
        connection.execute(
            "UPDATE conversations SET property_id = ?, participants = ?, contact_name = ? WHERE id = ?",
            (property_id, participants, contact_name, meta.id),
        )
    return property_id


def _reopen(connection: sqlite3.Connection, conversation_id: str, closed_seq: int) -> None:
    """Reopen a closed conversation if an inbound message was saved since."""
    connection.execute(
        "UPDATE conversations SET status = ?, closed_seq = NULL WHERE id = ? AND EXISTS (SELECT 1 FROM messages "
        "WHERE conversation_id = conversations.id AND seq > ? AND direction = ?)",
        (Status.OPEN.value, conversation_id, closed_seq, Direction.INBOUND.value),
    )


def _insert(
    connection: sqlite3.Connection, conversation_id: str, messages: Sequence[Message], last_seq: int
) -> tuple[list[Message], int]:
    """Insert the messages that are not known, in arrival order.

    Returns them, and the newest arrival number of all messages.
    """
    added: list[Message] = []
    newest = 0
    for message in messages:
        cursor = connection.execute(
            "INSERT INTO messages (conversation_id, seq, id, provider_id, at, direction, role, text, attachments, "
            "edited_at, whole) VALUES (?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING",
            (
                conversation_id,
                last_seq + len(added) + 1,
                message.id,
                message.provider_id,
                to_text(message.at),
                message.direction.value,
                message.role.value,
                message.text,
                to_dump([a.to_json() for a in message.attachments]) if message.attachments else "[]",
                rows.text_or_none(message.edited_at),
                message.whole,
            ),
        )
        if cursor.rowcount:
            added.append(message)
            newest = last_seq + len(added)
        else:
            newest = max(newest, _seq_of(connection, conversation_id, message))
    return added, newest


def _seq_of(connection: sqlite3.Connection, conversation_id: str, message: Message) -> int:
    (seq,) = connection.execute(
        "SELECT max(seq) FROM messages WHERE conversation_id = ? AND (id = ? OR provider_id = ?)",
        (conversation_id, message.id, message.provider_id),
    ).fetchone()
    return int(seq)


def _settled_under(connection: sqlite3.Connection, conversation_id: str, claim: str) -> TurnSettled | None:
    row = connection.execute("SELECT value FROM claims WHERE name = ? AND key = ?", (_TURN_CLAIM, claim)).fetchone()
    return None if row is None else _turn_at(connection, conversation_id, row[0])


def _turn_at(connection: sqlite3.Connection, conversation_id: str, occurred: str) -> TurnSettled:
    """The event of a turn that was settled before."""
    row = connection.execute(
        f"SELECT {rows.TURN} FROM turns t JOIN conversations c ON c.id = t.conversation_id "
        "WHERE t.conversation_id = ? AND occurred_at = ?",
        (conversation_id, occurred),
    ).fetchone()
    return event_of(rows.turn(row))


def edit_message(
    connection: sqlite3.Connection, conversation_id: str, provider_id: str, text: str, at: datetime
) -> bool:
    row = connection.execute(
        "SELECT text, edited_at, seq, id FROM messages WHERE conversation_id = ? AND provider_id = ?",
        (conversation_id, provider_id),
    ).fetchone()
    if row is None or not invariants.edit_changes(row[0], rows.time_or_none(row[1]), text, at):
        return False
    connection.execute(
        "UPDATE messages SET text = ?, edited_at = ? WHERE conversation_id = ? AND seq = ?",
        (text, to_text(at), conversation_id, row[2]),
    )
    connection.execute(
        "UPDATE conversations SET preview_text = ? WHERE id = ? AND preview_message_id = ?",
        (invariants.preview_text(text), conversation_id, row[3]),
    )
    full_text.record_edit(connection, conversation_id, row[2], row[0])
    return True


def set_send_problem(
    connection: sqlite3.Connection, conversation_id: str, message_id: str, problem: SendProblem | None
) -> None:
    connection.execute(
        "UPDATE conversations SET preview_problem = ? WHERE id = ? AND preview_message_id = ?",
        (None if problem is None else to_dump(problem.to_json()), conversation_id, message_id),
    )


def patch_conversation(
    connection: sqlite3.Connection, conversation_id: str, patch: ConversationPatch, revision: int | None, now: datetime
) -> Conversation:
    row = connection.execute("SELECT revision FROM conversations WHERE id = ?", (conversation_id,)).fetchone()
    if row is None:
        raise NotFound(f"no conversation {conversation_id!r}")
    invariants.check_revision(conversation_id, row[0], revision)
    connection.execute(
        "UPDATE conversations SET revision = revision + 1, patched_at = ? WHERE id = ?", (to_text(now), conversation_id)
    )
    for name, value in patch.changes.items():
        connection.execute(_CHANGES[name], {"id": conversation_id, "value": value, "closed": Status.CLOSED})
    patched = find(connection, conversation_id)
    assert patched is not None
    return patched


def close_work_order(
    connection: sqlite3.Connection, conversation_id: str, order_id: str, now: datetime
) -> WorkOrder | None:
    connection.execute(
        "UPDATE work_orders SET status = ?, closed_at = ? WHERE id = ? AND conversation_id = ? AND status = ?",
        (Status.CLOSED.value, to_text(now), order_id, conversation_id, Status.OPEN.value),
    )
    row = connection.execute(
        f"SELECT {rows.WORK_ORDER} FROM work_orders WHERE id = ? AND conversation_id = ?", (order_id, conversation_id)
    ).fetchone()
    return None if row is None else rows.work_order(row)


_CHANGES = {
    "assignee": "UPDATE conversations SET assignee = :value WHERE id = :id",
    "property_id": "UPDATE conversations SET property_id = :value, property_pinned = 1 WHERE id = :id",
    "status": "UPDATE conversations SET status = :value, closed_seq = iif(:value = :closed, message_count, NULL) "
    "WHERE id = :id",
}
