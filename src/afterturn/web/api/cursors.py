"""Where a list goes on: cursors of everything that is no inbox, bound to what was asked for and checked on use."""

from __future__ import annotations

import json
from datetime import datetime

from afterturn.clock import parse_time, to_text
from afterturn.errors import InvalidCursor
from afterturn.inbox.cursor import PROBLEM, seal, unseal

Part = str | int | datetime


def encode_position(asked: object, *parts: Part) -> str:
    """A cursor. ``asked``: what the list was asked for; the next page has to ask for the same."""
    parts_json = [to_text(part) if isinstance(part, datetime) else part for part in parts]
    return seal(json.dumps(parts_json, ensure_ascii=False, separators=(",", ":")).encode(), repr(asked))


def decode_position(text: str, asked: object, *kinds: type[Part]) -> tuple[Part, ...]:
    """The parts of a place, as they were put in. Raises InvalidCursor."""
    try:
        parts_json = json.loads(unseal(text, repr(asked)))
        return tuple(_part(value, kind) for value, kind in zip(parts_json, kinds, strict=True))
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidCursor(PROBLEM) from error


def _part(value: object, kind: type[Part]) -> Part:
    if kind is datetime:
        return parse_time(str(value))
    if type(value) is not kind:
        raise TypeError
    return value
