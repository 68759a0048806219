"""Who is let in: tokens, one-time links, sessions with their CSRF token, and how often somebody may try."""

from __future__ import annotations

import re
from datetime import timedelta

import httpx
import pytest
from tests.web.rig import API, BASE, START, Rig, error_of, raw

from afterturn.errors import ConfigError
from afterturn.web.access import COOKIE, LOGIN_TRIES, check_binding
from afterturn.web.roles import CallerRole
from afterturn.web.tokens import Token, add_token, digest_of, remove_token

SESSION = f"{API}/session"
REPLIES = f"{API}/conversations/c-1/replies"
KEY = {"idempotency-key": "k-1"}


@pytest.mark.parametrize(
    "header",
    [
        "Bearer aft_nobody",
        "Bearer ",
        "Bearer",
        "Basic aft_root",
        "aft_root",
        "",
        "Bearer aft_root aft_root",
        f"Bearer {'a' * 5000}",
        "Bearer " + digest_of("aft_root"),
    ],
)
async def test_a_token_that_is_none_is_refused(rig: Rig, header: str) -> None:
    async with rig.client(authorization=header) as client:
        answer = await client.get(SESSION)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert error_of(answer)["code"] == "unauthenticated"


async def test_a_token_ends_when_it_expires(rig: Rig) -> None:
    until = START + timedelta(hours=1)
    add_token(
        rig.tokens,
        Token(
            name="guest", role=CallerRole.OPERATOR, sha256=digest_of("aft_guest"), created_at=START, expires_at=until
        ),
    )
    async with rig.client("guest") as client:
        assert (await client.get(SESSION)).status_code == 200
        rig.clock.set(until)
        assert (await client.get(SESSION)).status_code == 401


async def test_a_revoked_token_ends_at_once_and_its_sessions_with_it(rig: Rig) -> None:
    async with rig.client("desk") as bearer, rig.client() as browser:
        assert (await browser.post(SESSION, json={"token": "aft_desk"})).status_code == 200
        assert (await browser.get(SESSION)).json()["name"] == "desk"
        remove_token(rig.tokens, "desk")
        assert (await bearer.get(SESSION)).status_code == 401
        assert (await browser.get(SESSION)).status_code == 401


async def test_a_tokens_file_that_broke_lets_nobody_in_until_it_is_right_again(rig: Rig) -> None:
    good = rig.tokens.read_text()
    async with rig.client("desk") as client:
        rig.tokens.write_text(good + "\n[[token]\n")
        assert (await client.get(SESSION)).status_code == 401
        rig.tokens.write_text(good)
        assert (await client.get(SESSION)).status_code == 200


async def test_a_login_link_opens_one_session_once(rig: Rig) -> None:
    key = rig.access.make_link()
    async with rig.client() as first, rig.client() as second:
        answer = await first.get("/login", params={"key": key})
        assert answer.status_code == 303
        assert key not in answer.headers["location"]
        assert (await first.get(SESSION)).json()["role"] == "admin"
        assert (await second.get("/login", params={"key": key})).status_code == 401
        shown = await second.get("/login", params={"key": key}, headers={"accept": "text/html"})
        assert (shown.status_code, shown.headers["location"]) == (303, "/sign-in?link=used")
        again = await first.get("/login", params={"key": key})
        assert (again.status_code, again.headers["location"]) == (303, "/")
        assert (await second.get(SESSION)).status_code == 401


async def test_a_login_link_is_good_for_minutes_only(rig: Rig) -> None:
    key = rig.access.make_link()
    rig.clock.advance(timedelta(minutes=10))
    async with rig.client() as client:
        assert (await client.get("/login", params={"key": key})).status_code == 401


async def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_pages(rig: Rig) -> None:
    async with rig.client() as client:
        answer = await client.post(SESSION, json={"token": "aft_desk"})
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    attributes = {one.strip().lower() for one in cookie.split(";")[1:]}
    assert {"httponly", "samesite=lax", "path=/"} <= attributes
    assert any(one.startswith("max-age=") for one in attributes)
    assert "aft_desk" not in cookie


async def test_over_https_the_cookie_stays_there(rig: Rig) -> None:
    async with rig.client() as client:
        client.base_url = "https://testserver"
        answer = await client.post(SESSION, json={"token": "aft_desk"})
    assert "secure" in answer.headers["set-cookie"].lower()


async def test_a_session_ends_after_half_a_day_and_when_it_is_logged_out(rig: Rig) -> None:
    async with rig.client() as client:
        csrf = (await client.post(SESSION, json={"token": "aft_desk"})).json()["csrfToken"]
        cookie = client.cookies[COOKIE]
        assert (await client.delete(SESSION, headers={"x-csrf-token": csrf})).status_code == 204
        assert (await client.get(SESSION, headers={"cookie": f"{COOKIE}={cookie}"})).status_code == 401
        await client.post(SESSION, json={"token": "aft_desk"})
        rig.clock.advance(timedelta(hours=12))
        assert (await client.get(SESSION)).status_code == 401


async def test_a_cookie_that_was_altered_is_worth_nothing(rig: Rig) -> None:
    async with rig.client() as client:
        await client.post(SESSION, json={"token": "aft_desk"})
        cookie = client.cookies[COOKIE]
        client.cookies.clear()
        for other in (cookie[:-1], cookie + "a", cookie[::-1], "", '"', "\x7f", "a" * 5000):
            answer = await client.get(SESSION, headers={"cookie": f"{COOKIE}={other}"})
            assert answer.status_code == 401, other
        among = f'a=b; json={{"a": "é"}}; bad,name=1; ; {COOKIE}={cookie}; c'
        assert (await client.get(SESSION, headers=raw({"cookie": among}))).status_code == 200


async def test_a_session_changes_things_with_its_csrf_token_only(rig: Rig) -> None:
    await rig.settle("c-1")
    async with rig.client() as client:
        csrf = (await client.post(SESSION, json={"token": "aft_desk"})).json()["csrfToken"]
        for wrong in ({}, {"x-csrf-token": ""}, {"x-csrf-token": csrf[:-1]}, {"x-csrf-token": "é"}):
            encoded = raw({**KEY, **wrong})
            answer = await client.post(REPLIES, json={"text": "Yes."}, headers=encoded)
            assert answer.status_code == 403
            assert error_of(answer)["code"] == "csrf"
        assert len(await rig.backbone.store.messages("c-1")) == 1
        answer = await client.post(REPLIES, json={"text": "Yes."}, headers={**KEY, "x-csrf-token": csrf})
        assert answer.status_code == 201


async def test_the_csrf_token_of_one_session_is_none_of_another(rig: Rig) -> None:
    await rig.settle("c-1")
    async with rig.client() as first, rig.client() as second:
        foreign = (await first.post(SESSION, json={"token": "aft_desk"})).json()["csrfToken"]
        await second.post(SESSION, json={"token": "aft_desk"})
        answer = await second.post(REPLIES, json={"text": "Yes."}, headers={**KEY, "x-csrf-token": foreign})
    assert answer.status_code == 403


async def test_a_foreign_page_cannot_log_anybody_in(rig: Rig) -> None:
    """A form of another page can send text that happens to be JSON, and cannot call it JSON."""
    async with rig.client() as client:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            answer = await client.post(SESSION, content=b'{"token": "aft_desk"}', headers={"content-type": kind})
            assert answer.status_code == 415
            assert "set-cookie" not in answer.headers


async def test_whoever_guesses_has_to_wait(rig: Rig) -> None:
    async with rig.client() as client:
        for number in range(LOGIN_TRIES):
            answer = await client.post(SESSION, json={"token": f"aft_{number}"})
            assert answer.status_code == 401
        for answer in (
            await client.post(SESSION, json={"token": "aft_wrong"}),
            await client.get("/login", params={"key": "guessed"}),
        ):
            assert answer.status_code == 429
            assert error_of(answer)["code"] == "too_many"
            assert re.fullmatch("[1-9][0-9]*", answer.headers["retry-after"])
        rig.clock.advance(timedelta(seconds=int(answer.headers["retry-after"])))
        assert (await client.post(SESSION, json={"token": "aft_wrong"})).status_code == 401


async def test_what_one_address_tries_holds_up_no_other(rig: Rig) -> None:
    for _ in range(LOGIN_TRIES):
        rig.access.count_failed_login("192.0.2.1")
    assert rig.access.count_failed_login("192.0.2.1") is not None
    transport = httpx.ASGITransport(rig.app, client=("192.0.2.2", 1))
    async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
        assert (await client.post(SESSION, json={"token": "aft_wrong"})).status_code == 401


async def test_with_an_authorization_header_a_cookie_counts_for_nothing(rig: Rig) -> None:
    async with rig.client() as client:
        await client.post(SESSION, json={"token": "aft_root"})
        answer = await client.get(SESSION, headers={"authorization": "Bearer aft_wrong"})
    assert answer.status_code == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "afterturn.example", ""])
def test_others_are_let_near_only_where_somebody_has_a_token(host: str) -> None:
    with pytest.raises(ConfigError, match="afterturn token add"):
        check_binding(host, 0)
    check_binding(host, 1)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "[::1]", "localhost"])
def test_this_machine_needs_no_token(host: str) -> None:
    check_binding(host, 0)
