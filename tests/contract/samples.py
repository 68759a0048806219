"""Records that the contract suites share: short to write, different where it matters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from afterturn.model import Channel, ConversationMeta, Direction, Message, Role, Turn, Urgency, WorkOrder

T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
"""When most tests begin."""


def at(seconds: float) -> datetime:
    """So many seconds after :data:`T0`."""
    return T0 + timedelta(seconds=seconds)


def meta(conversation_id: str = "c1", **given: Any) -> ConversationMeta:
    return ConversationMeta(**{"id": conversation_id, "channel": Channel.SMS, **given})


def message(message_id: str, seconds: float = 0, **given: Any) -> Message:
    return Message(
        **{
            "id": message_id,
            "direction": Direction.INBOUND,
            "role": Role.CUSTOMER,
            "text": f"text of {message_id}",
            "at": at(seconds),
            **given,
        }
    )


def turn(conversation_id: str, *messages: Message, **given: Any) -> Turn:
    """A turn; what is not a field of turns is one of the conversation's."""
    own = {name: given.pop(name) for name in ("at", "key", "flush_mode") if name in given}
    return Turn(conversation=meta(conversation_id, **given), messages=messages, **own)


def work_order(order_id: str, **given: Any) -> WorkOrder:
    return WorkOrder(
        **{
            "id": order_id,
            "conversation_id": "c1",
            "category": "plumbing",
            "urgency": Urgency.ROUTINE,
            "message_id": "m1",
            "opened_at": T0,
            **given,
        }
    )
