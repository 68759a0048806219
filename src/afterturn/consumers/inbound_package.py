"""Hands on what came in, as signed webhooks that hold ids only.

The body: ``type`` (``conversation.inbound_package``), ``timestamp`` (the newest turn of the package's run), and
``data``: ``conversationId``, ``propertyId`` (null while unassigned), ``channel``, ``messageIds`` (inbound messages in
thread order, at most 200), ``through`` (the newest turn that the run saw), ``more`` (another package of the same run
follows).

A package is pinned before it is sent: a run after a crash sends the very same package again, under the same
``webhook-id``, and then what has come in since as another one.

The stamp: ``packages`` and ``messages``, how many were handed on in all; ``delivery``: ``accepted``, ``gone`` (the
receiver answered 410 and wants no more), or ``off`` (no URL is set).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pydantic import JsonValue

from afterturn.clock import to_text
from afterturn.consumers.webhook import SignedEndpoint, WebhookOutcome
from afterturn.model import Direction, Stamp
from afterturn.reactions.registry import Handler, ReactionContext, TurnWindow

MAX_MESSAGES = 200

_TYPE = "conversation.inbound_package"
_START = "start"


def inbound_package_handler(endpoint: SignedEndpoint | None) -> Handler:
    """The consumer; without an endpoint it only stamps."""

    async def inbound_package(window: TurnWindow, ctx: ReactionContext) -> Stamp:
        before = window.previous.data if window.previous else {}
        packages, messages = _number(before, "packages"), _number(before, "messages")
        delivery = before.get("delivery", "off")
        if endpoint is not None and not ctx.quiet:
            for body in await _pinned(window, ctx):
                delivery = (await _deliver(endpoint, body, ctx)).value
                packages += 1
                messages += len(_ids(body))
        return Stamp(data={"packages": packages, "messages": messages, "delivery": delivery})

    return inbound_package


async def _pinned(window: TurnWindow, ctx: ReactionContext) -> list[Mapping[str, JsonValue]]:
    """The packages of this run: first those that an earlier try has pinned, then new ones for the rest."""
    rest = [message.id for message in window.messages if message.direction is Direction.INBOUND]
    after = _after(window)
    pinned: list[Mapping[str, JsonValue]] = []
    while rest:
        key = f"package:{after}:{len(pinned)}"
        body = await ctx.pin(key, _body(window, rest, webhook_id=_webhook_id(ctx, key)))
        if not isinstance(body, dict):
            raise TypeError("a pinned package is not an object")
        pinned.append(body)
        done = set(_ids(body))
        rest = [message_id for message_id in rest if message_id not in done]
    return pinned


async def _deliver(endpoint: SignedEndpoint, pinned: Mapping[str, JsonValue], ctx: ReactionContext) -> WebhookOutcome:
    webhook_id = str(pinned["webhookId"])
    outcome = WebhookOutcome.ACCEPTED

    async def effect(_: str) -> None:
        nonlocal outcome
        body = {key: value for key, value in pinned.items() if key != "webhookId"}
        outcome = await endpoint.send(webhook_id, body, ctx.now)

    await ctx.once(f"deliver:{webhook_id}", effect)
    return outcome


def _body(window: TurnWindow, rest: list[str], *, webhook_id: str) -> dict[str, JsonValue]:
    through = to_text(window.through)
    return {
        "webhookId": webhook_id,
        "type": _TYPE,
        "timestamp": through,
        "data": {
            "conversationId": window.conversation.id,
            "propertyId": window.conversation.property_id,
            "channel": window.conversation.channel.value,
            "messageIds": list[JsonValue](rest[:MAX_MESSAGES]),
            "through": through,
            "more": len(rest) > MAX_MESSAGES,
        },
    }


def _webhook_id(ctx: ReactionContext, key: str) -> str:
    cause = "\0".join((ctx.consumer, ctx.conversation_id, key))
    return f"msg_{hashlib.sha256(cause.encode()).hexdigest()[:32]}"


def _after(window: TurnWindow) -> str:
    """Where the window begins: the same in each try, however far it has grown meanwhile."""
    through = window.previous.through if window.previous else None
    return to_text(through) if through else _START


def _ids(pinned: Mapping[str, JsonValue]) -> list[str]:
    data = pinned["data"]
    ids = data["messageIds"] if isinstance(data, dict) else None
    return [str(entry) for entry in ids] if isinstance(ids, list) else []


def _number(data: Mapping[str, JsonValue], key: str) -> int:
    value = data.get(key)
    return value if isinstance(value, int) else 0
