"""Cursors: opaque, bound to their query, and checked before they are believed (F11)."""

from __future__ import annotations

import base64
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.samples import T0, at

from afterturn.errors import InvalidCursor
from afterturn.inbox.cursor import Cursor, decode, encode
from afterturn.inbox.filters import InboxQuery
from afterturn.store.port import RecencyKey

MINE = InboxQuery(properties=("p1",)).fingerprint()
OTHER = InboxQuery(properties=("p2",)).fingerprint()
PLACE = Cursor(after=RecencyKey(at(1.5), "c#1: 🏠/é"), since=at(-86400))
GOOD = encode(PLACE, MINE)


def forged(body: object) -> str:
    """A cursor whose check is right and whose content nobody wrote."""
    from afterturn.inbox.cursor import _check

    raw = json.dumps(body).encode()
    return base64.urlsafe_b64encode(_check(raw, MINE) + raw).rstrip(b"=").decode()


@pytest.mark.parametrize("since", [None, T0])
def test_a_cursor_comes_back_as_it_was_made(since: object) -> None:
    made = Cursor(after=PLACE.after, since=None if since is None else T0)
    assert decode(encode(made, MINE), MINE) == made


def test_a_cursor_can_stand_in_a_url() -> None:
    assert set(GOOD) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "5",
        "werwer",
        "with space 435",
        "aW52YWxpZA==",
        GOOD + "!",
        GOOD + "=",
        GOOD + "\n",
        GOOD + "A",
        " " + GOOD,
        GOOD[:-1],
        GOOD[1:],
        base64.b64encode(b'["2026-03-01T12:00:00Z","c1",null]').decode(),
        "",
        "=",
        "\x00",
        "é",
        "\ud83d",
        "../../etc/passwd",
        "A" * 100_000,
    ],
)
def test_what_nobody_made_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursor):
        decode(text, MINE)


@pytest.mark.parametrize(
    "body",
    [
        None,
        5,
        "text",
        [],
        {},
        [1, 2, 3],
        ["2026-03-01T12:00:00Z", 5, ""],
        ["2026-03-01T12:00:00Z", None, ""],
        ["2026-03-01T12:00:00Z", "\ud83d", ""],
        ["2026-03-01T12:00:00Z", "c1", 5],
        ["2026-03-01T12:00:00", "c1", ""],
        ["never", "c1", ""],
        ["2026-03-01T12:00:00Z", "c1", None, ""],
    ],
)
def test_a_forged_cursor_is_refused_or_a_place(body: object) -> None:
    """The check is no secret, so what stands behind it is not believed either."""
    with pytest.raises(InvalidCursor):
        decode(forged(body), MINE)


def test_a_cursor_of_another_query_is_refused() -> None:
    with pytest.raises(InvalidCursor, match="another query"):
        decode(GOOD, OTHER)


def test_every_flipped_byte_is_found() -> None:
    """Seeded flips of one character, and of one bit of what it encodes."""
    chance = random.Random(11)
    raw = base64.urlsafe_b64decode(GOOD + "=" * (-len(GOOD) % 4))
    for _ in range(2_000):
        place = chance.randrange(len(GOOD))
        flipped = GOOD[:place] + chance.choice("ABCxyz019-_+/=!é\n ") + GOOD[place + 1 :]
        bits = bytearray(raw)
        bits[chance.randrange(len(bits))] ^= 1 << chance.randrange(8)
        for text in (flipped, base64.urlsafe_b64encode(bytes(bits)).rstrip(b"=").decode()):
            if text != GOOD:
                with pytest.raises(InvalidCursor):
                    decode(text, MINE)


@given(st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    with pytest.raises(InvalidCursor):
        decode(text, MINE)


def test_limit_and_budget_may_change_between_pages() -> None:
    """They decide how much comes at once, not what."""
    assert InboxQuery(limit=5, budget=9).fingerprint() == InboxQuery().fingerprint()


@pytest.mark.parametrize(
    "changed",
    [
        {"window": "24h"},
        {"since": T0},
        {"until": T0},
        {"properties": ("p1",)},
        {"types": ("tour",)},
        {"channels": ("sms",)},
        {"topics": ("tour",)},
        {"grades": ("A",)},
        {"owed": ("topics",)},
        {"failed": ("any",)},
        {"status": "open"},
        {"participant": "+1"},
        {"include_synthetic": True},
    ],
)
def test_every_filter_binds_the_cursor(changed: dict[str, object]) -> None:
    assert InboxQuery.model_validate(changed).fingerprint() != InboxQuery().fingerprint()
