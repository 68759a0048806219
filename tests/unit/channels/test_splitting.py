"""Long texts in pieces: nothing is lost, nothing is too long, and nobody sees the knife."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn.channels.splitting import GSM_EXTENSION, sms_width, split, split_to_send, utf16_width

SEEN = [
    *("a", "Ä", "ß", "7", ".", "?", "{", "€", "字", "。", "ж", "ש"),
    *("e\u0301", "กำ", "क्ष", "한", "\u1112\u1161\u11ab"),
    *("😀", "👍🏽", "❤\ufe0f", "1\ufe0f\u20e3", "👩\u200d👩\u200d👧", "🇩🇪", "🇺🇸", "🏴\U000e0067\U000e0062\U000e007f"),
    *(" ", "\n", "\r\n", "\n\n"),
]
"""Characters as people see them, however many Unicode makes of each."""


def width(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@given(st.text(st.characters(), max_size=400), st.integers(2, 60))
def test_the_pieces_are_the_text_and_none_is_wider_than_the_limit(text: str, limit: int) -> None:
    pieces = split(text, limit)
    assert "".join(pieces) == text
    assert all(0 < width(piece) <= limit for piece in pieces)


@given(st.lists(st.sampled_from(SEEN), max_size=200), st.integers(16, 60))
def test_no_cut_goes_through_what_people_see_as_one_character(seen: list[str], limit: int) -> None:
    text = "".join(seen)
    borders = set(accumulate((len(one) for one in seen), initial=0))
    cuts = set(accumulate((len(piece) for piece in split(text, limit)), initial=0))
    # Between two line ends nobody sees a border, and everybody takes one.
    assert all(cut in borders or text[cut - 1] == "\n" for cut in cuts)


@pytest.mark.parametrize("one", [one for one in SEEN if len(one) > 1 and not one.isspace()])
def test_a_run_of_the_same_is_cut_between_two_of_them(one: str) -> None:
    for limit in range(16, 33):
        assert all(piece == one * (len(piece) // len(one)) for piece in split(one * 40, limit)), limit


@pytest.mark.parametrize("address", ["https://a.example/x?y=1#z", "www.a.example/b", "me@a.example"])
def test_an_address_between_words_without_spaces_stays_whole(address: str) -> None:
    for before in range(40):
        text = "字" * before + address + "字" * 30
        assert sum(address in piece for piece in split(text, 30)) == 1, before


@given(st.lists(st.sampled_from(["come", "at", "https://a.example/x?y=1&z=2#q", "me@a.example", "www.a.example/b"])))
def test_no_address_is_cut_where_a_piece_has_room_for_it(words: list[str]) -> None:
    text = " ".join(words)
    assert [word for piece in split(text, 40) for word in piece.split()] == words


@given(st.text(st.sampled_from("ab^{}€\f😀字 \n"), max_size=300), st.integers(2, 40))
def test_characters_that_take_two_in_sms_are_counted_twice(text: str, limit: int) -> None:
    pieces = split(text, limit, sms_width)
    assert "".join(pieces) == text
    for piece in pieces:
        assert width(piece) + sum(char in GSM_EXTENSION for char in piece) <= limit


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("One two.\n\nThree. Four five", ["One two.\n\n", "Three. Four ", "five"]),
        ("One two\nthree is. Four five", ["One two\n", "three is. ", "Four five"]),
        ("Is it so? Yes it is so", ["Is it so? ", "Yes it is so"]),
        ("one two three fourteen", ["one two three ", "fourteen"]),
        ("这就是第一句话。这是另一句很长的话", ["这就是第一句话。", "这是另一句很长的话"]),
        ("abcdefghijklmnop", ["abcdefghijklmn", "op"]),
        ("Version 1.2.3.4.5 ok", ["Version ", "1.2.3.4.5 ok"]),
    ],
)
def test_the_best_border_that_leaves_a_piece_half_full_is_taken(text: str, pieces: list[str]) -> None:
    assert list(split(text, 14)) == pieces


def test_a_border_early_in_a_piece_is_taken_before_a_word_is_cut() -> None:
    assert split("a bcdefghijklm", 10) == ("a ", "bcdefghijklm"[:10], "lm")


def test_an_address_longer_than_a_piece_is_cut_as_nothing_else_can_be_done() -> None:
    url = "https://a.example/" + "x" * 40
    assert "".join(split(url, 20)) == url


def test_blank_pieces_are_not_sent_and_text_within_the_limit_stays_whole() -> None:
    pieces = split_to_send("a" + " " * 30, 10, utf16_width, max_parts=4, provider="telegram")
    assert pieces == ("a" + " " * 9,)
    assert split("", 10) == ()
    assert split("Good morning.\n\nBye.", 100) == ("Good morning.\n\nBye.",)


@pytest.mark.parametrize("unit", ["a", "\u0301", "🇩", "a@b ", "https://", "\n", " ", "\u200d", "www."])
def test_hostile_texts_are_split_in_steps_that_grow_with_their_length_only(unit: str) -> None:
    """Steps are counted, not seconds: each look at a character's width is one."""
    steps = 0

    def counted(char: str) -> int:
        nonlocal steps
        steps += 1
        return utf16_width(char)

    text = unit * (40_000 // len(unit))
    assert "".join(split(text, 4096, counted)) == text
    assert steps <= 2 * len(text)
