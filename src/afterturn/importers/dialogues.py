"""Research dialogues: a JSON object a line with ``dialogue_id``, ``services``, ``turns`` of ``speaker`` and ``text``.

Such dialogues have no channel, no property and no time. Each gets its own out of a hash of its id, so that every
run gives the same: one of the five channels, one of forty properties (one dialogue in eight has none), a start
within 2025 and seconds to minutes between utterances. What is asked of a service that lets homes is a ``lead``.

The conversation's id is the dialogue's; message ids are positions in the dialogue (``m1``, ``m2``, …), so a bad
utterance, which is named and left out, moves no other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from afterturn.model import Channel, ConversationMeta, Direction, Message, Role

from .records import BadRecord, ImportedConversation, ImportOptions, make_record, make_turns
from .source import ImportFile, json_object

PROPERTIES = 40
_START = datetime(2025, 1, 1, tzinfo=UTC)
_LATEST_START = timedelta(days=360)
_SPEAKERS = {
    "user": (Direction.INBOUND, Role.CUSTOMER),
    "agent": (Direction.OUTBOUND, Role.AGENT),
}


def conversations(source: ImportFile, options: ImportOptions) -> Iterator[ImportedConversation | BadRecord]:
    """The dialogues of the file, line by line."""
    seen: set[str] = set()
    for entry in source.lines():
        if isinstance(entry, BadRecord):
            yield entry
            continue
        number, line = entry
        location = f"{source.name}:{number}"
        value = json_object(line)
        if isinstance(value, str):
            yield BadRecord(location, value)
            continue
        for result in _dialogue(value, location, options):
            if isinstance(result, ImportedConversation):
                if result.meta.id in seen:
                    # Its messages have the ids of the first one's: they would vanish in them.
                    yield BadRecord(location, "dialogue_id: is that of an earlier line")
                    continue
                seen.add(result.meta.id)
            yield result


def _dialogue(
    value: Mapping[str, Any], location: str, options: ImportOptions
) -> Iterator[ImportedConversation | BadRecord]:
    name, utterances = value.get("dialogue_id"), value.get("turns")
    if not isinstance(name, str):
        yield BadRecord(location, "dialogue_id: is missing or not a string")
        return
    if not isinstance(utterances, list):
        yield BadRecord(location, "turns: is missing or not a list")
        return
    chance = _Chance(name)
    at = _START + timedelta(milliseconds=chance.below(_LATEST_START // timedelta(milliseconds=1)))
    meta = make_record(
        ConversationMeta,
        {
            "id": name,
            "channel": list(Channel)[chance.below(len(Channel))],
            "property_id": f"property-{chance.below(PROPERTIES) + 1:02}" if chance.below(8) else options.property_id,
            "type": _type(value.get("services")),
            "created_at": at,
        },
        location,
    )
    if isinstance(meta, BadRecord):
        yield meta
        return
    messages = []
    for number, utterance in enumerate(utterances, 1):
        message = _utterance(utterance, number, at, f"{location}, turn {number}")
        if isinstance(message, BadRecord):
            yield message
        else:
            messages.append(message)
        answered = isinstance(utterance, dict) and utterance.get("speaker") == "user"
        at += timedelta(milliseconds=chance.between(4_000, 90_000) if answered else chance.between(8_000, 600_000))
    yield ImportedConversation(meta, make_turns(meta, messages), location)


def _utterance(utterance: object, number: int, at: datetime, location: str) -> Message | BadRecord:
    if not isinstance(utterance, dict):
        return BadRecord(location, "is not a JSON object")
    speaker = utterance.get("speaker")
    if not isinstance(speaker, str) or speaker not in _SPEAKERS:
        return BadRecord(location, "speaker: is neither user nor agent")
    direction, role = _SPEAKERS[speaker]
    return make_record(
        Message,
        {"id": f"m{number}", "direction": direction, "role": role, "text": utterance.get("text"), "at": at},
        location,
    )


def _type(services: object) -> str:
    names = services if isinstance(services, list) else []
    return "lead" if any(isinstance(name, str) and name.startswith("Homes") for name in names) else "general"


class _Chance:
    """Numbers that look random and depend on a text alone, on any machine and in any Python."""

    def __init__(self, text: str) -> None:
        self._seed = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        self._count = 0

    def below(self, limit: int) -> int:
        self._count += 1
        block = hashlib.sha256(self._seed + self._count.to_bytes(4, "big")).digest()
        return int.from_bytes(block[:8], "big") % limit

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low)
