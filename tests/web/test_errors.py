"""Every refusal has the one shape, says what to do next, and leaves nothing behind; faults of ours show nothing."""

from __future__ import annotations

import json
import logging
import re
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


THEIRS = re.compile("Input|should|Field required|Extra|Unable|Value error|Expecting|pydantic|dictionary")
"""Words of the libraries below, which say nothing to whoever called."""


@pytest.mark.parametrize(
    ("method", "path", "given", "status", "message"),
    [
        ("GET", "/conversations", {"params": {"limit": 501}}, 422, "limit: has to be at most 500"),
        ("GET", "/conversations", {"params": {"limit": "many"}}, 422, "limit: has to be a whole number"),
        (
            "GET",
            "/conversations",
            {"params": {"window": "1h"}},
            422,
            "window: has to be '24h', '7d', '30d', '90d' or 'all'",
        ),
        (
            "GET",
            "/conversations",
            {"params": {"propetry": "oak"}},
            422,
            "the field is unknown here; leave it out, or look how it is spelt",
        ),
        (
            "GET",
            "/ledger/audit",
            {"params": {"grace": "soon"}},
            422,
            "grace: has to be a duration such as 90s, 5m, 24h or 7d",
        ),
        (
            "POST",
            "/replies",
            {"json": {"text": "Yes."}},
            422,
            "Idempotency-Key: is missing; it has to be given",
        ),
        (
            "POST",
            "/replies",
            {"json": {"text": "Yes."}, "headers": {"idempotency-key": "a b"}},
            422,
            "Idempotency-Key: has to be 1 to 200 visible ASCII characters without spaces, such as a UUID",
        ),
        ("POST", "/replies", {"json": {}, "headers": HEADERS}, 422, "text: is missing; it has to be given"),
        ("POST", "/replies", {"json": {"text": ""}, "headers": HEADERS}, 422, "text: is empty; give something"),
        ("POST", "/replies", {"json": [], "headers": HEADERS}, 422, "body: has to be an object"),
        ("POST", "/replies", {"content": b"", "headers": HEADERS}, 422, "body: is missing; it has to be given"),
        (
            "POST",
            "/replies",
            {"content": b'{"text": ,}', "headers": HEADERS},
            400,
            "body: is not JSON; what stands at line 1, column 10 cannot stand there",
        ),
        ("POST", "/dead-letters/redrive", {"json": {}}, 422, "body: name dead letters in ids, or say all: true"),
        ("PATCH", "/conversations/c-1", {"json": {}, "headers": {"if-match": "*"}}, 422, "body: changes nothing; give"),
    ],
)
async def test_what_is_wrong_is_said_in_our_words_with_what_is_allowed(
    rig: Rig, method: str, path: str, given: dict[str, Any], status: int, message: str
) -> None:
    async with rig.client("root") as client:
        answer = await client.request(method, REPLIES if path == "/replies" else API + path, **given)
    assert answer.status_code == status
    error = error_of(answer)
    assert error["message"].startswith(message)
    assert error["message"].startswith((error["field"], "the field"))
    assert not THEIRS.search(error["message"])


@pytest.mark.parametrize("place", ["text", "field", "query", "header", "id", "cursor"])
async def test_what_was_sent_is_not_sent_back(rig: Rig, place: str) -> None:
    """However large it was; it may be what a customer wrote."""
    sent = "sink leaks " * 3_000
    short = "sink-leaks-" * 60
    await rig.settle("c-1")
    calls: dict[str, tuple[str, str, dict[str, Any]]] = {
        "text": ("POST", REPLIES, {"json": {"text": [sent]}, "headers": HEADERS}),
        "field": ("POST", REPLIES, {"json": {sent: 1, "text": "Yes."}, "headers": HEADERS}),
        "query": ("GET", f"{API}/conversations", {"params": {"type": short, short: "1"}}),
        "header": ("POST", REPLIES, {"json": {"text": "Yes."}, "headers": {"idempotency-key": short}}),
        "id": ("GET", f"{API}/conversations/{short}", {}),
        "cursor": ("GET", f"{API}/conversations", {"params": {"cursor": short}}),
    }
    method, path, given = calls[place]
    async with rig.client("root") as client:
        answer = await client.request(method, path, **given)
    assert 400 <= answer.status_code < 500
    assert "sink" not in answer.text
    assert len(answer.content) < 400
    error_of(answer)
