"""Turns to settle: made-up ones for the writer, real dialogues for the pipeline."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from afterturn.importers import ImportedConversation, read
from afterturn.model import Channel, ConversationMeta, Direction, Message, Role, Turn

DIALOGUES = Path(__file__).resolve().parents[2] / "shared" / "data" / "dialogues-dev.jsonl.gz"

_SENTENCES = (
    "the sink in our kitchen is leaking again and water runs under the cabinet could somebody come by tomorrow "
    "morning thank you for letting us know we will send a plumber between nine and eleven please keep it clear"
)


def live_turns(conversations: int, turns_each: int, *, seed: int = 1) -> list[list[Turn]]:
    """For each conversation its turns in order: what the customer wrote, with the provider's id, and an answer."""
    chance = random.Random(seed)
    start = datetime(2026, 3, 1, 9, tzinfo=UTC)
    return [[*_turns(f"conv-{chance.getrandbits(64):016x}", turns_each, start, chance)] for _ in range(conversations)]


def dialogues(path: Path = DIALOGUES) -> list[list[Turn]]:
    """The turns of each real dialogue, as if they happened now: without their key, and with no time of their own."""
    with read(path) as found:
        return [
            [turn.model_copy(update={"key": None, "at": None}) for turn in one.turns]
            for one in found
            if isinstance(one, ImportedConversation)
        ]


def interleaved(conversations: list[list[Turn]]) -> list[Turn]:
    """The first turn of every conversation, then the second ones, and so on: one order for a single thread."""
    longest = max(map(len, conversations))
    return [turns[place] for place in range(longest) for turns in conversations if place < len(turns)]


def _turns(conversation_id: str, count: int, start: datetime, chance: random.Random) -> Iterator[Turn]:
    meta = ConversationMeta(
        id=conversation_id,
        channel=Channel.SMS,
        property_id=f"property-{chance.randrange(200):03}",
        participants=(f"+1555{chance.randrange(10**7):07}",),
    )
    for number in range(count):
        at = start + timedelta(minutes=number * 5, seconds=chance.randrange(60))
        asked = Message(
            id=f"m{number}-in",
            direction=Direction.INBOUND,
            role=Role.CUSTOMER,
            text=text(chance),
            at=at,
            provider_id=f"SM{chance.getrandbits(128):032x}",
        )
        answered = Message(
            id=f"m{number}-out",
            direction=Direction.OUTBOUND,
            role=Role.AGENT,
            text=text(chance),
            at=at + timedelta(seconds=4),
        )
        yield Turn(conversation=meta, messages=(asked, answered))


def text(chance: random.Random) -> str:
    """What somebody might write: 8 to 29 words."""
    words = _SENTENCES.split()
    return " ".join(chance.choices(words, k=chance.randrange(8, 30)))
