"""Signing in and out, and what an unknown caller sees."""

from __future__ import annotations

import pytest
from tests.web.pages.demo import Site, value

PAGES = ["/", "/search?q=x", "/conversations/gas-smell-2b", "/operations", "/?participant=a"]


@pytest.mark.parametrize("path", PAGES)
async def test_an_unknown_caller_is_led_to_signing_in_and_sees_nothing(site: Site, path: str) -> None:
    async with site.client(None) as client:
        answer = await client.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/sign-in")
        assert "participant" not in answer.headers["location"]
        for method, where in (("GET", "/live"), ("POST", "/operations/emit")):
            refused = await client.request(method, where, data={"a": "b"}, headers={"accept": "*/*"})
            assert refused.status_code == 401


async def test_a_token_opens_a_session_and_leads_on_to_where_somebody_wanted_to_go(site: Site) -> None:
    async with site.client(None) as client:
        asked = await client.get("/conversations/gas-smell-2b")
        page = (await client.get(asked.headers["location"])).text
        answer = await client.post("/sign-in", data={"token": " aft_duty ", "next": value(page, "next")})
        assert (answer.status_code, answer.headers["location"]) == (303, "/conversations/gas-smell-2b")
        inside = (await client.get("/")).text
        assert "duty" in inside
        out = await client.post("/sign-out", data={"csrf": value(inside, "csrf")})
        assert out.headers["location"] == "/sign-in"
        assert (await client.get("/")).status_code == 303


@pytest.mark.parametrize("token", ["", "aft_nobody", "x" * 500])
async def test_a_wrong_token_opens_nothing(site: Site, token: str) -> None:
    async with site.client(None) as client:
        answer = await client.post("/sign-in", data={"token": token, "next": "/"})
        assert answer.status_code == 401
        assert "unknown, expired or revoked" in answer.text
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "onwards", ["//evil.example", "/\\evil.example", "https://evil.example", "", "\t//evil.example"]
)
async def test_signing_in_never_leads_to_another_server(site: Site, onwards: str) -> None:
    async with site.client(None) as client:
        answer = await client.post("/sign-in", data={"token": "aft_desk", "next": onwards})
    assert answer.headers["location"] == "/"


async def test_too_many_tries_have_to_wait(site: Site) -> None:
    async with site.client(None) as client:
        statuses = [(await client.post("/sign-in", data={"token": "aft_guess"})).status_code for _ in range(12)]
    assert statuses[:10] == [401] * 10
    assert statuses[-1] == 429
