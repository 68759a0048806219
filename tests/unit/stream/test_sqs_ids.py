"""Ids for SQS: always legal, and another one for every other text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn.model import check_id
from afterturn.stream.sqs.records import deduplication_id, group_id, legal_id

LEGAL = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")
"""As the API reference of SendMessage spells it out."""

NASTY = [
    "a b",
    "é",
    "🏠",
    "x" * 128,
    "x" * 129,
    "x" * 200,
    "~",
    "~a",
    legal_id("a b"),
    "#",
    "a/b",
    "turn:a:1",
    "\u200b",
]


def _is_id(text: str) -> bool:
    try:
        return bool(check_id(text))
    except ValueError:
        return False


ids = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=200),
    st.text(min_size=1, max_size=200).filter(_is_id),
    st.text(st.sampled_from("ab/:~ "), min_size=1, max_size=6).filter(_is_id),
)
consumers = st.one_of(st.none(), st.from_regex(r"[a-z][a-z0-9-]{0,47}", fullmatch=True), st.sampled_from(["a", "b"]))
emissions = st.one_of(st.none(), st.from_regex(r"[A-Za-z0-9-]{1,64}", fullmatch=True), st.sampled_from(["a", "b"]))


@given(ids, ids)
def test_every_id_has_a_legal_one_of_its_own(one: str, other: str) -> None:
    assert LEGAL.fullmatch(legal_id(one))
    assert (legal_id(one) == legal_id(other)) == (one == other)


@pytest.mark.parametrize("text", NASTY)
def test_no_id_is_taken_for_the_hash_of_another(text: str) -> None:
    assert legal_id(legal_id(text)) == legal_id(text) or legal_id(text).startswith("~")
    assert len({legal_id(one) for one in NASTY}) == len(set(NASTY))


@pytest.mark.parametrize("text", ["c1", "+15158226442", "x" * 128, "CONV#1", "a~"])
def test_a_legal_id_stays_readable(text: str) -> None:
    assert legal_id(text) == text


@given(st.tuples(ids, consumers), st.tuples(ids, consumers))
def test_a_group_is_one_conversation_of_one_consumer(
    one: tuple[str, str | None], other: tuple[str, str | None]
) -> None:
    """Within each queue: the main one knows no consumers."""
    if (one[1] is None) == (other[1] is None):
        assert (group_id(*one) == group_id(*other)) == (one == other)


@given(st.tuples(ids, consumers, emissions), st.tuples(ids, consumers, emissions))
def test_a_deduplication_id_is_one_emission_of_one_event(
    one: tuple[str, str | None, str | None], other: tuple[str, str | None, str | None]
) -> None:
    if (one[1] is None) == (other[1] is None):
        made = [deduplication_id(f"turn:{given[0]}:1", *given[1:]) for given in (one, other)]
        assert all(LEGAL.fullmatch(text) for text in made)
        assert (made[0] == made[1]) == (one == other)
