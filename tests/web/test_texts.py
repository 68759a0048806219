"""Texts of any characters, on every store and by every way that a text comes in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr
from tests.emulator import access, emulator, session  # noqa: F401
from tests.unit.channels.endpoints import endpoints_of
from tests.unit.channels.test_turns import SECRET, signed
from tests.web.rig import API, Rig, ids
from tests.web.test_cursors import open_rig_on

from afterturn.channels.ingest import Ingest
from afterturn.channels.turns import TurnEndpoint
from afterturn.channels.webhooks import WebhookRouter
from afterturn.config import Settings
from afterturn.stream.port import Queue
from afterturn.web.webhooks import mount_webhooks

INBOX = f"{API}/conversations"


@pytest.fixture(params=["sqlite", "dynamodb"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig_on(request.param, tmp_path, request) as opened:
        backbone, clock = opened.backbone, opened.clock
        secrets = Settings(telegram_secret="hush", web_secret=SecretStr(SECRET))
        router = WebhookRouter(
            Ingest(backbone, backbone.store, clock),
            clock,
            endpoints_of(secrets),
        )
        mount_webhooks(opened.app, clock, router, turns=TurnEndpoint(backbone.settle, SecretStr(SECRET), clock))
        yield opened


SENT, KEPT = r"a\u0000b, a\u000b\ufffeb, \ud83d\ude00", "a\ufffdb, a\ufffd\ufffdb, 😀"
LONE = r"hi \ud83d"


async def reply(rig: Rig, text: str) -> tuple[int, str]:
    await rig.settle("c-1")
    async with rig.client("desk") as client:
        headers = {"idempotency-key": "k-1", "content-type": "application/json"}
        answer = await client.post(f"{INBOX}/c-1/replies", content=f'{{"text": "{text}"}}', headers=headers)
    return answer.status_code, "c-1"


async def web(rig: Rig, text: str) -> tuple[int, str]:
    body = f'{{"conversationId": "v-1", "messageId": "m-1", "text": "{text}"}}'.encode()
    return await _hooked(rig, "/hooks/web", body, {}), "web:v-1"


async def turn(rig: Rig, text: str) -> tuple[int, str]:
    message = '{"id": "m-1", "direction": "inbound", "role": "customer", "at": "2026-03-01T12:00:00Z", "text": "%s"}'
    body = f'{{"conversation": {{"id": "t-1", "channel": "web"}}, "messages": [{message % text}]}}'.encode()
    return await _hooked(rig, "/turns", body, {}), "t-1"


async def telegram(rig: Rig, text: str) -> tuple[int, str]:
    chat = '"date": 1772366405, "chat": {"id": 7, "type": "private"}, "from": {"id": 7, "is_bot": false}'
    body = f'{{"update_id": 1, "message": {{"message_id": 1, {chat}, "text": "{text}"}}}}'.encode()
    headers = {"x-telegram-bot-api-secret-token": "hush"}
    return await _hooked(rig, "/hooks/telegram", body, headers), "telegram:7"


async def _hooked(rig: Rig, path: str, body: bytes, headers: dict[str, str]) -> int:
    request = signed(body, at=rig.clock())
    async with rig.client() as client:
        answer = await client.post(path, content=body, headers=headers or dict(request.headers))
    return answer.status_code


WAYS = {"reply": reply, "web": web, "turn": turn, "telegram": telegram}


@pytest.mark.parametrize("way", WAYS)
async def test_a_text_of_any_characters_comes_back_and_its_event_goes_out(rig: Rig, way: str) -> None:
    status, conversation = await WAYS[way](rig, SENT)
    assert 200 <= status < 300
    async with rig.client("desk") as client:
        found = (await client.get(f"{INBOX}/{conversation}/messages")).json()["messages"]
        page = await client.get(f"/conversations/{conversation}")
        by_word = await client.get(INBOX, params={"words": "b", "window": "all"})
    assert found[-1]["text"] == KEPT
    if by_word.status_code == 422:  # words are looked for in a file alone
        assert "embedded profile" in by_word.text
    else:
        assert ids(by_word) == [conversation]
    assert (page.status_code, KEPT in page.text) == (200, True)
    taken = await rig.backbone.stream.receive(Queue.MAIN, limit=10, visibility=timedelta(minutes=1))
    assert json.loads(taken[-1].body)["conversationId"] == conversation


@pytest.mark.parametrize("way", WAYS)
async def test_half_a_character_is_refused_or_replaced_and_never_an_error_of_ours(rig: Rig, way: str) -> None:
    """What people of ours send may be sent anew; a provider that is refused sends the same for ever."""
    status, conversation = await WAYS[way](rig, LONE)
    known = [one.text for one in await rig.backbone.store.messages(conversation)]
    if way == "telegram":
        assert (status, known) == (200, ["hi \ufffd"])
    else:
        assert status in (400, 422)
        assert "hi" not in "".join(known)
