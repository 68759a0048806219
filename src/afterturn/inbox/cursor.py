"""Cursors: where a list continues, bound to its query and checked on use."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from afterturn.clock import parse_time, to_text
from afterturn.errors import InvalidCursor
from afterturn.model import check_id
from afterturn.store.port import RecencyKey

PROBLEM = "the cursor was altered, cut, or belongs to another query; start again from the first page"

_CHECK_BYTES = 8


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in the inbox. ``since``: the lower end of a relative window, fixed when its first page was read."""

    after: RecencyKey
    since: datetime | None


def encode(cursor: Cursor, fingerprint: str) -> str:
    """The cursor of an inbox page as opaque, URL-safe text."""
    since = "" if cursor.since is None else to_text(cursor.since)
    return encode_position(fingerprint, cursor.after.at, cursor.after.conversation_id, since)


def decode(text: str, fingerprint: str) -> Cursor:
    """Raises InvalidCursor for anything that :func:`encode` did not return for the same query."""
    at, conversation_id, since = decode_position(text, fingerprint, datetime, str, str)
    try:
        return Cursor(RecencyKey(at, check_id(conversation_id)), parse_time(since) if since else None)
    except ValueError as error:
        raise InvalidCursor(PROBLEM) from error


def encode_position(query: object, *parts: str | int | datetime) -> str:
    """The position of an entry in a list as opaque, URL-safe text. ``query``: what the next page has to ask for."""
    values = [to_text(part) if isinstance(part, datetime) else part for part in parts]
    body = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_check(body, query) + body).rstrip(b"=").decode()


def decode_position(text: str, query: object, *kinds: type[str | int | datetime]) -> tuple[Any, ...]:
    """The parts of a position, of these types.

    Raises InvalidCursor for anything that :func:`encode_position` did not return for the same query. The check detects
    accidents. It is not a secret: a forged cursor can only name a position among entries that may be listed anyway.
    """
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        check, body = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
        if check != _check(body, query) or base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != text:
            raise InvalidCursor(PROBLEM)
        return tuple(_part(value, kind) for value, kind in zip(json.loads(body), kinds, strict=True))
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidCursor(PROBLEM) from error


def _part(value: object, kind: type[str | int | datetime]) -> object:
    if kind is datetime:
        return parse_time(str(value))
    if type(value) is not kind:
        raise TypeError
    return value


def _check(body: bytes, query: object) -> bytes:
    return hashlib.sha256(repr(query).encode() + b"\0" + body).digest()[:_CHECK_BYTES]
