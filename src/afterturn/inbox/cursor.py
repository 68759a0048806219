"""Cursors: the position of the last row, bound to its query and checked on use."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime

from afterturn.clock import parse_time, to_text
from afterturn.errors import InvalidCursor
from afterturn.model import check_id
from afterturn.store.port import RecencyKey

_CHECK_BYTES = 8


@dataclass(frozen=True, slots=True)
class Cursor:
    """``since``: the lower end of a relative window, fixed when its first page was read."""

    after: RecencyKey
    since: datetime | None


def encode(cursor: Cursor, fingerprint: str) -> str:
    """Opaque, URL-safe text."""
    body = json.dumps(
        [
            to_text(cursor.after.at),
            cursor.after.conversation_id,
            None if cursor.since is None else to_text(cursor.since),
        ],
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()
    return seal(body, fingerprint)


def decode(text: str, fingerprint: str) -> Cursor:
    """Raises InvalidCursor for anything that :func:`encode` did not return for the same query.

    The check detects accidents. It is not a secret: a forged cursor can only name a position among rows that the query
    may return anyway.
    """
    try:
        at, conversation_id, since = json.loads(unseal(text, fingerprint))
        return Cursor(
            after=RecencyKey(parse_time(at), check_id(conversation_id)),
            since=None if since is None else parse_time(since),
        )
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidCursor(PROBLEM) from error


def seal(body: bytes, fingerprint: str) -> str:
    """Opaque, URL-safe text of a position among the rows of a query."""
    return base64.urlsafe_b64encode(_check(body, fingerprint) + body).rstrip(b"=").decode()


def unseal(text: str, fingerprint: str) -> bytes:
    """The sealed bytes. Raises InvalidCursor for anything that :func:`seal` did not return for the same query."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise InvalidCursor(PROBLEM) from error
    check, body = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
    if check != _check(body, fingerprint) or base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != text:
        raise InvalidCursor(PROBLEM)
    return body


PROBLEM = "the cursor was altered, cut, or belongs to another query; start again from the first page"


def _check(body: bytes, fingerprint: str) -> bytes:
    return hashlib.sha256(fingerprint.encode() + b"\0" + body).digest()[:_CHECK_BYTES]


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
