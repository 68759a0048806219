"""Example: how long the customer waited for an answer, and whether that was too long.

app.consumer("sla-breach", quiet="1m", max_wait="15m")(sla_breach)
"""

from __future__ import annotations

from datetime import datetime, timedelta

from afterturn.clock import from_text, to_text
from afterturn.model import Channel, Direction, Role, Stamp
from afterturn.reactions.registry import ReactionContext, TurnWindow

LIMIT = {
    Channel.VOICE: timedelta(minutes=1),
    Channel.WEB: timedelta(minutes=10),
    Channel.SMS: timedelta(minutes=30),
    Channel.TELEGRAM: timedelta(minutes=30),
    Channel.EMAIL: timedelta(hours=8),
}


async def sla_breach(window: TurnWindow, ctx: ReactionContext) -> Stamp:
    """Stamps ``breached``, ``breaches`` and ``worstS``; ``waitingSince`` is carried to the next run."""
    before = window.previous.data if window.previous else {}
    since = before.get("waitingSince")
    waiting: datetime | None = from_text(since) if isinstance(since, str) else None
    breaches, worst = _number(before.get("breaches")), _number(before.get("worstS"))
    for message in window.messages:
        if message.direction is Direction.INBOUND:
            waiting = waiting or message.at
        elif waiting is not None and message.role is not Role.SYSTEM:
            waited = message.at - waiting
            breaches += waited > LIMIT[window.conversation.channel]
            worst = max(worst, int(waited.total_seconds()))
            waiting = None
    return Stamp(
        data={
            "breached": breaches > 0,
            "breaches": breaches,
            "worstS": worst,
            "waitingSince": to_text(waiting) if waiting else None,
        }
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
