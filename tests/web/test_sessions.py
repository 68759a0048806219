"""What is kept in memory of strangers stays small, and is forgotten in time."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

from afterturn.web.access import SESSION_LIFETIME, LoginLinks, RateLimiter, Sessions

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def numbered() -> str:
    return str(next(_numbers))


_numbers = itertools.count()


def test_too_many_sessions_end_the_oldest() -> None:
    sessions = Sessions(numbered)
    cookies = [sessions.open(None, NOW)[0] for _ in range(1_001)]
    assert sessions.find(cookies[0], NOW) is None
    assert all(sessions.find(cookie, NOW) for cookie in cookies[1:])


def test_too_many_sessions_of_one_token_end_its_own_and_nobody_else_s() -> None:
    sessions = Sessions(numbered)
    theirs = sessions.open("theirs", NOW)[0]
    own = [sessions.open("own", NOW)[0] for _ in range(2_000)]
    assert sessions.find(theirs, NOW)
    assert [cookie for cookie in own if sessions.find(cookie, NOW)] == own[-50:]


def test_a_session_lasts_to_its_end_and_no_longer() -> None:
    sessions = Sessions(numbered)
    cookie, session = sessions.open("digest", NOW)
    assert sessions.find(cookie, NOW + SESSION_LIFETIME - timedelta(microseconds=1)) is session
    assert sessions.find(cookie, NOW + SESSION_LIFETIME) is None
    assert sessions.find(cookie, NOW) is None


def test_every_session_has_secrets_of_its_own() -> None:
    sessions = Sessions(numbered)
    made = [sessions.open(None, NOW) for _ in range(3)]
    secrets = [cookie for cookie, _ in made] + [session.csrf for _, session in made]
    assert len(set(secrets)) == 6


def test_a_link_is_good_once_and_each_for_itself() -> None:
    links = LoginLinks(numbered)
    first, second = links.make(NOW), links.make(NOW)
    assert links.redeem(first, NOW)
    assert not links.redeem(first, NOW)
    assert links.redeem(second, NOW)
    assert not links.redeem("", NOW)


def test_tries_are_counted_in_any_span_and_not_by_the_clock() -> None:
    tries = RateLimiter(2, timedelta(seconds=10))
    at = [NOW + timedelta(seconds=seconds) for seconds in (0, 6, 9, 10, 15, 16)]
    assert tries.take("a", at[0]) is None
    assert tries.take("a", at[1]) is None
    assert tries.take("a", at[2]) == timedelta(seconds=1)
    assert tries.take("a", at[3]) is None
    assert tries.take("a", at[4]) == timedelta(seconds=1)
    assert tries.take("a", at[5]) is None


def test_a_flood_of_addresses_fills_no_memory() -> None:
    tries = RateLimiter(1, timedelta(minutes=1))
    for number in range(10_001):
        assert tries.take(str(number), NOW) is None
    assert tries.take("10000", NOW) is not None
    assert tries.take("0", NOW) is None  # forgotten
