"""Times, lengths and names as people read them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

from afterturn.model import Channel

CHANNELS = {
    Channel.SMS: "SMS",
    Channel.EMAIL: "E-mail",
    Channel.VOICE: "Voice",
    Channel.TELEGRAM: "Telegram",
    Channel.WEB: "Web chat",
}

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def age(length: timedelta) -> str:
    """A length of time in its largest unit: ``7m``, ``3h``, ``12d``."""
    seconds = max(int(length.total_seconds()), 0)
    for unit, letter in _UNITS:
        if seconds >= unit:
            return f"{seconds // unit}{letter}"
    return "now"


def moment(at: datetime) -> str:
    """A time in UTC, whole seconds."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def count(number: int, what: str) -> str:
    """``1 turn``, ``1,730 turns``."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def conversation_path(conversation_id: str) -> str:
    """Where its page is; an id may hold any character."""
    return f"/conversations/{quote(conversation_id, safe='')}"


def address(path: str, pairs: Iterable[tuple[str, str]]) -> str:
    """A path with a query."""
    query = urlencode(list(pairs))
    return f"{path}?{query}" if query else path
