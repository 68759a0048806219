"""A chat on a page: what its server hands on comes in once, is answered, and is sent nowhere."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from tests.unit.channels.channel_rig import ChannelRig, opened
from tests.unit.channels.endpoints import endpoints_of
from tests.unit.channels.test_turns import NOW, OTHER, SECRET, signed

from afterturn.channels.responder import ReplyRequest
from afterturn.channels.state import SEND
from afterturn.channels.webhooks import WebhookRouter
from afterturn.config import Settings
from afterturn.errors import ConfigError
from afterturn.testing import ManualClock

WEB = "/hooks/web"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ChannelRig]:
    async with opened(tmp_path, ManualClock(NOW)) as rig:
        yield rig


def router(rig: ChannelRig) -> WebhookRouter:
    secrets = Settings(web_secret=SecretStr(SECRET))
    return WebhookRouter(rig.ingest, rig.clock, endpoints_of(secrets))


def said(**changed: Any) -> bytes:
    return json.dumps({"conversationId": "visitor-1", "messageId": "m-1", "text": "Hello", **changed}).encode()


async def test_a_message_comes_in_once_and_its_answer_waits_for_the_page(rig: ChannelRig) -> None:
    async def answer(asked: ReplyRequest) -> str:
        return "Good day."

    rig.responder = answer
    for _ in range(2):
        assert (await router(rig)(WEB, signed(said()))).status == 200
    await rig.auto_reply.once()
    assert await rig.texts("web:visitor-1") == ["Hello", "Good day."]
    assert await rig.backbone.store.waiting_jobs(SEND, limit=9) == ()


async def test_unsigned_and_foreign_ones_are_refused(rig: ChannelRig) -> None:
    for request in (signed(said(), secret=OTHER), signed(said(), {"webhook-signature": ""})):
        assert (await router(rig)(WEB, request)).status == 401
    assert (await rig.backbone.store.counts())["messages"] == 0


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "is empty"),
        (b"[]", "not an object"),
        (said(text=""), "text"),
        (said(text=7), "text"),
        (said(messageId="\x00"), "messageId"),
        (said(conversationId="x" * 300), "conversationId"),
        (said(when="now"), "when"),
        (said(text="\ud83d"), "surrogate"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_what_is_no_message_is_refused_with_its_field(rig: ChannelRig, body: bytes, told: str) -> None:
    answer = await router(rig)(WEB, signed(body))
    assert answer.status == (400 if told in ("is empty", "not an object") else 422)
    assert told in json.loads(answer.body)["error"]["message"]
    assert (await rig.backbone.store.counts())["messages"] == 0


def test_a_secret_that_is_none_is_said_at_once() -> None:
    with pytest.raises(ConfigError, match="web secret"):
        endpoints_of(Settings(web_secret=SecretStr("not base64!")))


async def test_two_visitors_whose_messages_have_one_id_are_both_answered(rig: ChannelRig) -> None:
    """A page counts its messages for each visitor from one on."""

    async def answer(request: ReplyRequest) -> str:
        return f"To {request.recipient}"

    rig.responder = answer
    for visitor in ("ada", "bob", "ada"):
        assert (await router(rig)(WEB, signed(said(conversationId=visitor)))).status == 200
        await rig.auto_reply.once()
    for visitor in ("ada", "bob"):
        assert await rig.texts(f"web:{visitor}") == ["Hello", f"To {visitor}"]
        assert await rig.turns(f"web:{visitor}") == 1
