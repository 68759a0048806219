"""Two visitors of a page, whose messages it counts for each from one on."""

from __future__ import annotations

import json

from tests.unit.channels.test_ingest import ChannelRig, rig

from afterturn.channels.responder import ReplyRequest
from afterturn.channels.types import InboundMessage, WebhookRequest
from afterturn.channels.webchat import webhook

__all__ = ["rig"]


async def test_both_are_answered_though_their_messages_have_one_id(rig: ChannelRig) -> None:
    async def answer(one: ReplyRequest) -> str:
        return f"To {one.recipient}"

    rig.responder = answer
    for visitor in ("ada", "bob", "ada"):
        body = json.dumps({"conversationId": visitor, "messageId": "m-1", "text": "Hello"}).encode()
        for one in webhook.parse(WebhookRequest("POST", "https://h.example/hooks/chat", {}, body), now=rig.clock()):
            assert isinstance(one, InboundMessage)
            await rig.ingest.handle(one)
        await rig.auto_reply.once()
    assert await rig.texts("web:ada") == ["Hello", "To ada"]
    assert await rig.texts("web:bob") == ["Hello", "To bob"]
    assert (await rig.turns("web:ada"), await rig.turns("web:bob")) == (1, 1)
