"""Two visitors of a page, whose messages it counts for each from one on."""

from __future__ import annotations

import json

from tests.unit.channels.test_ingest import House, house

from afterturn.channels.responder import ReplyRequest
from afterturn.channels.types import InboundMessage, WebhookRequest
from afterturn.channels.webchat import webhook

__all__ = ["house"]


async def test_both_are_answered_though_their_messages_have_one_id(house: House) -> None:
    async def answer(one: ReplyRequest) -> str:
        return f"To {one.recipient}"

    house.responder = answer
    for visitor in ("ada", "bob", "ada"):
        body = json.dumps({"conversationId": visitor, "messageId": "m-1", "text": "Hello"}).encode()
        for one in webhook.parse(WebhookRequest("POST", "https://h.example/hooks/chat", {}, body), now=house.clock()):
            assert isinstance(one, InboundMessage)
            await house.intake.handle(one)
        await house.answering.once()
    assert await house.texts("web:ada") == ["Hello", "To ada"]
    assert await house.texts("web:bob") == ["Hello", "To bob"]
    assert (await house.turns("web:ada"), await house.turns("web:bob")) == (1, 1)
