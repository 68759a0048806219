"""Example: a person is asked for, or the customer has had enough, and somebody is told once.

app.consumer("escalation", quiet="10s", max_wait="1m")(escalation(tell))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from afterturn.consumers.tone import load_tone_rules
from afterturn.model import Direction, Role, Stamp
from afterturn.reactions.registry import Handler, ReactionContext, TurnWindow

Tell = Callable[[str, str], Awaitable[None]]
"""Is given the conversation's id and an idempotency key."""


def escalation(tell: Tell) -> Handler:
    """Stamps ``escalated`` and ``reason`` (``asked-for-person`` or ``upset-twice``)."""
    tone = load_tone_rules()

    async def escalate(window: TurnWindow, ctx: ReactionContext) -> Stamp:
        before = dict(window.previous.data) if window.previous else {}
        if before.get("escalated"):
            return Stamp(data=before)
        signs = [tone.signs(m.text) for m in window.messages if m.direction is Direction.INBOUND]
        so_far = before.get("upset")
        upset = (so_far if isinstance(so_far, int) else 0) + sum("upset" in said for said in signs)
        taken = any(message.role is Role.OPERATOR for message in window.messages)
        reason = None
        if any("wants_person" in said for said in signs):
            reason = "asked-for-person"
        elif upset > 1:
            reason = "upset-twice"
        if reason and not taken:
            await ctx.once("escalate", lambda key: tell(window.conversation.id, key))
        return Stamp(data={"escalated": reason is not None, "reason": reason, "upset": upset})

    return escalate
