"""Units of work that change what was stored: edits, patches, closed work orders."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from afterturn.clock import to_text
from afterturn.errors import NotFound
from afterturn.model import Conversation, ConversationPatch, SendProblem, Status, WorkOrder
from afterturn.store import invariants
from afterturn.store.sqlite import full_text, rows
from afterturn.store.sqlite.writer import find


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
        "UPDATE conversations SET preview = json_set(preview, '$.text', ?) "
        "WHERE id = ? AND json_extract(preview, '$.messageId') = ?",
        (invariants.preview_text(text), conversation_id, row[3]),
    )
    full_text.record_edit(connection, conversation_id, row[2], row[0])
    return True


def set_send_problem(
    connection: sqlite3.Connection, conversation_id: str, message_id: str, problem: SendProblem | None
) -> None:
    connection.execute(
        "UPDATE conversations SET preview = json_set(preview, '$.sendProblem', json(?)) "
        "WHERE id = ? AND json_extract(preview, '$.messageId') = ?",
        (rows.to_dump(None if problem is None else problem.to_json()), conversation_id, message_id),
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
