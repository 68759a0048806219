"""Whoever looks through a browser is shown a page where something goes wrong, and programs keep the one shape."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.web.hooked import hooks
from tests.web.rig import API, Rig, error_of, open_rig

from afterturn.web.access import LOGIN_TRIES

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
CONCURRENCY = 10_000


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, max_body_bytes=CONCURRENCY) as opened:
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
    rig: Rig, method: str, path: str, status: int, head: str, caller: str | None
) -> None:
    async with rig.client(caller, **BROWSER) as client:
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
async def test_a_program_is_answered_in_the_one_shape(
    rig: Rig, method: str, path: str, status: int, head: str, accept: str | None
) -> None:
    async with rig.client("oak") as client:
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
async def test_where_programs_call_there_are_no_pages(rig: Rig, method: str, path: str, status: int) -> None:
    async with rig.client(None, **BROWSER) as client:
        answer = await client.request(method, path)
    assert answer.status_code == status
    error_of(answer)


async def test_what_stands_before_the_pages_shows_pages_too(rig: Rig) -> None:
    async with rig.client(None, **BROWSER) as client:
        large = await client.post("/sign-in", data={"token": "a" * CONCURRENCY})
        assert (large.status_code, large.headers["connection"]) == (413, "close")
        assert "Request too large" in large.text
        for _ in range(LOGIN_TRIES):
            assert (await client.get("/login", params={"key": "guessed"})).status_code == 303
        many = await client.get("/login", params={"key": "guessed"})
    assert many.status_code == 429
    assert "Too many attempts" in many.text
    assert many.headers["retry-after"]


@pytest.mark.parametrize("where", ["access", "page"])
async def test_a_fault_of_ours_is_a_page_without_details_or_at_worst_the_one_shape(
    rig: Rig, where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*given: Any, **named: Any) -> Any:
        raise RuntimeError("my sink leaks")

    if where == "access":
        monkeypatch.setattr(type(rig.access), "redeem", fails)
    else:
        monkeypatch.setattr(rig.app.state, "error_page", fails)
    with caplog.at_level(logging.DEBUG):
        async with rig.client(None, **BROWSER) as client:
            answer = await client.get("/login" if where == "access" else "/nothing", params={"key": "guessed"})
    assert answer.status_code == (500 if where == "access" else 404)
    assert answer.headers["content-type"].startswith("text/html" if where == "access" else "application/json")
    assert "my sink leaks" not in answer.text + caplog.text
    assert "RuntimeError" in caplog.text
