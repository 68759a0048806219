"""The records that readers yield, where their turns end, and the checks that readers share. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from afterturn.clock import EPOCH, Clock, system_clock
from afterturn.ids import digest
from afterturn.model import (
    MAX_TURN_BYTES,
    MAX_TURN_MESSAGES,
    ConversationMeta,
    Direction,
    FlushMode,
    Message,
    Turn,
)
from afterturn.validation_messages import path_of, problem_of

MAX_PARTICIPANTS = 100
MAX_ATTACHMENTS = 50
OLDEST = datetime(1990, 1, 1, tzinfo=UTC)
"""Before this nobody sent a text message: an earlier time is a unit mixed up or a clock that was never set."""

_LARGEST_MILLIS = 253_402_300_799_999  # the last millisecond of the year 9999


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A part of the file that did not come in.

    ``location`` is such as ``chats.jsonl.gz:17`` or ``result.json: chat 4, message 9`` (both counted from one);
    ``problem`` says what is wrong and holds no content of a message.
    """

    location: str
    problem: str

    def __str__(self) -> str:
        return f"{self.location}: {self.problem}"


@dataclass(frozen=True, slots=True)
class ImportedConversation:
    """A conversation and its turns in order; what was bad in it came before, as :class:`BadRecord`."""

    meta: ConversationMeta
    turns: tuple[Turn, ...]
    location: str

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages in thread order."""
        return tuple(message for turn in self.turns for message in turn.messages)


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What a file does not say.

    ``own``: addresses, numbers, ids or names that are ours (e-mail also ``@domain``); what they sent is outbound.
    ``property_id``: the property of what is read, where the file names none. ``clock``: what counts as the future.
    ``region``: the country whose national phone numbers are completed (see :func:`afterturn.ids.normalise`).
    """

    own: frozenset[str] = frozenset()
    property_id: str | None = None
    clock: Clock = system_clock
    region: str | None = None


R = TypeVar("R", bound=BaseModel)


def make_record(kind: type[R], values: Mapping[str, Any], location: str) -> R | BadRecord:
    """A record of ``kind``, or what is wrong with the values."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        return BadRecord(location, _first_problem(error))
    except ValueError:  # a key that no encoding can hold, which pydantic doesn't report as its own error
        return BadRecord(location, "has a name or a value that cannot be encoded")


def time_problem(at: datetime, options: ImportOptions, *, oldest: datetime = OLDEST) -> str | None:
    """Why history cannot have happened at ``at``; None if it can."""
    if at > options.clock():
        return "lies in the future"
    if at < oldest:
        return f"lies before {oldest.year}"
    return None


def from_millis(millis: int, options: ImportOptions) -> datetime | str:
    """The time of milliseconds since 1970, or why a message cannot have it."""
    if not 0 <= millis <= _LARGEST_MILLIS:
        return "lies outside the years 1970 to 9999; is it in another unit than milliseconds?"
    at = EPOCH + timedelta(milliseconds=millis)
    if problem := time_problem(at, options):
        return f"{problem}; is it in another unit than milliseconds?" if at < OLDEST else problem
    return at


def from_seconds(seconds: int, options: ImportOptions) -> datetime | str:
    """The time of seconds since 1970, or why a message cannot have it."""
    if not 0 <= seconds <= _LARGEST_MILLIS // 1000:
        return "lies outside the years 1970 to 9999; is it in another unit than seconds?"
    at = EPOCH + timedelta(seconds=seconds)
    return time_problem(at, options) or at


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    path, problem = path_of(first["loc"]), problem_of(first)
    return f"{path}: {problem}" if path else problem


def thread_order(messages: Iterable[Message]) -> list[Message]:
    """By time; messages of one instant stay as they stood."""
    return sorted(messages, key=lambda message: message.at)


def split_into_turns(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """The messages of each turn, in order; none is empty and together they are all messages.

    A turn is what came in and what went out after it: a new one starts at an inbound message that follows an
    outbound one. So outbound messages at the start are a turn of their own, and so is an inbound run at the end.
    What would not fit one transaction is cut before the message that would be too much.
    """
    start, size = 0, 0
    for i, message in enumerate(messages):
        weight = _weight(message)
        full = i - start == MAX_TURN_MESSAGES or size + weight > MAX_TURN_BYTES
        if i > start and (full or _answered(messages[i - 1], message)):
            yield messages[start:i]
            start, size = i, 0
        size += weight
    if start < len(messages):
        yield messages[start:]


def make_turns(meta: ConversationMeta, messages: Sequence[Message]) -> tuple[Turn, ...]:
    """The turns of messages that stand in thread order."""
    return tuple(make_turn(meta, part) for part in split_into_turns(messages))


def make_turn(meta: ConversationMeta, messages: Sequence[Message]) -> Turn:
    """One turn at the time of its last message, whose key is the same in every run."""
    return Turn(
        conversation=meta,
        messages=tuple(messages),
        at=messages[-1].at,
        flush_mode=FlushMode.DEBOUNCED,
        key=turn_key(meta.id, messages),
    )


def turn_key(conversation_id: str, messages: Sequence[Message]) -> str:
    """Changes when a later file brings more messages of the turn, so that they are settled too."""
    return "import:" + digest(conversation_id, *(message.id for message in messages))


def _answered(before: Message, message: Message) -> bool:
    return before.direction is Direction.OUTBOUND and message.direction is Direction.INBOUND


def _weight(message: Message) -> int:
    """Bytes as :class:`~afterturn.model.Turn` counts them."""
    return len(message.text) * (1 if message.text.isascii() else 4)
