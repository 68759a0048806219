"""Every error has the same JSON shape or, for browsers, a page; it says what to do and quotes nothing."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.web.rig import API, Rig, error_of, open_rig
from tests.web.signed_requests import hooks

from afterturn.errors import AfterturnError, EngineUnavailable, StoreBusy, StoreDamaged, StreamUnavailable
from afterturn.web.access import LOGIN_TRIES

REPLIES = f"{API}/conversations/c-1/replies"
HEADERS = {"idempotency-key": "k-1", "content-type": "application/json"}


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v1", "/api/v1/conversations/", "/nothing", "/api/v2/x"])
async def test_an_unknown_path_is_a_404(rig: Rig, path: str) -> None:
    async with rig.client("root") as client:
        answer = await client.get(path)
    assert answer.status_code == 404
    assert error_of(answer)["code"] == "not_found"


async def test_a_wrong_method_is_a_405_with_the_allowed_ones(rig: Rig) -> None:
    async with rig.client("root") as client:
        answer = await client.put(f"{API}/conversations")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET"
    assert error_of(answer)["code"] == "method"


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
        ("grade=A&grade=Z", "grade[1]"),
        ("propetry=oak", "propetry"),
        ("<script>=1", "(a field)"),
    ],
)
async def test_an_invalid_query_names_its_parameter(rig: Rig, query: str, field: str | None) -> None:
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
async def test_an_unavailable_backend_is_a_503_without_details(
    rig: Rig, error: AfterturnError, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _broken(rig, error, monkeypatch, status=503)


@pytest.mark.parametrize(
    "error", [RuntimeError("my sink leaks"), KeyError("secret"), AfterturnError("secret")], ids=repr
)
async def test_an_unexpected_error_is_a_500_without_details(
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


async def test_every_response_has_the_security_headers(rig: Rig) -> None:
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
        ("GET", "/conversations", {"params": {"grade": "Z"}}, 422, "grade[0]: has to be A, B, C, D or F"),
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
async def test_messages_are_plain_and_name_what_is_allowed(
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
async def test_no_error_quotes_what_was_sent(rig: Rig, place: str) -> None:
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


BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
MAX_BYTES = 10_000


@pytest.fixture
async def small_rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, max_body_bytes=MAX_BYTES) as opened:
        hooks(opened)
        yield opened


CASES = [
    ("GET", "/nothing", 404, "Not found"),
    ("GET", "/conversations/", 404, "Not found"),
    ("GET", "/static/nothing.css", 404, "Not found"),
    ("GET", "/<script>alert(1)</script>", 404, "Not found"),
    ("GET", "/sign-out", 405, "Not a page"),
    ("PUT", "/", 405, "Not a page"),
]


@pytest.mark.parametrize(("method", "path", "status", "head"), CASES)
@pytest.mark.parametrize("caller", [None, "oak"])
async def test_a_browser_is_shown_a_page(
    small_rig: Rig, method: str, path: str, status: int, head: str, caller: str | None
) -> None:
    async with small_rig.client(caller, **BROWSER) as client:
        answer = await client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert re.findall("<h1[^>]*>(.*)</h1>", answer.text) == [head]
    assert "default-src 'none'; script-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert "<script>alert" not in answer.text
    assert ("Sign in" in answer.text, "To the inbox" in answer.text) == (caller is None, caller is not None)
    if status == 405:
        assert answer.headers["allow"]


@pytest.mark.parametrize(("method", "path", "status", "head"), CASES)
@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "image/avif,image/webp"])
async def test_a_program_gets_json(
    small_rig: Rig, method: str, path: str, status: int, head: str, accept: str | None
) -> None:
    async with small_rig.client("oak") as client:
        if accept is None:
            del client.headers["accept"]
        else:
            client.headers["accept"] = accept
        answer = await client.request(method, path)
    assert answer.status_code == status
    error_of(answer)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", API, 401),
        ("GET", f"{API}/nothing", 401),
        ("GET", f"{API}/conversations", 401),
        ("GET", "/hooks/nothing", 404),
        ("GET", "/hooks/telegram", 405),
        ("POST", "/hooks/telegram", 401),
        ("POST", "/turns", 401),
    ],
)
async def test_the_api_and_webhooks_never_answer_with_a_page(
    small_rig: Rig, method: str, path: str, status: int
) -> None:
    async with small_rig.client(None, **BROWSER) as client:
        answer = await client.request(method, path)
    assert answer.status_code == status
    error_of(answer)


async def test_errors_of_the_middleware_are_pages_too(small_rig: Rig) -> None:
    async with small_rig.client(None, **BROWSER) as client:
        large = await client.post("/sign-in", data={"token": "a" * MAX_BYTES})
        assert (large.status_code, large.headers["connection"]) == (413, "close")
        assert "Request too large" in large.text
        for _ in range(LOGIN_TRIES):
            assert (await client.get("/login", params={"key": "guessed"})).status_code == 303
        many = await client.get("/login", params={"key": "guessed"})
    assert many.status_code == 429
    assert "Too many attempts" in many.text
    assert many.headers["retry-after"]


@pytest.mark.parametrize("where", ["access", "page"])
async def test_an_unexpected_error_is_a_page_without_details_or_at_worst_json(
    small_rig: Rig, where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*given: Any, **named: Any) -> Any:
        raise RuntimeError("my sink leaks")

    if where == "access":
        monkeypatch.setattr(type(small_rig.access), "redeem", fails)
    else:
        monkeypatch.setattr(small_rig.app.state, "error_page", fails)
    with caplog.at_level(logging.DEBUG):
        async with small_rig.client(None, **BROWSER) as client:
            answer = await client.get("/login" if where == "access" else "/nothing", params={"key": "guessed"})
    assert answer.status_code == (500 if where == "access" else 404)
    assert answer.headers["content-type"].startswith("text/html" if where == "access" else "application/json")
    assert "my sink leaks" not in answer.text + caplog.text
    assert "RuntimeError" in caplog.text
