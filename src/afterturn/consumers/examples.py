"""Example consumers: sentiment, escalation and SLA breach. Copy one to begin a consumer of your own.

app.consumer("sentiment", quiet="90s", max_wait="5m")(sentiment)
app.consumer("escalation", quiet="10s", max_wait="1m")(escalation(notify))
app.consumer("sla-breach", quiet="1m", max_wait="15m")(sla_breach)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from afterturn.clock import from_text, to_text
from afterturn.consumers.tone import load_tone_rules
from afterturn.model import Channel, Direction, Role, Stamp
from afterturn.reactions.registry import Handler, ReactionContext, TurnWindow

FADE = 0.7
"""How much of the mood so far is left when one more message has come in."""


async def sentiment(window: TurnWindow, ctx: ReactionContext) -> Stamp:
    """How the customer sounds, newest messages first.

    Stamps ``sentiment`` (``positive``, ``neutral``, ``negative``) and ``mood``, from -1 to 1.
    """
    tone = load_tone_rules()
    so_far = window.previous.data.get("mood") if window.previous else None
    mood = float(so_far) if isinstance(so_far, int | float) else 0.0
    for message in window.messages:
        if message.direction is Direction.INBOUND:
            signs = tone.signs(message.text)
            mood = mood * FADE + (("polite" in signs) - ("upset" in signs)) * (1 - FADE)
    name = "positive" if mood > 0.15 else "negative" if mood < -0.15 else "neutral"
    return Stamp(data={"sentiment": name, "mood": round(mood, 3)})


Notify = Callable[[str, str], Awaitable[None]]
"""Called once with the conversation's id and an idempotency key."""


def escalation(notify: Notify) -> Handler:
    """Notifies once if the customer asks for a person or is upset twice, unless an operator has taken over.

    Stamps ``escalated`` and ``reason`` (``asked-for-person`` or ``upset-twice``).
    """
    tone = load_tone_rules()

    async def escalate(window: TurnWindow, ctx: ReactionContext) -> Stamp:
        before = dict(window.previous.data) if window.previous else {}
        if before.get("escalated"):
            return Stamp(data=before)
        signs = [tone.signs(m.text) for m in window.messages if m.direction is Direction.INBOUND]
        so_far = before.get("upset")
        upset = (so_far if isinstance(so_far, int) else 0) + sum("upset" in message_signs for message_signs in signs)
        taken = any(message.role is Role.OPERATOR for message in window.messages)
        reason = None
        if any("wants_person" in message_signs for message_signs in signs):
            reason = "asked-for-person"
        elif upset > 1:
            reason = "upset-twice"
        if reason and not taken:
            await ctx.once("escalate", lambda key: notify(window.conversation.id, key))
        return Stamp(data={"escalated": reason is not None, "reason": reason, "upset": upset})

    return escalate


SLA = {
    Channel.VOICE: timedelta(minutes=1),
    Channel.WEB: timedelta(minutes=10),
    Channel.SMS: timedelta(minutes=30),
    Channel.TELEGRAM: timedelta(minutes=30),
    Channel.EMAIL: timedelta(hours=8),
}


async def sla_breach(window: TurnWindow, ctx: ReactionContext) -> Stamp:
    """How long the customer waited for an answer, and whether that was too long.

    Stamps ``breached``, ``breaches`` and ``worstS``; ``waitingSince`` is carried to the next run.
    """
    before = window.previous.data if window.previous else {}
    since = before.get("waitingSince")
    waiting: datetime | None = from_text(since) if isinstance(since, str) else None
    breaches, worst = _number(before.get("breaches")), _number(before.get("worstS"))
    for message in window.messages:
        if message.direction is Direction.INBOUND:
            waiting = waiting or message.at
        elif waiting is not None and message.role is not Role.SYSTEM:
            waited = message.at - waiting
            breaches += waited > SLA[window.conversation.channel]
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
