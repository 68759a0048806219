"""Rows of the tables as records, which were validated when they were written, and the key condition of a range."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic_core import from_json

from afterturn.clock import from_text, to_text
from afterturn.model import (
    Attachment,
    Channel,
    Conversation,
    ConversationMeta,
    Direction,
    FlushMode,
    Message,
    MessagePreview,
    Origin,
    Role,
    SendProblem,
    SettledTurn,
    Status,
    StoredStamp,
    Urgency,
    WorkOrder,
    unchecked,
)
from afterturn.store.invariants import preview_text, to_dump
from afterturn.store.port import Range, RecencyKey

PREVIEW = (
    "preview_message_id",
    "preview_direction",
    "preview_role",
    "preview_at",
    "preview_text",
    "preview_attachments",
    "preview_problem",
)
"""Columns of a conversation; all are null if it has no message."""
CONVERSATION = (
    "id, channel, property_id, type, participants, status, synthetic, gauntlet, created_at, last_message_at, "
    f"settled_at, recorded_at, message_count, assignee, revision, contact_name, {', '.join(PREVIEW)}"
)
MESSAGE = "id, direction, role, text, at, provider_id, attachments, edited_at, whole"
TURN = "t.conversation_id, c.property_id, occurred_at, t.recorded_at, last_seq, origin, t.channel, emitter, flush_mode"
STAMP = "conversation_id, consumer, through, at, data, failed_through, error"
WORK_ORDER = "id, conversation_id, property_id, category, urgency, message_id, opened_at, status"

_CHANNELS = {channel.value: channel for channel in Channel}
_DIRECTIONS = {direction.value: direction for direction in Direction}
_ROLES = {role.value: role for role in Role}
_STATUSES = {status.value: status for status in Status}


from_dump = from_json
"""The inverse of :func:`to_dump`: five times faster than the standard library's, and there are four stamps a row."""


def time_or_none(text: str | None) -> datetime | None:
    return None if text is None else from_text(text)


def text_or_none(at: datetime | None) -> str | None:
    return None if at is None else to_text(at)


def conversation(row: tuple[Any, ...], reactions: Mapping[str, StoredStamp]) -> Conversation:
    return unchecked(
        Conversation,
        id=row[0],
        channel=_CHANNELS[row[1]],
        property_id=row[2],
        type=row[3],
        participants=tuple(from_dump(row[4])),
        status=_STATUSES[row[5]],
        synthetic=bool(row[6]),
        gauntlet=bool(row[7]),
        created_at=from_text(row[8]),
        last_message_at=time_or_none(row[9]),
        settled_at=time_or_none(row[10]),
        recorded_at=time_or_none(row[11]),
        message_count=row[12],
        assignee=row[13],
        revision=row[14],
        contact_name=row[15],
        preview=None if row[16] is None else preview(row[16:]),
        reactions=reactions,
    )


def preview(row: tuple[Any, ...]) -> MessagePreview:
    return unchecked(
        MessagePreview,
        message_id=row[0],
        direction=_DIRECTIONS[row[1]],
        role=_ROLES[row[2]],
        at=from_text(row[3]),
        text=row[4],
        attachments=row[5],
        send_problem=None if row[6] is None else SendProblem.model_validate(from_dump(row[6])),
    )


def preview_values(message: Message) -> tuple[Any, ...]:
    """The values of PREVIEW for a message."""
    return (
        message.id,
        message.direction.value,
        message.role.value,
        to_text(message.at),
        preview_text(message.text),
        len(message.attachments),
        None,
    )


def stamps(connection: sqlite3.Connection, conversation_id: str) -> dict[str, StoredStamp]:
    """All stamps of a conversation."""
    cursor = connection.execute(f"SELECT {STAMP} FROM stamps WHERE conversation_id = ?", (conversation_id,))
    return {row[1]: stamp(row) for row in cursor}


def conversations(connection: sqlite3.Connection, fetched: Sequence[tuple[Any, ...]]) -> tuple[Conversation, ...]:
    """Conversations with their stamps, which are read by one statement."""
    reactions: dict[str, dict[str, StoredStamp]] = {row[0]: {} for row in fetched}
    for row in connection.execute(
        f"SELECT {STAMP} FROM stamps WHERE conversation_id IN (SELECT value FROM json_each(?))",
        (to_dump(list(reactions)),),
    ):
        reactions[row[0]][row[1]] = stamp(row)
    return tuple(conversation(row, reactions[row[0]]) for row in fetched)


def stamp(row: tuple[Any, ...]) -> StoredStamp:
    return unchecked(
        StoredStamp,
        through=time_or_none(row[2]),
        at=time_or_none(row[3]),
        data=from_dump(row[4]),
        failed_through=time_or_none(row[5]),
        error=row[6],
    )


def message(row: tuple[Any, ...]) -> Message:
    return unchecked(
        Message,
        id=row[0],
        direction=_DIRECTIONS[row[1]],
        role=_ROLES[row[2]],
        text=row[3],
        at=from_text(row[4]),
        provider_id=row[5],
        attachments=()
        if row[6] == "[]"
        else tuple(Attachment.model_validate(attachment) for attachment in from_dump(row[6])),
        edited_at=time_or_none(row[7]),
        whole=row[8],
    )


def turn(row: tuple[Any, ...]) -> SettledTurn:
    return unchecked(
        SettledTurn,
        conversation_id=row[0],
        property_id=row[1],
        occurred_at=from_text(row[2]),
        recorded_at=from_text(row[3]),
        last_seq=row[4],
        origin=Origin(row[5]),
        channel=_CHANNELS[row[6]],
        emitter=row[7],
        flush_mode=FlushMode(row[8]),
    )


def work_order(row: tuple[Any, ...]) -> WorkOrder:
    return unchecked(
        WorkOrder,
        id=row[0],
        conversation_id=row[1],
        property_id=row[2],
        category=row[3],
        urgency=Urgency(row[4]),
        message_id=row[5],
        opened_at=from_text(row[6]),
        status=Status(row[7]),
    )


def meta_values(meta: ConversationMeta) -> tuple[Any, ...]:
    """channel, property_id, type, participants, contact_name, status, synthetic, gauntlet."""
    return (
        meta.channel.value,
        meta.property_id,
        meta.type,
        to_dump(meta.participants),
        meta.contact_name,
        meta.status.value,
        int(meta.synthetic),
        int(meta.gauntlet),
    )


def recency_conditions(part: Range, before: RecencyKey | None) -> tuple[str, list[object]]:
    """A range of the recency index as a key condition: one seek."""
    terms: list[str] = []
    values: list[object] = []
    if part.of_property:
        terms.append("property_id IS ?")
        values.append(part.property_id)
    if part.since is not None:
        terms.append("recency >= ?")
        values.append(to_text(part.since))
    if part.until is not None:
        terms.append("recency < ?")
        values.append(to_text(part.until))
    if before is not None:
        terms.append("(recency, id) < (?, ?)")
        values += [to_text(before.at), before.conversation_id]
    return " AND ".join(terms) or "1", values
