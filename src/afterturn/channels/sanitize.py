"""What the readers of texts and calls share: values that a foreigner wrote, made fit for records."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from pydantic import ValidationError

from afterturn.clock import EPOCH, parse_time, to_utc
from afterturn.model import MAX_TEXT_BYTES, Attachment, clean_text

MAX_ATTACHMENTS = 50
MAX_FACT_CHARS = 200
CUT_MARK = " […]"
"""Ends a text that was longer than a record can hold."""

_OLDEST = datetime(1990, 1, 1, tzinfo=UTC)
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEGREES = re.compile(r"-?[0-9]{1,3}(\.[0-9]{1,20})?\Z")
_SPACES = re.compile(r"\s+")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")


def public_url(base: str, target: str) -> str:
    """The URL as the provider called it: the configured public address, and path and query as they came in.

    >>> public_url("https://host.example/", "/hook?b=2&a=hello+world")
    'https://host.example/hook?b=2&a=hello+world'
    """
    return base.rstrip("/") + "/" + target.lstrip("/")


def secrets_equal(given: str, expected: str) -> bool:
    """Are both equal? Takes the same time wherever they differ; nothing equals an empty secret."""
    return bool(expected) and hmac.compare_digest(
        given.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass")
    )


def json_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object, or None for what is none or cannot be read."""
    try:
        value = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def get_path(value: object, *path: str) -> object:
    """What stands at the path of keys; None where there is nothing or something else on the way."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def clean_message_text(value: object, extra: dict[str, str]) -> str:
    """The text as it can be stored, ``""`` for what is none.

    Lone surrogates and control characters become U+FFFD: a refusal would make the provider send the same for ever.
    Of a text that no record can hold the beginning is kept; ``extra`` then gets its size in bytes as ``cut``.
    """
    text = clean_string(value)
    encoded = text.encode()
    if len(encoded) <= MAX_TEXT_BYTES:
        return text
    extra["cut"] = str(len(encoded))
    return encoded[: MAX_TEXT_BYTES - len(CUT_MARK.encode())].decode("utf-8", "ignore") + CUT_MARK


def clean_string(value: object) -> str:
    """A text without what cannot be encoded or shown; ``""`` for what is no text."""
    return clean_text(_SURROGATE.sub("\ufffd", value)) if isinstance(value, str) else ""


def clean_line(value: object) -> str:
    """One short line for :attr:`Arrived.extra`; ``""`` for what is no text or number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return _SPACES.sub(" ", clean_string(str(value))).strip()[:MAX_FACT_CHARS]


def ignored_reason(value: object, others: Collection[str]) -> str:
    """A reason for :class:`Nothing`: the provider's name of what it sent where that is a known one, with dashes."""
    if isinstance(value, str) and value in others:
        return value.replace("_", "-").replace(".", "-")
    return "unknown-kind"


def clean_label(value: object) -> str:
    """A provider's own word for something, such as a reason; ``""`` for what does not look like one."""
    return value if isinstance(value, str) and _LABEL.match(value) else ""


def clean_lines(**values: object) -> dict[str, str]:
    """Those that say something."""
    return {key: found for key, value in values.items() if (found := clean_line(value))}


def attachment(url: object, media_type: object, name: object, usual: str = "") -> Attachment | None:
    """An attachment with what can be kept of its names; None where nothing says where it is."""
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
    """As many as a message can hold; ``extra`` gets the number of the others as ``left_out``."""
    kept = tuple(file for file in files if file)[:MAX_ATTACHMENTS]
    if len(kept) < len(files):
        extra["left_out"] = str(len(files) - len(kept))
    return kept


def geo_attachment(latitude: object, longitude: object, name: object) -> Attachment | None:
    """A point on the map, as the importers write one."""
    point = [str(part) for part in (latitude, longitude) if isinstance(part, str | int | float)]
    if len(point) < 2 or not all(_DEGREES.match(part) for part in point):
        return None
    return attachment(f"geo:{point[0]},{point[1]}", "", name)


def from_seconds(value: object, now: datetime) -> datetime | None:
    """The time of seconds since 1970; None for what is none, lies in the future or before text messages."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return _sensible(EPOCH + timedelta(seconds=value), now)
    except (OverflowError, ValueError):  # out of range; not a number
        return None


def from_millis(value: object, now: datetime) -> datetime | None:
    """Like :func:`from_seconds`, of milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return _sensible(EPOCH + timedelta(milliseconds=value), now)
    except (OverflowError, ValueError):
        return None


def from_iso(value: object, now: datetime) -> datetime | None:
    """Like :func:`from_seconds`, of an ISO 8601 text with an offset."""
    try:
        return _sensible(parse_time(value), now) if isinstance(value, str) else None
    except ValueError:
        return None


def from_mail_date(value: object, now: datetime) -> datetime | None:
    """Like :func:`from_seconds`, of a text such as ``Fri, 02 Nov 2018 10:52:29 +0000``."""
    try:
        return _sensible(to_utc(parsedate_to_datetime(value)), now) if isinstance(value, str) else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _sensible(at: datetime, now: datetime) -> datetime | None:
    return at if _OLDEST <= at <= now else None
