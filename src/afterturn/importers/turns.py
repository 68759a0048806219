"""Where a turn ends in a conversation that was recorded without turns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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
