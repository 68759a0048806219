"""Every refusal has the one shape, says what to do next, and leaves nothing behind; faults of ours show nothing."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from tests.web.rig import API, Rig, error_of, raw

from afterturn.errors import AfterturnError, EngineUnavailable, StoreBusy, StoreDamaged, StreamUnavailable

REPLIES = f"{API}/conversations/c-1/replies"
HEADERS = {"idempotency-key": "k-1", "content-type": "application/json"}


async def stored(rig: Rig) -> int:
    return len(await rig.backbone.store.messages("c-1"))


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v1", "/api/v1/conversations/", "/nothing", "/api/v2/x"])
async def test_an_address_that_is_none(rig: Rig, path: str) -> None:
    async with rig.client("root") as client:
        answer = await client.get(path)
    assert answer.status_code == 404
    assert error_of(answer)["code"] == "not_found"


async def test_a_method_that_is_not_taken(rig: Rig) -> None:
    async with rig.client("root") as client:
        answer = await client.put(f"{API}/conversations")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET"
    assert error_of(answer)["code"] == "method"


async def test_a_missing_key_of_a_write(rig: Rig) -> None:
    await rig.settle("c-1")
    async with rig.client("desk") as client:
        answer = await client.post(REPLIES, json={"text": "Yes."})
    assert answer.status_code == 422
    assert error_of(answer)["field"] == "Idempotency-Key"
    assert await stored(rig) == 1


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "application/json; charset=utf-16", "", "json", "é"])
async def test_a_body_that_is_not_said_to_be_json(rig: Rig, kind: str) -> None:
    await rig.settle("c-1")
    async with rig.client("desk") as client:
        headers = raw({**HEADERS, "content-type": kind})
        answer = await client.post(REPLIES, content=b'{"text": "Yes."}', headers=headers)
    assert answer.status_code == 415
    assert error_of(answer)["code"] == "content_type"
    assert await stored(rig) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b'{"text": "a", "text": "b"}',
        b'{"text": NaN}',
        b'{"text": 1e999}',
        b'{"text": 5}',
        b'{"text": ""}',
        b'{"text": null}',
        b'{"text": "a", "secretly": "b"}',
        b'{"text": "a", "\\ud83d": "b"}',
        b'{"text": "hi \\ud83d"}',
        b'{"text": "\xff"}',
        b'\xef\xbb\xbf{"text"',
        b"[" * 50_000,
        b'{"text": ' + b"1" * 5_000 + b"}",
        b"\x00",
    ],
    ids=lambda body: repr(body[:30]),
)
async def test_bad_json(rig: Rig, body: bytes) -> None:
    await rig.settle("c-1")
    async with rig.client("desk") as client:
        answer = await client.post(REPLIES, content=body, headers=HEADERS)
    assert answer.status_code in (400, 422), answer.text
    error = error_of(answer)
    assert error["field"]
    assert "secretly" not in error["message"]
    assert await stored(rig) == 1


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=many", "limit"),
        ("window=1h", "window"),
        ("since=yesterday", "since"),
        ("since=2026-03-01T12:00:00", "since"),
        ("since=2026-03-01T12:00:00%2B00:00&until=2026-03-01T11:00:00Z", "query"),
        ("window=24h&since=2026-03-01T12:00:00Z", "query"),
        ("channel=fax", "channel[0]"),
        ("type=A%20B", "type[0]"),
        ("property=", "property[0]"),
        ("property=a%00b", "property[0]"),
        ("status=half", "status"),
        ("owed=nobody", None),
        ("propetry=oak", "propetry"),
        ("<script>=1", "(a field)"),
    ],
)
async def test_a_query_that_makes_no_sense(rig: Rig, query: str, field: str | None) -> None:
    async with rig.client("desk") as client:
        answer = await client.get(f"{API}/conversations?{query}")
    assert answer.status_code == 422, answer.text
    assert error_of(answer).get("field") == field


@pytest.mark.parametrize(
    "error",
    [
        StoreBusy("the file /secret/place.db"),
        StoreDamaged("at page 7 of /secret/place.db"),
        StreamUnavailable("queue of account 12345"),
        EngineUnavailable("temporal.secret.example"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_does_not_answer_is_a_503_without_details(
    rig: Rig, error: AfterturnError, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _broken(rig, error, monkeypatch, status=503)


@pytest.mark.parametrize(
    "error", [RuntimeError("my sink leaks"), KeyError("secret"), AfterturnError("secret")], ids=repr
)
async def test_a_fault_of_ours_is_a_500_without_details(
    rig: Rig, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        await _broken(rig, error, monkeypatch, status=500)
    assert type(error).__name__ in caplog.text
    assert str(error.args[0]) not in caplog.text
    assert "Traceback" not in caplog.text


async def _broken(rig: Rig, error: Exception, monkeypatch: pytest.MonkeyPatch, *, status: int) -> None:
    async def fails(*given: Any, **named: Any) -> Any:
        raise error

    await rig.settle("c-1")
    monkeypatch.setattr(type(rig.backbone.inbox), "row", fails)
    async with rig.client("desk") as client:
        answer = await client.get(f"{API}/conversations/c-1")
    assert answer.status_code == status
    error_of(answer)
    assert str(error.args[0]) not in answer.text
    assert ("retry-after" in answer.headers) == (status == 503)


async def test_what_is_answered_is_kept_nowhere_and_taken_for_nothing_else(rig: Rig) -> None:
    async with rig.client("desk") as client:
        for answer in (await client.get(f"{API}/conversations"), await client.get(f"{API}/nothing")):
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            json.loads(answer.content)
