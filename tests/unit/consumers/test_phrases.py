"""The language of rules: what a phrase matches, what it refuses, and what it costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn.consumers.phrases import MAX_CHARS, PhraseBook, WordLists, compile_phrase, read

LISTS = WordLists(
    {
        "home": ["apartment*", "flat", "{room} to rent"],
        "room": ["room", "studio"],
        "self": ["{self}"],
        "empty": [],
        "gap": ["a ... b"],
    }
)


def matches(phrase: str, text: str) -> bool:
    return bool(PhraseBook([("it", compile_phrase(phrase, LISTS))]).find(read(text)))


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("leak*", "The tap is LEAKING!"),
        ("move in", "When is my move-in?"),
        ("tap ... leak*", "my tap in the bathroom leaks"),
        ("(no|without) heat", "we are without heat"),
        ("{home}", "two apartments"),
        ("{home}", "a studio to rent, please"),
        ("see the? {home}", "I want to see apartment 4"),
        ("see the? {home}", "I want to see the flat"),
        ("# bedrooms", "with 12 bedrooms"),
        (". fire .", "Fire!!"),
        ("late ?", "am I late?"),
        ("habitación", "una HABITACION"),
        ("fenêtre", "la fenetre"),
        ("straße", "STRASSE"),
        ("isn't", "it isnt"),
        ("it is", "it’s"),
        ("eau", "de l'eau partout"),
        ("we have not", "we've not"),
    ],
)
def test_a_phrase_matches(phrase: str, text: str) -> None:
    assert matches(phrase, text)


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("leak", "leaking"),
        ("tap ... leak*", "I found the tap. It leaks."),
        ("tap ... leak*", "tap one two three four five six leaks"),
        ("# bedrooms", "two bedrooms"),
        (". fire .", "the fire pit"),
        ("flat", "flatter"),
        ("a b", ""),
    ],
)
def test_a_phrase_does_not_match(phrase: str, text: str) -> None:
    assert not matches(phrase, text)


@pytest.mark.parametrize(
    ("phrase", "problem"),
    [
        ("", "empty"),
        ("a (b", "unbalanced"),
        ("... leak", "between words"),
        ("leak ...", "between words"),
        ("{house}", "no word list 'house'"),
        ("{self}", "contains itself"),
        ("{empty}", "is empty"),
        ("{gap}", "neither '...' nor '?'"),
        ("le*", "at least 3 letters"),
        ("le*ak", "neither a word"),
        ("the? my?", "no word that must be there"),
        ("#", "no word that must be there"),
        ("(a|)", "empty"),
    ],
)
def test_a_bad_phrase_is_named_with_its_problem(phrase: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("?", r"\?").replace(".", r"\.")):
        compile_phrase(phrase, LISTS)


def test_hidden_words_keep_their_place_and_only_they_are_hidden() -> None:
    book = PhraseBook([("x", compile_phrase("gas station")), ("x", compile_phrase("gas (station|grill)"))])
    text = read("The gas station smells of gas")
    assert book.hide(text)["x"].line == " . the _ _ smells of gas . "
    assert not book.hide(read("no such words"))


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    line = read(text).line
    assert line.startswith(" . ")
    assert line.endswith(" . ")


def test_a_huge_text_costs_no_more_than_its_beginning() -> None:
    phrase = compile_phrase("(leak*|drip*) ... (sink|tap) ... (kitchen|bath)")
    book = PhraseBook([("it", phrase)])
    assert not book.find(read("leak drip sink tap " * 20_000))
    assert len(read("x" * 300_000).line) < MAX_CHARS + 10
