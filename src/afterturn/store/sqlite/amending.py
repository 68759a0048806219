"""Units of work that change what was stored: edits."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from afterturn.clock import to_text
from afterturn.store import rules
from afterturn.store.sqlite import rows


def edit_message(
    connection: sqlite3.Connection, conversation_id: str, provider_id: str, text: str, at: datetime
) -> bool:
    row = connection.execute(
        "SELECT text, edited_at, seq FROM messages WHERE conversation_id = ? AND provider_id = ?",
        (conversation_id, provider_id),
    ).fetchone()
    if row is None or not rules.edit_changes(row[0], rows.time_or_none(row[1]), text, at):
        return False
    connection.execute(
        "UPDATE messages SET text = ?, edited_at = ? WHERE conversation_id = ? AND seq = ?",
        (text, to_text(at), conversation_id, row[2]),
    )
    return True
