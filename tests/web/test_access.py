"""Authentication: tokens, login links, sessions with their CSRF token, and the rate limit of failed logins."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.web.rig import API, START, Rig, error_of, raw

from afterturn.errors import ConfigError
from afterturn.web.access import COOKIE, LOGIN_TRIES, RateLimiter, check_binding
from afterturn.web.login import Sessions
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
async def test_an_invalid_authorization_header_is_refused(rig: Rig, header: str) -> None:
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


async def test_a_broken_tokens_file_lets_nobody_in_until_it_is_repaired(rig: Rig) -> None:
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


async def test_a_login_link_expires_after_ten_minutes(rig: Rig) -> None:
    key = rig.access.make_link()
    rig.clock.advance(timedelta(minutes=10))
    async with rig.client() as client:
        assert (await client.get("/login", params={"key": key})).status_code == 401


async def test_scripts_and_other_sites_cannot_use_the_cookie(rig: Rig) -> None:
    async with rig.client() as client:
        answer = await client.post(SESSION, json={"token": "aft_desk"})
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=lax", "path=/"} <= attributes
    assert any(part.startswith("max-age=") for part in attributes)
    assert "aft_desk" not in cookie


@pytest.mark.parametrize(
    ("base", "headers", "secure"),
    [
        ("http://testserver", {}, False),
        ("https://testserver", {}, True),
        ("http://testserver", {"x-forwarded-proto": "https"}, True),
        ("http://testserver", {"origin": "https://inbox.example.com"}, True),
    ],
    ids=["plain", "tls", "proxy", "form"],
)
async def test_the_cookie_is_secure_if_the_browser_uses_tls(
    rig: Rig, base: str, headers: dict[str, str], secure: bool
) -> None:
    """Behind a proxy the server itself never sees TLS."""
    async with rig.client() as client:
        client.base_url = base
        for answer in (
            await client.post(SESSION, json={"token": "aft_desk"}, headers=headers),
            await client.post("/sign-in", data={"token": "aft_desk"}, headers=headers),
        ):
            assert ("secure" in answer.headers["set-cookie"].lower().split("; ")) is secure


async def test_a_session_ends_after_half_a_day_and_when_it_is_logged_out(rig: Rig) -> None:
    async with rig.client() as client:
        csrf = (await client.post(SESSION, json={"token": "aft_desk"})).json()["csrfToken"]
        cookie = client.cookies[COOKIE]
        assert (await client.delete(SESSION, headers={"x-csrf-token": csrf})).status_code == 204
        assert (await client.get(SESSION, headers={"cookie": f"{COOKIE}={cookie}"})).status_code == 401
        await client.post(SESSION, json={"token": "aft_desk"})
        rig.clock.advance(timedelta(hours=12))
        assert (await client.get(SESSION)).status_code == 401


async def test_an_altered_cookie_is_refused(rig: Rig) -> None:
    async with rig.client() as client:
        await client.post(SESSION, json={"token": "aft_desk"})
        cookie = client.cookies[COOKIE]
        client.cookies.clear()
        for other in (cookie[:-1], cookie + "a", cookie[::-1], "", '"', "\x7f", "a" * 5000):
            answer = await client.get(SESSION, headers={"cookie": f"{COOKIE}={other}"})
            assert answer.status_code == 401, other
        among = f'a=b; json={{"a": "é"}}; bad,name=1; ; {COOKIE}={cookie}; c'
        assert (await client.get(SESSION, headers=raw({"cookie": among}))).status_code == 200


async def test_a_session_needs_its_csrf_token_to_change_anything(rig: Rig) -> None:
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


async def test_a_csrf_token_is_valid_for_its_own_session_only(rig: Rig) -> None:
    await rig.settle("c-1")
    async with rig.client() as first, rig.client() as second:
        foreign = (await first.post(SESSION, json={"token": "aft_desk"})).json()["csrfToken"]
        await second.post(SESSION, json={"token": "aft_desk"})
        answer = await second.post(REPLIES, json={"text": "Yes."}, headers={**KEY, "x-csrf-token": foreign})
    assert answer.status_code == 403


async def test_a_form_of_another_site_cannot_log_in(rig: Rig) -> None:
    """A form of another page can send text that happens to be JSON, and cannot call it JSON."""
    async with rig.client() as client:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            answer = await client.post(SESSION, content=b'{"token": "aft_desk"}', headers={"content-type": kind})
            assert answer.status_code == 415
            assert "set-cookie" not in answer.headers


async def test_failed_logins_are_rate_limited(rig: Rig) -> None:
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


async def test_an_authorization_header_takes_precedence_over_a_cookie(rig: Rig) -> None:
    async with rig.client() as client:
        await client.post(SESSION, json={"token": "aft_root"})
        answer = await client.get(SESSION, headers={"authorization": "Bearer aft_wrong"})
    assert answer.status_code == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "afterturn.example", ""])
def test_other_machines_can_connect_only_if_there_is_a_token(host: str) -> None:
    with pytest.raises(ConfigError, match="afterturn token add"):
        check_binding(host, 0)
    check_binding(host, 1)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "[::1]", "localhost"])
def test_a_loopback_address_needs_no_token(host: str) -> None:
    check_binding(host, 0)


def numbered() -> Callable[[], str]:
    """Makes secrets that no two sessions share."""
    numbers = itertools.count()
    return lambda: str(next(numbers))


def test_too_many_sessions_end_the_oldest() -> None:
    sessions = Sessions(numbered())
    cookies = [sessions.open(None, START)[0] for _ in range(1_001)]
    assert sessions.find(cookies[0], START) is None
    assert all(sessions.find(cookie, START) for cookie in cookies[1:])


def test_too_many_sessions_of_one_token_end_no_session_of_another() -> None:
    sessions = Sessions(numbered())
    theirs = sessions.open("theirs", START)[0]
    cookies = [sessions.open("own", START)[0] for _ in range(2_000)]
    assert sessions.find(theirs, START)
    assert [cookie for cookie in cookies if sessions.find(cookie, START)] == cookies[-50:]


def test_attempts_are_limited_in_any_span() -> None:
    tries = RateLimiter(2, timedelta(seconds=10))
    at = [START + timedelta(seconds=seconds) for seconds in (0, 6, 9, 10, 15, 16)]
    assert tries.take("a", at[0]) is None
    assert tries.take("a", at[1]) is None
    assert tries.take("a", at[2]) == timedelta(seconds=1)
    assert tries.take("a", at[3]) is None
    assert tries.take("a", at[4]) == timedelta(seconds=1)
    assert tries.take("a", at[5]) is None


def test_the_rate_limiter_forgets_the_oldest_of_too_many_addresses() -> None:
    tries = RateLimiter(1, timedelta(minutes=1))
    for number in range(10_001):
        assert tries.take(str(number), START) is None
    assert tries.take("10000", START) is not None
    assert tries.take("0", START) is None  # forgotten
