"""What is wrong with a value is said in our words, with what is allowed, and without the value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core._pydantic_core import list_all_errors

from afterturn.errors import InvalidRecord
from afterturn.model import Id, Label, Record, Text, Time, parse
from afterturn.validation_messages import problem_of

THEIRS = re.compile("Input|should|Field required|Extra|Unable|Value error|Assertion|dictionary|pydantic|instance", re.I)
VALUE = "sink-that-leaks"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Sample(Record):
    """A field of each kind that records have."""

    whole: Annotated[int, Field(ge=1, le=500)] = 1
    number: Annotated[float, Field(gt=0, le=1_000)] = 1.0
    yes: bool = True
    colour: Colour = Colour.RED
    one_of: Literal["a", "b"] = "a"
    label: Label = "a"
    id: Id = "a"
    text: Annotated[Text, Field(min_length=1)] = "a"
    short: Annotated[str, Field(min_length=3, max_length=5)] = "abc"
    at: Time | None = None
    many: Annotated[tuple[Label, ...], Field(min_length=1, max_length=2)] = ("a",)
    facts: Mapping[str, int] = {}
    key: Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,200}$")] = "k"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"whole": 0}, "whole: has to be at least 1"),
        ({"whole": 501}, "whole: has to be at most 500"),
        ({"whole": VALUE}, "whole: has to be a whole number"),
        ({"whole": 1.5}, "whole: has to be a whole number"),
        ({"whole": [VALUE]}, "whole: has to be a whole number"),
        ({"whole": "9" * 5_000}, "whole: has to be a whole number"),
        ({"number": 0}, "number: has to be more than 0"),
        ({"number": VALUE}, "number: has to be a number"),
        ({"yes": VALUE}, "yes: has to be true or false"),
        ({"yes": []}, "yes: has to be true or false"),
        ({"colour": VALUE}, "colour: has to be 'red' or 'blue'"),
        ({"oneOf": VALUE}, "oneOf: has to be 'a' or 'b'"),
        ({"label": f"{VALUE}!"}, "label: has to be 1 to 64 of a-z, 0-9, dot, dash and underscore, a letter or digit"),
        ({"label": 5}, "label: has to be a text"),
        ({"id": ""}, "id: is empty"),
        ({"id": VALUE * 100}, "id: has 1500 characters; at most 200 are allowed"),
        ({"text": ""}, "text: is empty; give something"),
        ({"text": 5}, "text: has to be a text"),
        ({"text": "\ud83d"}, "text: has"),
        ({"short": "a"}, "short: is too short; at least 3 characters are needed"),
        ({"short": VALUE}, "short: is too long; at most 5 characters are allowed"),
        ({"at": VALUE}, "at: is not an ISO 8601 time with an offset, such as"),
        ({"at": 5}, "at: is not an ISO 8601 time with an offset, such as"),
        ({"many": []}, "many: is empty; give something"),
        ({"many": ["a"] * 3}, "many: has too many entries; at most 2 are allowed"),
        ({"many": VALUE}, "many: has to be a list"),
        ({"many": ["a", f"{VALUE}!"]}, "many[1]: has to be 1 to 64"),
        ({"facts": VALUE}, "facts: has to be an object"),
        ({"facts": {"a": VALUE}}, "facts.a: has to be a whole number"),
        ({"key": "a b"}, "key: has to be 1 to 200 visible ASCII characters"),
        ({"kye": VALUE}, "kye: is unknown here; leave it out"),
        (VALUE, "has to be an object"),
        ([VALUE], "has to be an object"),
    ],
    ids=str,
)
def test_a_bad_value_is_told_with_its_field_and_what_is_allowed(given: Any, says: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        parse(Sample, given)
    told = str(caught.value)
    assert told.startswith(says)
    assert not THEIRS.search(told)
    assert VALUE not in told
    assert len(told) < 200


def test_what_is_missing_is_named() -> None:
    class Needs(Record):
        thing: int

    with pytest.raises(InvalidRecord, match="thing: is missing; it has to be given"):
        parse(Needs, {})


def test_whatever_pydantic_finds_is_told_in_our_words() -> None:
    """Also what a record of a later day may make it find."""
    checked = 0
    for one in list_all_errors():
        context = dict.fromkeys(one["example_context"] or {}, VALUE)
        told = problem_of({"type": one["type"], "msg": one["example_message_python"], "ctx": context})
        bare = problem_of({"type": one["type"], "msg": one["example_message_python"]})
        for text in (told, bare):
            assert not THEIRS.search(text), one["type"]
            assert "{" not in text
            checked += 1
    assert checked > 150


def test_a_pattern_is_shown_only_where_nobody_has_put_it_into_words() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Annotated[str, Field(pattern="^[0-9]+$")]).validate_python(VALUE)
    assert problem_of(caught.value.errors()[0]) == "does not look as it has to, which is ^[0-9]+$"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"What a customer wrote": 1}, "(a field): is unknown here"),
        ({"x" * 5_000: 1}, "(a field): is unknown here"),
        ({"facts": {"sink leaks": "no"}}, "facts.(a field): has to be a whole number"),
    ],
)
def test_a_name_that_may_be_content_is_not_told(given: Any, says: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        parse(Sample, given)
    assert str(caught.value).startswith(says)
