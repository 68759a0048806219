"""The webhooks function, deployed by the command and invoked by the emulator as a function URL does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.cli.command import turn
from tests.faults.deploying import (  # noqa: F401
    DEV,
    Rig,
    access,
    aws,
    emulator,
    open_rig,
    session,
    small_zip,
    temporal_server,
)
from tests.unit.channels.test_turns import SECRET, signed

from afterturn.stream.port import Queue


def deploy(rig: Rig) -> Any:
    return aws("deploy", "webhooks", "--zip", small_zip(rig.folder / "webhooks.zip", part="webhooks"), "--json")


async def invoke(rig: Rig, event: object) -> dict[str, Any]:
    answer = await rig.functions.invoke(
        FunctionName=DEV.function("webhooks"), Qualifier="live", Payload=json.dumps(event).encode()
    )
    body: dict[str, Any] = json.loads(await answer["Payload"].read())
    assert "FunctionError" not in answer, body
    return body


def called(path: str, body: bytes, more: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The event of a function URL for a signed request."""
    request = signed(body, more, at=datetime.now(UTC))
    return {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {**request.headers, "host": "webhooks.example"},
        "requestContext": {"http": {"method": "POST", "path": path}},
        "body": body.decode(),
        "isBase64Encoded": False,
    }


class TestWebhooks:
    async def test_a_signed_turn_is_settled_once_and_what_is_not_signed_never(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AFTERTURN_TURNS_SECRET", SECRET)
        done = await asyncio.to_thread(deploy, rig)
        assert done.code == 0, done.err
        event = called("/turns", turn("c-1").encode())
        first, again = await invoke(rig, event), await invoke(rig, event)
        assert (first["statusCode"], again["statusCode"]) == (200, 200)
        told = json.loads(first["body"])
        assert (told["new"], json.loads(again["body"])) == (True, {**told, "new": False})
        wrong = called("/turns", turn("c-2").encode(), {"webhook-signature": "v1,AAAA"})
        for odd, status in ((wrong, 401), (called("/other", b"{}"), 404), ({"Records": []}, 400), ([], 400), (7, 400)):
            answer = await invoke(rig, odd)
            assert answer["statusCode"] == status, odd
            assert set(json.loads(answer["body"])["error"]) == {"code", "message"}
        [delivery] = await rig.stream.receive(Queue.MAIN, limit=10, visibility=timedelta(seconds=30))
        record = json.loads(delivery.body)
        assert (record["eventId"], record["emitter"]) == (told["eventId"], "inbound-lambda")

    async def test_a_channel_comes_in_by_the_function_too(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        """Signed for the public address, which is not the function's own."""
        monkeypatch.setenv("AFTERTURN_TELEGRAM_SECRET", "hush")
        monkeypatch.setenv("AFTERTURN_PUBLIC_URL", "https://hooks.example.com")
        done = await asyncio.to_thread(deploy, rig)
        assert done.code == 0, done.err
        chat = {"id": 7, "type": "private"}
        said = {"message_id": 1, "date": 1772366405, "chat": chat, "from": {"id": 7, "first_name": "Ada"}, "text": "Hi"}
        event = called("/hooks/telegram", json.dumps({"update_id": 1, "message": said}).encode())
        assert (await invoke(rig, event))["statusCode"] == 401
        event["headers"]["x-telegram-bot-api-secret-token"] = "hush"
        for _ in range(2):
            assert (await invoke(rig, event))["statusCode"] == 200
        [delivery] = await rig.stream.receive(Queue.MAIN, limit=10, visibility=timedelta(seconds=30))
        assert json.loads(delivery.body)["conversationId"] == "telegram:7"

    async def test_without_its_secret_it_is_not_put_into_service(self, rig: Rig) -> None:
        done = await asyncio.to_thread(deploy, rig)
        assert done.code == 1
        assert "AFTERTURN_TURNS_SECRET" in done.err
