"""Windows and contexts for handlers, and claims that really encode what they keep."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from pydantic import JsonValue

from afterturn.model import Channel, Conversation, Direction, Message, Role, Stamp, StoredStamp
from afterturn.reactions.registry import Handler, ReactionContext, TurnWindow

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class MemoryClaims:
    """The store's promise about claims, in a dictionary of JSON texts."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], str] = {}
        self.done: set[tuple[str, str]] = set()

    async def claim(self, name: str, key: str, value: JsonValue = None) -> JsonValue:
        kept: JsonValue = json.loads(self.values.setdefault((name, key), json.dumps(value)))
        return kept

    async def claim_done(self, name: str, key: str) -> bool:
        return (name, key) in self.done

    async def finish_claim(self, name: str, key: str) -> None:
        self.done.add((name, key))


def customer(text: str, number: int = 0, *, at: datetime | None = None) -> Message:
    return said(Role.CUSTOMER, text, number, at=at)


def agent(text: str, number: int = 0, *, at: datetime | None = None) -> Message:
    return said(Role.AGENT, text, number, at=at)


def operator(text: str, number: int = 0, *, at: datetime | None = None) -> Message:
    return said(Role.OPERATOR, text, number, at=at)


def said(role: Role, text: str, number: int, *, at: datetime | None = None) -> Message:
    return Message(
        id=f"m{number}",
        direction=Direction.INBOUND if role is Role.CUSTOMER else Direction.OUTBOUND,
        role=role,
        text=text,
        at=at or START + timedelta(seconds=10 * number),
    )


def thread(*lines: str) -> list[Message]:
    """``"c: text"`` is the customer, ``a:`` the agent, ``o:`` an operator; ten seconds between the lines."""
    roles = {"c": Role.CUSTOMER, "a": Role.AGENT, "o": Role.OPERATOR, "s": Role.SYSTEM}
    return [said(roles[line[0]], line[2:].strip() or " ", number) for number, line in enumerate(lines)]


def window(
    messages: Iterable[Message],
    previous: StoredStamp | None = None,
    *,
    channel: Channel = Channel.SMS,
    conversation_id: str = "c1",
) -> TurnWindow:
    messages = tuple(messages)
    return TurnWindow(
        conversation=Conversation(id=conversation_id, channel=channel, property_id="p1", created_at=START),
        messages=messages,
        through=messages[-1].at if messages else START,
        previous=previous,
    )


def context(
    claims: MemoryClaims | None = None, *, consumer: str = "test", quiet: bool = False, conversation_id: str = "c1"
) -> ReactionContext:
    return ReactionContext(
        consumer=consumer,
        conversation_id=conversation_id,
        now=datetime.now(UTC),
        attempt=1,
        quiet=quiet,
        claims=claims or MemoryClaims(),
    )


def stored(stamp: Stamp, through: datetime = START) -> StoredStamp:
    """The stamp as it comes back from a store."""
    return StoredStamp(through=through, at=through, data=json.loads(json.dumps(stamp.to_json()["data"])))


async def run_in_windows(
    handler: Handler,
    messages: Sequence[Message],
    cuts: Iterable[int] = (),
    *,
    claims: MemoryClaims | None = None,
    channel: Channel = Channel.SMS,
    quiet: bool = False,
) -> list[Stamp]:
    """The stamps of one run a window; ``cuts`` are the places between them."""
    places = sorted({0, len(messages), *cuts})
    claims = claims or MemoryClaims()
    stamps: list[Stamp] = []
    previous: StoredStamp | None = None
    for begin, end in pairwise(places):
        part = messages[begin:end]
        stamp = await handler(window(part, previous, channel=channel), context(claims, quiet=quiet))
        previous = stored(stamp, part[-1].at)
        stamps.append(stamp)
    return stamps
