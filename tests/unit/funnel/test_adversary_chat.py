"""Two visitors of a page, whose messages it counts for each from one on."""

from __future__ import annotations

import json

from tests.unit.funnel.test_intake import House, house

from afterturn.funnel import chat
from afterturn.funnel.arrivals import Arrived, Request
from afterturn.funnel.responder import Asked

__all__ = ["house"]


async def test_both_are_answered_though_their_messages_have_one_id(house: House) -> None:
    async def answer(one: Asked) -> str:
        return f"To {one.recipient}"

    house.responder = answer
    for visitor in ("ada", "bob", "ada"):
        body = json.dumps({"conversationId": visitor, "messageId": "m-1", "text": "Hello"}).encode()
        for one in chat.read(Request("POST", "https://h.example/hooks/chat", {}, body), now=house.clock()):
            assert isinstance(one, Arrived)
            await house.intake.take(one)
        await house.answering.once()
    assert await house.texts("web:ada") == ["Hello", "To ada"]
    assert await house.texts("web:bob") == ["Hello", "To bob"]
    assert (await house.turns("web:ada"), await house.turns("web:bob")) == (1, 1)
