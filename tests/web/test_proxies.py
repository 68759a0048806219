"""Whose tries are counted together: a proxy of ours tells who calls, and nobody tells it for himself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.web.rig import API, BASE, Rig, error_of, open_rig
from tests.web.signed_requests import hooks

from afterturn.config import read_settings
from afterturn.errors import ConfigError
from afterturn.web.access import LOGIN_TRIES
from afterturn.web.proxies import Proxies, counted_by

SESSION = f"{API}/session"
PROXY = "10.0.0.1"
STRANGER = "203.0.113.9"
OFFICE = "198.51.100.7"
OURS = Proxies.of(["10.0.0.0/8", "2001:db8:aaaa::/48"])


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, proxies=OURS) as opened:
        yield opened


def client(rig: Rig, peer: str, *forwarded: str) -> httpx.AsyncClient:
    """A caller behind a peer, with a header X-Forwarded-For for each value."""
    headers = [("x-forwarded-for", value) for value in forwarded]
    return httpx.AsyncClient(transport=httpx.ASGITransport(rig.app, client=(peer, 1)), base_url=BASE, headers=headers)


async def guess(rig: Rig, peer: str, *forwarded: str, token: str = "aft_nobody") -> int:
    async with client(rig, peer, *forwarded) as calling:
        answer = await calling.post(SESSION, json={"token": token})
    if answer.status_code != 200:
        error_of(answer)
    return answer.status_code


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        (OFFICE, [], OFFICE),
        (OFFICE, [STRANGER], OFFICE),
        (PROXY, [], PROXY),
        (PROXY, [OFFICE], OFFICE),
        (PROXY, [f"{STRANGER}, {OFFICE}"], OFFICE),
        (PROXY, [f"{STRANGER}, {OFFICE}, 10.9.9.9"], OFFICE),
        (PROXY, [STRANGER, OFFICE], OFFICE),
        (PROXY, [f"10.1.1.1,10.2.2.2 ,{OFFICE}"], OFFICE),
        (PROXY, ["10.1.1.1, 10.2.2.2"], "10.1.1.1"),
        (PROXY, [f"{OFFICE}, unknown"], PROXY),
        (PROXY, [f"{OFFICE}, "], PROXY),
        (PROXY, [f"{OFFICE}, 10.0.0.2, rubbish, 10.0.0.3"], "10.0.0.3"),
        (PROXY, [f"{OFFICE}:4711"], OFFICE),
        (PROXY, ["[2001:db8::7]:4711"], "2001:db8::7"),
        (PROXY, ["2001:db8::7"], "2001:db8::7"),
        (f"::ffff:{PROXY}", [OFFICE], OFFICE),
        (PROXY, [f"::ffff:{OFFICE}"], OFFICE),
        ("2001:db8:aaaa::1", [OFFICE], OFFICE),
        ("2001:db8:bbbb::1", [OFFICE], "2001:db8:bbbb::1"),
        (PROXY, ["10.3.3.3, " * 500 + "10.1.1.1"], "10.3.3.3"),
        ("", [OFFICE], ""),
        ("testclient", [OFFICE], "testclient"),
    ],
)
def test_the_last_address_that_is_no_proxy_of_ours_is_the_caller_s(peer: str, forwarded: list[str], found: str) -> None:
    assert OURS.client_of(peer, forwarded) == found


@given(st.lists(st.text(max_size=30), max_size=40), st.ip_addresses())
def test_whatever_a_caller_claims_changes_nothing(claimed: list[str], caller: object) -> None:
    """The proxy appends who called; what it was sent stands left of that."""
    if counted_by(str(caller)).startswith(("10.", "2001:db8:aaaa:")):
        return
    assert OURS.client_of(PROXY, [*claimed, str(caller)]) == OURS.client_of(PROXY, [str(caller)])
    assert OURS.client_of(PROXY, [", ".join([*claimed, str(caller)])]) == OURS.client_of(PROXY, [str(caller)])
    assert OURS.client_of(str(caller), claimed) == str(caller)


def test_who_has_a_network_of_addresses_has_the_tries_of_one() -> None:
    assert counted_by("2001:db8:1:2:3:4:5:6") == counted_by("2001:db8:1:2::1") == "2001:db8:1:2::/64"
    assert counted_by("2001:db8:1:3::1") != counted_by("2001:db8:1:2::1")
    assert counted_by("::ffff:192.0.2.7") == counted_by("192.0.2.7") == "192.0.2.7"


async def test_what_one_caller_behind_a_proxy_tries_holds_up_no_other(rig: Rig) -> None:
    tried = [await guess(rig, PROXY, STRANGER) for _ in range(LOGIN_TRIES + 1)]
    assert tried == [401] * LOGIN_TRIES + [429]
    assert await guess(rig, PROXY, OFFICE) == 401


async def test_a_claimed_address_gives_nobody_fresh_tries(rig: Rig) -> None:
    through = [await guess(rig, PROXY, f"192.0.2.{number}, {STRANGER}") for number in range(LOGIN_TRIES + 1)]
    direct = [await guess(rig, OFFICE, f"192.0.2.{number}") for number in range(LOGIN_TRIES + 1)]
    assert through == direct == [401] * LOGIN_TRIES + [429]
    assert await guess(rig, PROXY, f"{OFFICE}, {STRANGER}") == 429


async def test_a_claimed_address_locks_nobody_out(rig: Rig) -> None:
    for _ in range(2 * LOGIN_TRIES):
        await guess(rig, PROXY, f"{OFFICE}, {STRANGER}")
        await guess(rig, "192.0.2.77", OFFICE)
    assert await guess(rig, PROXY, OFFICE) == 401


async def test_a_good_token_and_a_good_link_are_let_in_whatever_others_tried_from_there(rig: Rig) -> None:
    for _ in range(LOGIN_TRIES + 1):
        await guess(rig, PROXY, OFFICE)
    assert await guess(rig, PROXY, OFFICE) == 429
    assert await guess(rig, PROXY, OFFICE, token="aft_desk") == 200
    async with client(rig, PROXY, OFFICE) as calling:
        link = await calling.get("/login", params={"key": rig.access.make_link()})
        assert (link.status_code, "set-cookie" in link.headers) == (303, True)
        signed_in = await calling.post("/sign-in", data={"token": "aft_desk"})
        assert (signed_in.status_code, "set-cookie" in signed_in.headers) == (303, True)


async def test_good_logins_are_no_bad_tries(rig: Rig) -> None:
    for _ in range(3 * LOGIN_TRIES):
        assert await guess(rig, PROXY, OFFICE, token="aft_desk") == 200
    assert await guess(rig, PROXY, OFFICE) == 401


async def test_refused_calls_of_providers_are_counted_by_their_callers_too(rig: Rig) -> None:
    hooks(rig)

    async def call(*forwarded: str, secret: str = "wrong") -> int:
        async with client(rig, PROXY, *forwarded) as calling:
            headers = {"x-telegram-bot-api-secret-token": secret}
            return (await calling.post("/hooks/telegram", json={"update_id": 1}, headers=headers)).status_code

    tried = [await call(f"192.0.2.{number}, {STRANGER}") for number in range(61)]
    assert tried == [401] * 60 + [429]
    assert await call(OFFICE) == 401
    assert await call(STRANGER, secret="hush") == 200


@pytest.mark.parametrize("networks", ["10.0.0.0/99", "proxy.example.com", "0.0.0.0/0", "10.0.0.1, ::/0"])
def test_a_setting_that_names_no_proxies_or_everybody_is_refused(networks: str) -> None:
    with pytest.raises(ConfigError, match="AFTERTURN_TRUSTED_PROXIES"):
        read_settings(trusted_proxies=networks)
