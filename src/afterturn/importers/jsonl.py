"""afterturn's own JSON Lines: what an export holds and an import takes.

One conversation a line, in UTF-8, plain or packed with gzip::

    {"conversation": {"id": "c-1", "channel": "sms", "propertyId": "oak", ...},
     "messages": [{"id": "m-1", "direction": "inbound", "role": "customer", "text": "Hi",
                   "at": "2026-03-01T12:00:05Z"}],
     "turns": [{"through": "m-1", "at": "2026-03-01T12:00:05Z", "flushMode": "debounced"}]}

``conversation`` and ``messages`` are :class:`~afterturn.model.ConversationMeta` and
:class:`~afterturn.model.Message` in camelCase. What only a store knows (``lastMessageAt``, ``settledAt``,
``recordedAt``, ``messageCount``, ``reactions``) may stand in ``conversation`` and is left alone, as is any further
key of the line: reactions are done again, not believed. :func:`document` makes such an object.

Messages are taken by time, those of one instant as they stand. ``turns`` is optional and says where turns ended:
each ends with the message ``through`` at the time ``at``; two that end with the same message are a turn with
messages and one without (a voice call that was saved before it ended). What no turn names is cut by
:func:`~afterturn.importers.records.cut`.

A bad message is named and the rest of its conversation comes in; a bad ``conversation`` keeps out its line. An
unusable ``turns`` is named and the messages are cut as if it were not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from afterturn.clock import EPOCH
from afterturn.ids import digest
from afterturn.model import (
    Conversation,
    ConversationMeta,
    FlushMode,
    Id,
    Message,
    Record,
    Time,
    Turn,
)

from .records import BadRecord, ImportedConversation, ImportOptions, make_record, make_turns, thread_order, time_problem
from .source import ImportFile, json_object


class TurnEnd(Record):
    """Where and when a turn ended, and how it asked its reactions to run."""

    through: Id
    at: Time
    flush_mode: FlushMode = FlushMode.DEBOUNCED


class _Line(Record):
    conversation: dict[str, Any]
    messages: list[Any]
    turns: list[Any] = Field(default_factory=list)


def document(
    conversation: ConversationMeta, messages: Iterable[Message], turns: Iterable[TurnEnd] = ()
) -> dict[str, Any]:
    """One line of an export as plain JSON values; reading it gives the same records again."""
    line: dict[str, Any] = {
        "conversation": conversation.to_json(),
        "messages": [message.to_json() for message in messages],
    }
    if ends := [end.to_json() for end in turns]:
        line["turns"] = ends
    return line


def conversations(source: ImportFile, options: ImportOptions) -> Iterator[ImportedConversation | BadRecord]:
    """The conversations of the file, line by line."""
    for entry in source.lines():
        if isinstance(entry, BadRecord):
            yield entry
            continue
        number, line = entry
        location = f"{source.name}:{number}"
        value = json_object(line)
        if isinstance(value, str):
            yield BadRecord(location, value)
        else:
            yield from _conversation(value, location, options)


_LINE_KEYS = frozenset(_Line.model_fields)
_STORED_ONLY = frozenset(
    field.alias or name
    for name, field in Conversation.model_fields.items()
    if name not in ConversationMeta.model_fields
)


def _conversation(
    value: Mapping[str, Any], location: str, options: ImportOptions
) -> Iterator[ImportedConversation | BadRecord]:
    line = make_record(_Line, {key: value[key] for key in _LINE_KEYS & value.keys()}, location)
    if isinstance(line, BadRecord):
        yield line
        return
    meta = make_record(
        ConversationMeta, {key: v for key, v in line.conversation.items() if key not in _STORED_ONLY}, location
    )
    if isinstance(meta, ConversationMeta) and meta.property_id is None and options.property_id is not None:
        meta = make_record(ConversationMeta, meta.model_dump() | {"property_id": options.property_id}, location)
    if isinstance(meta, BadRecord):
        yield meta
        return
    if meta.created_at and (problem := time_problem(meta.created_at, options, oldest=EPOCH)):
        yield BadRecord(location, f"createdAt: {problem}")
        return

    messages: list[Message] = []
    ids: set[str] = set()
    provider_ids: set[str] = set()
    for number, item in enumerate(line.messages, 1):
        message = _message(item, f"{location}, message {number}", options, ids, provider_ids)
        if isinstance(message, BadRecord):
            yield message
        else:
            messages.append(message)
    messages = thread_order(messages)
    turns = _turns(meta, messages, line.turns, location, options)
    if isinstance(turns, BadRecord):
        yield turns
        turns = make_turns(meta, messages)
    yield ImportedConversation(meta, turns, location)


def _message(
    item: object, location: str, options: ImportOptions, ids: set[str], provider_ids: set[str]
) -> Message | BadRecord:
    if not isinstance(item, dict):
        return BadRecord(location, "is not a JSON object")
    message = make_record(Message, item, location)
    if isinstance(message, BadRecord):
        return message
    if problem := time_problem(message.at, options, oldest=EPOCH):
        return BadRecord(location, f"at: {problem}")
    if message.id in ids:
        return BadRecord(location, "id: is that of an earlier message of the conversation")
    if message.provider_id in provider_ids:
        return BadRecord(location, "providerId: is that of an earlier message of the conversation")
    ids.add(message.id)
    if message.provider_id:
        provider_ids.add(message.provider_id)
    return message


def _turns(
    meta: ConversationMeta, messages: Sequence[Message], items: Sequence[object], location: str, options: ImportOptions
) -> tuple[Turn, ...] | BadRecord:
    """Turns as the line says they ended, and by the rule what comes after them."""
    positions = {message.id: i for i, message in enumerate(messages)}
    turns: list[Turn] = []
    start = 0
    for number, item in enumerate(items, 1):
        turn_place = f"{location}, turn {number}"
        end = _turn_end(item, turn_place, options)
        if isinstance(end, BadRecord):
            return end
        stop = positions.get(end.through, -1) + 1
        if stop < max(start, 1):
            return BadRecord(turn_place, "through: is not a message that came in and that no turn before has taken")
        turn = _turn(meta, messages[start:stop], end, turn_place)
        if isinstance(turn, BadRecord):
            return turn
        turns.append(turn)
        start = stop
    return (*turns, *make_turns(meta, messages[start:]))


def _turn_end(item: object, location: str, options: ImportOptions) -> TurnEnd | BadRecord:
    if not isinstance(item, dict):
        return BadRecord(location, "is not a JSON object")
    end = make_record(TurnEnd, item, location)
    if isinstance(end, TurnEnd) and (problem := time_problem(end.at, options, oldest=EPOCH)):
        return BadRecord(location, f"at: {problem}")
    return end


def _turn(meta: ConversationMeta, messages: Sequence[Message], end: TurnEnd, location: str) -> Turn | BadRecord:
    key = digest(meta.id, end.through, end.at.isoformat(), *(message.id for message in messages))
    values = {
        "conversation": meta,
        "messages": tuple(messages),
        "at": end.at,
        "flush_mode": end.flush_mode,
        "key": f"import:{key}",
    }
    return make_record(Turn, values, location)
