"""The baseline of the writer: plain ``sqlite3``, one durable transaction a turn, one thread, no afterturn code.

Everything is worked out beforehand: no row is looked up, no record is made, no time is formatted while it is timed.
What remains is the least that any program can do that puts these rows onto the disk turn by turn.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from afterturn.model import Message, Turn
from afterturn.store.sqlite.rows import PREVIEW, preview_values
from bench.measure import Stopwatch, Took

_NEW = (
    "INSERT INTO conversations (id, channel, property_id, type, participants, status, synthetic, gauntlet, created_at, "
    f"newest_message_at, last_message_at, settled_at, recorded_at, recency, message_count, settled_count, "
    f"{', '.join(PREVIEW)}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_KNOWN = (
    "UPDATE conversations SET newest_message_at = ?, last_message_at = ?, settled_at = ?, recorded_at = ?, "
    f"recency = ?, message_count = ?, settled_count = ?, {' = ?, '.join(PREVIEW)} = ? WHERE id = ?"
)
_MESSAGE = (
    "INSERT INTO messages (conversation_id, seq, id, provider_id, at, direction, role, text, attachments) "
    "VALUES (?,?,?,?,?,?,?,?,?)"
)
_TURN = (
    "INSERT INTO turns (conversation_id, occurred_at, recorded_at, last_seq, origin, channel, emitter, flush_mode) "
    "VALUES (?,?,?,?,?,?,?,?)"
)
_STREAM = "INSERT INTO stream_main (consumer, group_id, event_id, body, published_at, visible_at) VALUES ('',?,?,?,?,?)"

Statement = tuple[str, tuple[Any, ...]]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class _Head:
    created_at: datetime
    newest: datetime
    settled_at: datetime
    count: int


def statements(turns: Iterable[Turn], now: datetime, emitter: str) -> list[list[Statement]]:
    """The statements of each turn, for turns without a key and with new messages, all settled at ``now``."""
    heads: dict[str, _Head] = {}
    return [_of_turn(turn, heads, now, emitter) for turn in turns]


def run(path: Path, prepared: Sequence[Sequence[Statement]], *, group: int = 1) -> Took:
    """Write the turns into a file that has the tables, so many turns in a transaction."""
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -32000")
    execute = connection.execute
    watch = Stopwatch()
    for first in range(0, len(prepared), group):
        execute("BEGIN IMMEDIATE")
        for turn in prepared[first : first + group]:
            for sql, values in turn:
                execute(sql, values)
        execute("COMMIT")
    took = watch.took(len(prepared))
    connection.close()
    return took


def _of_turn(turn: Turn, heads: dict[str, _Head], now: datetime, emitter: str) -> list[Statement]:
    meta = turn.conversation
    head = heads.get(meta.id)
    own = _floor(min(turn.at, now) if turn.at else now)
    newest = max(min(message.at, now) for message in turn.messages)
    if head is None:
        created_at = meta.created_at or min(message.at for message in turn.messages)
        head = heads[meta.id] = _Head(created_at, newest, own, 0)
        first = True
    else:
        first = False
        head.newest = max(head.newest, newest)
        head.settled_at = max(own, head.settled_at + timedelta(milliseconds=1))
    messages = [(_MESSAGE, _message(meta.id, head.count + n, one)) for n, one in enumerate(turn.messages, 1)]
    head.count += len(messages)
    times = (_text(head.newest), _text(head.newest), _text(head.settled_at), _text(now), _text(head.newest))
    preview = preview_values(max(turn.messages, key=lambda message: message.at))
    counts = (head.count, head.count, *preview)
    if first:
        given = (
            meta.id,
            meta.channel.value,
            meta.property_id,
            meta.type,
            _dump(meta.participants),
            meta.status.value,
            int(meta.synthetic),
            int(meta.gauntlet),
            _text(head.created_at),
        )
        conversation: Statement = (_NEW, (*given, *times, *counts))
    else:
        conversation = (_KNOWN, (*times, *counts, meta.id))
    kind = (turn.origin.value, meta.channel.value, emitter, turn.flush_mode.value)
    settled = (meta.id, _text(head.settled_at), _text(now), head.count, *kind)
    return [conversation, *messages, (_TURN, settled), (_STREAM, _record(turn, head.settled_at, now, emitter))]


def _message(conversation_id: str, seq: int, message: Message) -> tuple[Any, ...]:
    return (
        conversation_id,
        seq,
        message.id,
        message.provider_id,
        _text(message.at),
        message.direction.value,
        message.role.value,
        message.text,
        _dump([attachment.to_json() for attachment in message.attachments]),
    )


def _record(turn: Turn, occurred_at: datetime, now: datetime, emitter: str) -> tuple[Any, ...]:
    meta = turn.conversation
    event_id = f"turn:{meta.id}:{(occurred_at - EPOCH) // timedelta(milliseconds=1)}"
    body = _dump(
        {
            "eventVersion": 1,
            "eventType": "conversation.turn_settled",
            "conversationId": meta.id,
            "propertyId": meta.property_id or "UNASSIGNED",
            "origin": turn.origin.value,
            "channel": meta.channel.value,
            "emitter": emitter,
            "occurredAt": occurred_at.isoformat(timespec="milliseconds")[:-6] + "Z",
            "eventId": event_id,
            "flushMode": turn.flush_mode.value,
        }
    )
    return meta.id, event_id, body, _text(now), _text(EPOCH)


def _floor(at: datetime) -> datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def _text(at: datetime) -> str:
    return at.isoformat(timespec="microseconds")[:-6] + "Z"


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
