"""Example: how the customer sounds, newest messages first. Copy it to begin a consumer of your own.

app.consumer("sentiment", quiet="90s", max_wait="5m")(sentiment)
"""

from __future__ import annotations

from afterturn.consumers.tone import load_tone_rules
from afterturn.model import Direction, Stamp
from afterturn.reactions.registry import ReactionContext, TurnWindow

FADE = 0.7
"""How much of the mood so far is left when one more message has come in."""


async def sentiment(window: TurnWindow, ctx: ReactionContext) -> Stamp:
    """Stamps ``sentiment`` (``positive``, ``neutral``, ``negative``) and ``mood``, from -1 to 1."""
    tone = load_tone_rules()
    so_far = window.previous.data.get("mood") if window.previous else None
    mood = float(so_far) if isinstance(so_far, int | float) else 0.0
    for message in window.messages:
        if message.direction is Direction.INBOUND:
            signs = tone.signs(message.text)
            mood = mood * FADE + (("polite" in signs) - ("upset" in signs)) * (1 - FADE)
    name = "positive" if mood > 0.15 else "negative" if mood < -0.15 else "neutral"
    return Stamp(data={"sentiment": name, "mood": round(mood, 3)})
