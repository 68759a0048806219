"""How the pages and the command show conversations: labels, ages, times, previews and counts. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from afterturn.inbox.page import InboxRow
from afterturn.model import Channel
from afterturn.reactions.state import ReactionState

CHANNEL_LABELS = {
    Channel.SMS: "SMS",
    Channel.EMAIL: "E-mail",
    Channel.VOICE: "Voice",
    Channel.TELEGRAM: "Telegram",
    Channel.WEB: "Web chat",
}

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def duration(length: timedelta) -> str:
    """A length of time in its largest unit: ``7m``, ``3h``, ``12d``; ``0s`` for less than a second."""
    seconds = max(int(length.total_seconds()), 0)
    for unit, letter in _UNITS:
        if seconds >= unit:
            return f"{seconds // unit}{letter}"
    return "0s"


def age(length: timedelta) -> str:
    """How long ago something was, in the largest unit; ``now`` for less than a second."""
    return duration(length) if length >= timedelta(seconds=1) else "now"


def moment(at: datetime) -> str:
    """A time in UTC, in whole seconds."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def count(number: int, noun: str) -> str:
    """``1 turn``, ``1,730 turns``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def one_line(text: object) -> str:
    """A text in one line: any run of white space becomes one space."""
    return " ".join(str(text).split())


def topics_of(row: InboxRow) -> tuple[str, ...]:
    """The topics that the topics consumer stamped."""
    topics = row.stamp("topics").get("topics")
    return tuple(str(topic) for topic in topics) if isinstance(topics, list) else ()


def grade_of(row: InboxRow) -> str | None:
    """The grade that the grade consumer stamped."""
    grade = row.stamp("grade").get("grade")
    return grade if isinstance(grade, str) else None


def alerts_of(row: InboxRow) -> tuple[str, ...]:
    """The kinds of emergencies that the maintenance consumer stamped."""
    alerts = row.stamp("maintenance").get("alerts")
    return tuple(str(kind) for kind in alerts) if isinstance(alerts, list) else ()


def consumers_in(row: InboxRow, state: ReactionState) -> tuple[str, ...]:
    """The consumers whose reaction is in a state."""
    return tuple(name for name, current in row.states.items() if current is state)
