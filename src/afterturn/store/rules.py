"""What a store decides inside its transactions, pure, so that every adapter decides alike."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from afterturn.clock import MILLISECOND, floor_millis
from afterturn.errors import InvalidRecord
from afterturn.model import Conversation, ConversationMeta, Message, StoredStamp, Turn

FUTURE_TOLERANCE_HOURS = 24


def check_times(messages: Iterable[Message], now: datetime, turn_at: datetime | None = None) -> None:
    """Refuse what claims to be more than a day in the future: mostly milliseconds given where seconds are meant."""
    if turn_at is not None and _is_future(turn_at, now):
        raise InvalidRecord("at", _FUTURE)
    for place, message in enumerate(messages):
        if _is_future(message.at, now):
            raise InvalidRecord(f"messages[{place}].at", _FUTURE)


_FUTURE = (
    f"lies more than {FUTURE_TOLERANCE_HOURS} hours in the future; check the year, and whether milliseconds were "
    "taken for seconds"
)


def _is_future(at: datetime, now: datetime) -> bool:
    return (at - now).total_seconds() > FUTURE_TOLERANCE_HOURS * 3600


def next_occurred_at(turn: Turn, settled_at: datetime | None, now: datetime) -> datetime:
    """The number of a settled turn: its own time, never in the future, and later than every turn before it."""
    own = floor_millis(min(turn.at, now) if turn.at else now)
    return own if settled_at is None else max(own, settled_at + MILLISECOND)


def newest_message_at(known: datetime | None, messages: Iterable[Message], now: datetime) -> datetime | None:
    """The newest message time, where a sender's clock that runs ahead counts as now; never moves back."""
    times = [min(message.at, now) for message in messages]
    if known is not None:
        times.append(known)
    return max(times, default=None)


def merge_meta(stored: Conversation, given: ConversationMeta) -> ConversationMeta:
    """What a turn changes of a known conversation: it adds participants and assigns an unassigned one.

    A property that was set stays: an operator's re-attribution is not undone by a channel that does not know of it.
    """
    participants = stored.participants + tuple(p for p in given.participants if p not in stored.participants)
    return ConversationMeta.model_construct(
        id=stored.id,
        channel=stored.channel,
        property_id=stored.property_id or given.property_id,
        type=stored.type,
        participants=participants[:100],
        status=stored.status,
        synthetic=stored.synthetic,
        gauntlet=stored.gauntlet,
        created_at=stored.created_at,
    )


def stamp_moves_forward(stored: StoredStamp | None, through: datetime) -> bool:
    """Whether a stamp that has seen ``through`` may replace the stored one."""
    return stored is None or stored.through is None or stored.through < through
