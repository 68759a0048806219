"""A chat on a page: what its server hands on comes in once, is answered, and is sent nowhere."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from tests.unit.channels.endpoints import endpoints_of
from tests.unit.channels.test_ingest import House, opened
from tests.unit.channels.test_turns import NOW, OTHER, SECRET, signed

from afterturn.channels.responder import ReplyRequest
from afterturn.channels.state import DISPATCH
from afterturn.channels.webhooks import WebhookRouter
from afterturn.config import Settings
from afterturn.errors import ConfigError
from afterturn.testing import ManualClock

WEB = "/hooks/web"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with opened(tmp_path, ManualClock(NOW)) as house:
        yield house


def doors(house: House) -> WebhookRouter:
    secrets = Settings(web_secret=SecretStr(SECRET))
    return WebhookRouter(house.intake, house.clock, endpoints_of(secrets))


def said(**changed: Any) -> bytes:
    return json.dumps({"conversationId": "visitor-1", "messageId": "m-1", "text": "Hello", **changed}).encode()


async def test_a_message_comes_in_once_and_its_answer_waits_for_the_page(house: House) -> None:
    async def answer(asked: ReplyRequest) -> str:
        return "Good day."

    house.responder = answer
    for _ in range(2):
        assert (await doors(house)(WEB, signed(said()))).status == 200
    await house.answering.once()
    assert await house.texts("web:visitor-1") == ["Hello", "Good day."]
    assert await house.backbone.store.waiting_jobs(DISPATCH, limit=9) == ()


async def test_unsigned_and_foreign_ones_are_refused(house: House) -> None:
    for request in (signed(said(), secret=OTHER), signed(said(), {"webhook-signature": ""})):
        assert (await doors(house)(WEB, request)).status == 401
    assert (await house.backbone.store.counts())["messages"] == 0


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
async def test_what_is_no_message_is_refused_with_its_field(house: House, body: bytes, told: str) -> None:
    answer = await doors(house)(WEB, signed(body))
    assert answer.status == (400 if told in ("is empty", "not an object") else 422)
    assert told in json.loads(answer.body)["error"]["message"]
    assert (await house.backbone.store.counts())["messages"] == 0


def test_a_secret_that_is_none_is_said_at_once() -> None:
    with pytest.raises(ConfigError, match="web secret"):
        endpoints_of(Settings(web_secret=SecretStr("not base64!")))
