"""Turns over HTTP: signed ones are settled once, and nothing else is written."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from standardwebhooks import Webhook
from tests.cli.command import turn
from tests.unit.channels.channel_rig import ChannelRig

from afterturn.channels.turns import MAX_BODY_BYTES, TurnEndpoint
from afterturn.channels.types import WebhookRequest
from afterturn.channels.webhooks import WebhookResponse
from afterturn.errors import ConfigError, StoreBusy
from afterturn.event import make_event
from afterturn.model import FlushMode, Turn
from afterturn.settle import SettleResult

NOW = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
OTHER = "whsec_" + base64.b64encode(b"fedcba9876543210fedcba9876543210").decode()


class RecordingSettler:
    """Takes down what is settled."""

    def __init__(self, error: Exception | None = None) -> None:
        self.turns: list[Turn] = []
        self.error = error

    async def __call__(self, turn: Turn) -> SettleResult:
        if self.error is not None:
            raise self.error
        self.turns.append(turn)
        meta = turn.conversation
        event = make_event(
            conversation_id=meta.id,
            property_id=meta.property_id,
            origin=turn.origin,
            channel=meta.channel,
            emitter="web",
            occurred_at=NOW,
            flush_mode=FlushMode.DEBOUNCED,
        )
        return SettleResult(event=event, new=len(self.turns) == 1)


def signed(
    body: bytes, more: Mapping[str, str] | None = None, *, secret: str = SECRET, at: datetime = NOW
) -> WebhookRequest:
    signature = Webhook(secret).sign("msg_1", at, body.decode("utf-8", "replace"))
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(int(at.timestamp())), "webhook-signature": signature}
    return WebhookRequest("POST", "https://webhooks.example/turns", headers | dict(more or {}), body)


async def answered(request: WebhookRequest, settling: RecordingSettler) -> WebhookResponse:
    return await TurnEndpoint(settling, SecretStr(SECRET), lambda: NOW)(request)


async def test_a_signed_turn_is_settled_and_its_event_told() -> None:
    settling = RecordingSettler()
    answer = await answered(signed(turn("c-1").encode()), settling)
    assert answer.status == 200
    told = json.loads(answer.body)
    assert told["eventId"].startswith("turn:c-1:")
    assert told["new"] is True
    assert [one.conversation.id for one in settling.turns] == ["c-1"]


async def test_of_several_signatures_one_has_to_be_good() -> None:
    """A secret that is being changed signs twice for a while."""
    request = signed(turn("c-1").encode())
    old = signed(request.body, secret=OTHER).headers["webhook-signature"]
    both = signed(request.body, {"webhook-signature": f"{old} {request.headers['webhook-signature']}"})
    assert (await answered(both, RecordingSettler())).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"webhook-signature": ""},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,ÄÖ"},
        {"webhook-id": ""},
        {"webhook-id": "msg_2"},
        {"webhook-id": "m" * 300},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": "-1"},
        {"webhook-timestamp": "1" * 400},
        {"webhook-timestamp": "²"},
    ],
    ids=str,
)
async def test_headers_that_do_not_fit_are_refused(headers: dict[str, str]) -> None:
    settling = RecordingSettler()
    answer = await answered(signed(turn("c-1").encode(), headers), settling)
    assert answer.status == 401
    assert json.loads(answer.body)["error"]["code"] == "rejected"
    assert settling.turns == []


async def test_another_secret_and_another_body_are_refused() -> None:
    settling = RecordingSettler()
    body = turn("c-1").encode()
    assert (await answered(signed(body, secret=OTHER), settling)).status == 401
    good = signed(body)
    altered = WebhookRequest("POST", good.url, good.headers, body.replace(b"c-1", b"c-2"))
    assert (await answered(altered, settling)).status == 401
    assert settling.turns == []


@given(st.integers(-1000, 1000))
async def test_a_signature_is_good_for_five_minutes(seconds: int) -> None:
    settling = RecordingSettler()
    answer = await answered(signed(turn("c-1").encode(), at=NOW + timedelta(seconds=seconds)), settling)
    assert answer.status == (200 if abs(seconds) <= 300 else 401)
    assert len(settling.turns) == (abs(seconds) <= 300)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "is empty"),
        (b"{", "is not JSON"),
        (b"[]", "not an object"),
        (b"null", "not an object"),
        (b'{"conversation": 1, "conversation": 2}', "stands twice"),
        (b'{"conversation": {"id": "c-1"}}', "channel"),
        (b'{"conversation": {"id": "c-1", "channel": "fax"}}', "channel"),
        (b'{"conversation": {"id": "", "channel": "sms"}}', "id"),
        (b'{"conversation": {"id": "c-1", "channel": "sms"}, "at": NaN}', "NaN"),
        (b"[" * 100_000, "nested"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_what_is_no_turn_is_refused_in_one_shape(body: bytes, said: str) -> None:
    settling = RecordingSettler()
    answer = await answered(signed(body), settling)
    assert answer.status == (422 if said in ("channel", "id") else 400)
    error: dict[str, Any] = json.loads(answer.body)["error"]
    assert {"code", "message"} <= set(error) <= {"code", "message", "field"}
    assert said in error["message"]
    assert settling.turns == []


async def test_bytes_that_are_no_text_are_refused() -> None:
    assert (await answered(signed(b'{"a": "\xff"}'), RecordingSettler())).status == 400


async def test_a_body_too_large_and_another_method_are_refused_unread() -> None:
    assert (
        await answered(WebhookRequest("POST", "https://x/", {}, b"x" * (MAX_BODY_BYTES + 1)), RecordingSettler())
    ).status == 413
    answer = await answered(WebhookRequest("GET", "https://x/", {}, b""), RecordingSettler())
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


async def test_a_store_that_is_out_asks_for_the_same_again_and_tells_nothing_of_itself() -> None:
    answer = await answered(signed(turn("c-1").encode()), RecordingSettler(StoreBusy("/var/db is busy")))
    assert (answer.status, answer.headers["retry-after"]) == (503, "30")
    assert "/var" not in answer.body


def test_a_secret_that_is_none_is_said_at_once() -> None:
    for secret in ("", "whsec_", "not base64!"):
        with pytest.raises(ConfigError, match="secret"):
            TurnEndpoint(RecordingSettler(), SecretStr(secret), lambda: NOW)


@pytest.mark.parametrize("bare", [True, False], ids=["no messages", "messages"])
async def test_the_same_call_settles_once_also_where_its_turn_brings_no_message(rig: ChannelRig, *, bare: bool) -> None:
    """The end of a call settles what was saved before: nothing in it tells a second delivery from the first."""
    given = json.loads(turn("c-1"))
    if bare:
        given["messages"] = []
    endpoint = TurnEndpoint(rig.backbone.settle, SecretStr(SECRET), lambda: NOW)
    told = [json.loads((await endpoint(signed(json.dumps(given).encode()))).body) for _ in range(2)]
    assert [one["new"] for one in told] == [True, False]
    assert told[0]["eventId"] == told[1]["eventId"]
    assert await rig.turns("c-1") == 1
