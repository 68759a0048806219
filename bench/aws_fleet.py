"""Many conversations in the emulator's table, as items straight out of afterturn's row-building code.

What a conversation is like follows from its number, so every build gives the same items: properties of equal chance,
an eighth unassigned, a year of history, stamps of the four shipped consumers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from afterturn.aws.table import table_definition
from afterturn.clock import to_text
from afterturn.model import Channel, ConversationMeta, Direction, Message, Role, Status, StoredStamp
from afterturn.store.dynamodb import RecencyLayouts, keys, rows
from afterturn.store.dynamodb.plans import recency_attributes
from afterturn.store.dynamodb.requests import Attributes, to_item
from afterturn.store.dynamodb.rows import preview_json
from afterturn.store.invariants import to_dump

PROPERTIES = 200
CONSUMERS = ("topics", "grade", "maintenance", "inbound-package")
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

_BATCH = 25
"""BatchWriteItem takes so many."""
_WRITERS = 8
_YEAR = timedelta(days=365)
_TOPICS = ("leasing", "availability", "pests", "parking", "tour", "maintenance", "payments")


def property_name(number: int) -> str:
    return f"property-{number:03}"


async def load(client: Any, table: str, conversations: int) -> None:
    """A new table with so many conversations."""
    await client.create_table(**table_definition(table))
    waiting = batches(conversations)

    async def writer() -> None:
        for batch in waiting:
            requests = [{"PutRequest": {"Item": to_item(item)}} for item in batch]
            answer = await client.batch_write_item(RequestItems={table: requests})
            assert not answer.get("UnprocessedItems")

    await asyncio.gather(*(writer() for _ in range(_WRITERS)))


def batches(conversations: int) -> Iterator[list[Attributes]]:
    chance = random.Random(conversations)
    for first in range(0, conversations, _BATCH):
        yield [item(number, chance) for number in range(first, min(first + _BATCH, conversations))]


def item(number: int, chance: random.Random) -> Attributes:
    """A conversation of eight turns that every consumer has seen."""
    property_id = None if chance.random() < 1 / 8 else property_name(chance.randrange(PROPERTIES))
    last = NOW - chance.random() * _YEAR
    settled = last.replace(microsecond=last.microsecond // 1000 * 1000)
    meta = ConversationMeta(
        id=f"conv-{number:010}",
        channel=chance.choice(tuple(Channel)),
        property_id=property_id,
        type=chance.choice(("lead", "general", "general")),
        participants=(f"+1555{chance.randrange(10**7):07}",),
        status=chance.choice((Status.OPEN, Status.CLOSED)),
    )
    key = keys.meta(meta.id)
    return {
        "PK": key[0],
        "SK": key[1],
        **rows.identity(meta.id),
        **rows.meta_attributes(meta),
        **recency_attributes(meta.id, last, RecencyLayouts()),
        "createdAt": to_text(last - timedelta(days=1)),
        "newestMessageAt": to_text(last),
        "lastMessageAt": to_text(last),
        "settledAt": to_text(settled),
        "recordedAt": to_text(last),
        "messageCount": 16,
        "settledCount": 16,
        "turnCount": 8,
        "preview": preview_json(_answer(last)),
        "rev": 8,
        **{rows.STAMP + name: _stamp(name, settled, chance) for name in CONSUMERS},
    }


def _answer(at: datetime) -> Message:
    text = "Thank you for writing. The office can show you the apartment on any weekday after nine."
    return Message(id="message-16", direction=Direction.OUTBOUND, role=Role.AGENT, text=text, at=at)


def _stamp(consumer: str, through: datetime, chance: random.Random) -> Attributes:
    data: dict[str, Attributes] = {
        "topics": {"topics": chance.sample(_TOPICS, 2), "matched": ["apartment"]},
        "grade": {"grade": chance.choice("ABBCD"), "answered": True, "seconds": chance.randrange(900), "reasons": []},
        "maintenance": {"orders": [], "urgency": None, "seen": 16},
        "inbound-package": {"inbound": 8, "handed": 8, "through": to_text(through)},
    }
    stamp = StoredStamp(through=through, at=through + timedelta(seconds=2), data=data[consumer])
    return rows.stamp_item(stamp, to_dump(stamp.data), 1)
