"""Sanitizes values from untrusted providers."""

from __future__ import annotations

import hmac
import json
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from pydantic import ValidationError

from afterturn.channels.types import Rejected, WebhookRequest
from afterturn.clock import EPOCH, MILLISECOND, parse_time, to_utc
from afterturn.model import MAX_TEXT_BYTES, Attachment, clean_text

MAX_ATTACHMENTS = 50
MAX_FACT_CHARS = 200
CUT_MARK = " […]"
"""Appended to a text that was truncated."""

_OLDEST = datetime(1990, 1, 1, tzinfo=UTC)
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEGREES = re.compile(r"-?[0-9]{1,3}(\.[0-9]{1,20})?\Z")
_SPACES = re.compile(r"\s+")
_EVENT_NAME = re.compile(r"(?=.{1,60}\Z)[A-Za-z]+(?:[_.-][A-Za-z]+)*\Z")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")


def public_url(base: str, target: str) -> str:
    """The URL as the provider called it: the public base URL with the path and query of the request.

    >>> public_url("https://host.example/", "/hook?b=2&a=hello+world")
    'https://host.example/hook?b=2&a=hello+world'
    """
    return base.rstrip("/") + "/" + target.lstrip("/")


def secrets_equal(value: str, expected: str) -> bool:
    """Compares in constant time. Nothing equals an empty secret."""
    return bool(expected) and hmac.compare_digest(
        value.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass")
    )


def json_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object; None if the body is not one."""
    try:
        value = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def require_json_object(request: WebhookRequest) -> dict[str, Any]:
    """The body's JSON object. Raises Rejected if it is not one."""
    body = json_object(request.body)
    if body is None:
        raise Rejected(400, "the body is not a JSON object")
    return body


def get_path(value: object, *path: str) -> object:
    """The value at a path of keys; None if there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def clean_message_text(value: object, extra: dict[str, str]) -> str:
    """The text as a record can hold it; ``""`` for a value that is not a string.

    Lone surrogates and control characters become U+FFFD. A text that is too long is truncated, and ``extra["cut"]`` is
    its size in bytes. Nothing is refused: the provider would repeat the request for ever.
    """
    text = clean_string(value)
    encoded = text.encode()
    if len(encoded) <= MAX_TEXT_BYTES:
        return text
    extra["cut"] = str(len(encoded))
    return encoded[: MAX_TEXT_BYTES - len(CUT_MARK.encode())].decode("utf-8", "ignore") + CUT_MARK


def clean_string(value: object) -> str:
    """The string without characters that cannot be encoded or shown; ``""`` for a value that is not a string."""
    return clean_text(_SURROGATE.sub("\ufffd", value)) if isinstance(value, str) else ""


def clean_line(value: object) -> str:
    """One short line for ``extra``; ``""`` for a value that is not a string or an integer."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return _SPACES.sub(" ", clean_string(str(value))).strip()[:MAX_FACT_CHARS]


def ignored_reason(kind: object) -> str:
    """The reason for :class:`Ignored`: the provider's name of the event, with dashes; words only, as it is logged."""
    is_name = isinstance(kind, str) and _EVENT_NAME.match(kind)
    return str(kind).replace("_", "-").replace(".", "-") if is_name else "unknown-kind"


def clean_label(value: object) -> str:
    """A provider's code, such as a reason; ``""`` for a value that does not look like one."""
    return value if isinstance(value, str) and _LABEL.match(value) else ""


def clean_lines(**values: object) -> dict[str, str]:
    """The values as short lines, without the empty ones."""
    return {key: line for key, value in values.items() if (line := clean_line(value))}


def attachment(url: object, media_type: object, name: object, usual: str = "") -> Attachment | None:
    """An attachment with shortened names; None if it has no URL."""
    try:
        return (
            Attachment(
                url=clean_string(url),
                media_type=clean_string(media_type)[:200] or usual or "application/octet-stream",
                name=clean_string(name)[:400],
            )
            if clean_string(url)
            else None
        )
    except ValidationError:  # an address of thousands of characters
        return None


def limit_attachments(files: list[Attachment | None], extra: dict[str, str]) -> tuple[Attachment, ...]:
    """As many as a message can hold; ``extra["left_out"]`` is the number of the others."""
    kept = tuple(file for file in files if file)[:MAX_ATTACHMENTS]
    if len(kept) < len(files):
        extra["left_out"] = str(len(files) - len(kept))
    return kept


def geo_attachment(latitude: object, longitude: object, name: object) -> Attachment | None:
    """A point on the map as an attachment with a ``geo:`` URL."""
    point = [str(part) for part in (latitude, longitude) if isinstance(part, str | int | float)]
    if len(point) < 2 or not all(_DEGREES.match(part) for part in point):
        return None
    return attachment(f"geo:{point[0]},{point[1]}", "", name)


def from_seconds(value: object, now: datetime, unit: timedelta = timedelta(seconds=1)) -> datetime | None:
    """The time of seconds since 1970; None if it is no number, in the future or before 1990."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return _plausible(EPOCH + value * unit, now)
    except (OverflowError, ValueError):  # out of range; not a number
        return None


def from_millis(value: object, now: datetime) -> datetime | None:
    """Like :func:`from_seconds`, for milliseconds."""
    return from_seconds(value, now, MILLISECOND)


def from_iso(value: object, now: datetime) -> datetime | None:
    """Like :func:`from_seconds`, for an ISO 8601 text with an offset."""
    at = parse_iso(value)
    return None if at is None else _plausible(at, now)


def parse_iso(value: object) -> datetime | None:
    """The time of an ISO 8601 text with an offset; None for anything else."""
    try:
        return parse_time(value) if isinstance(value, str) else None
    except ValueError:
        return None


def from_mail_date(value: object, now: datetime) -> datetime | None:
    """Like :func:`from_seconds`, for a text such as ``Fri, 02 Nov 2018 10:52:29 +0000``."""
    try:
        return _plausible(to_utc(parsedate_to_datetime(value)), now) if isinstance(value, str) else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _plausible(at: datetime, now: datetime) -> datetime | None:
    return at if _OLDEST <= at <= now else None
