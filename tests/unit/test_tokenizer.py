"""Words of messages: what counts as one, and what somebody who types them means."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn.inbox.search import SNIPPET_CHARS, snippet
from afterturn.store import tokenizer
from afterturn.store.tokenizer import normalized, parse_terms, tokens

TEXTS = st.text(
    st.sampled_from("ab Éeé\u0301ßſİıK\u212aﬁ½暖气坏了ガｶﾞั่ำन\u093fक्।난방\u200d\u202e'-_*\"\n3٣👍\ufe0f"), max_size=20
)


def finds(words: str, text: str) -> bool:
    looked_for = parse_terms(words)
    return looked_for is not None and looked_for.match(text)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("heating", "The HEATING is broken."),
        ("broken heat", "The heating is broken."),
        ("cafe munch", "Café in MÜNCHEN"),
        ("strasse", "Lange Straße 3"),
        ("Łódź", "lodz"),
        ("don't sto", "I don't stop"),
        ("ana@example.com", "Write to <Ana@Example.com>"),
        ("555 822-6442", "+1 (555) 822 6442"),
        ("暖气", "我的暖气坏了"),
        ("了", "我的暖气坏了"),
        ("气坏 我", "我的暖气坏了"),
        ("ガス", "ｶﾞｽ漏れ"),
        ("난방 고장", "난방이 고장났어요"),
        ("ความร้อน", "เครื่องทำความร้อนเสีย"),
        ("किराया", "मुझे किराया देना है।"),
        ("שלום", "שָׁלוֹם"),
        ("iphone手", "我的iPhone手机"),
        ("3号", "住3号楼"),
        ("NEAR", "near the door"),
        ("a OR b", "b, or a"),
    ],
)
def test_words_are_found_whatever_the_case_the_accents_and_the_script(words: str, text: str) -> None:
    assert finds(words, text)
    assert finds(words, unicodedata.normalize("NFD", text))
    assert finds(unicodedata.normalize("NFD", words), text)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("heat pump", "heating and a pump"),
        ("eating", "heating"),
        ("don't", "don said t"),
        ("a OR b", "a"),
        ("heat*", "cold"),
        ("-heating", "cold"),
        ("暖坏", "暖气坏了"),
        ("か", "ガス"),
        ("किराया", "करय"),
        ("气 坏了x", "暖气坏了"),
    ],
)
def test_what_is_not_there_is_not_found(words: str, text: str) -> None:
    assert not finds(words, text)


@pytest.mark.parametrize("words", ["", " ", "***", '"', "👍", "\0\ud800", "--"])
def test_without_a_letter_or_a_digit_nothing_is_looked_for(words: str) -> None:
    assert parse_terms(words) is None


@given(TEXTS)
def test_every_text_is_found_by_itself_and_by_each_word_of_it(text: str) -> None:
    assert normalized(text) == f" {' '.join(tokens(text))} "
    if tokens(text):
        assert finds(text, text)
    for word in text.split():
        if tokens(word):
            assert finds(word, text)


PHRASES = st.lists(
    st.sampled_from(
        [
            "heat",
            "heating",
            "Café",
            "e\u0301t\u00e9",
            "Straße",
            "暖气",
            "我的暖气坏了",
            "ガス漏れ",
            "난방이",
            "किराया",
            "ห้อง",
            "3号",
            "½",
        ]
    ),
    max_size=4,
).flatmap(lambda words: st.sampled_from([" ", ", ", "-", "\n", "' "]).map(lambda sign: sign.join(words)))


@given(PHRASES, PHRASES)
def test_what_is_found_is_marked_and_what_is_marked_is_in_the_text(words: str, text: str) -> None:
    looked_for = parse_terms(words)
    if looked_for is None:
        return
    spans = looked_for.spans(text)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(spans))
    if looked_for.match(text):
        assert spans


@given(PHRASES, PHRASES, st.integers(1, 8))
def test_who_shows_a_part_is_told_of_that_part_alone(words: str, text: str, within: int) -> None:
    looked_for = parse_terms(words)
    if looked_for is None:
        return
    spans, near = looked_for.spans(text), looked_for.spans(text, within=within)
    assert [start for start, _ in near] == [start for start, _ in spans if start < spans[0][0] + within]


def test_a_snippet_of_a_long_message_takes_apart_no_more_than_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_for = parse_terms("heat is broken")
    assert looked_for is not None
    taken: list[object] = []

    def placed(text: str) -> Iterator[tuple[str, int, int]]:
        for one in whole(text):
            taken.append(one)
            yield one

    whole = tokenizer._placed
    monkeypatch.setattr(tokenizer, "_placed", placed)
    assert looked_for.spans("é The heat is broken. " * 10_000, within=SNIPPET_CHARS)
    assert len(taken) < SNIPPET_CHARS


@given(st.text(max_size=400), st.integers(0, 400), st.integers(1, 20))
def test_a_snippet_is_one_short_line_that_says_nothing_new(text: str, start: int, length: int) -> None:
    spans = [(start, min(start + length, len(text)))] if start < len(text) else []
    pieces = snippet(text, spans)
    shown = "".join(piece.text for piece in pieces)
    assert len(shown) <= SNIPPET_CHARS + 2
    assert "".join(shown.strip("…").split()) in "".join(text.split()).replace("…", "…") or "…" in text
    assert "\n" not in shown
    if spans and text[slice(*spans[0])].strip():
        assert any(piece.hit for piece in pieces)
