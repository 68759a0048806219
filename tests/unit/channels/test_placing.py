"""Where the next conversation of a person goes: nobody rules over what would have come to another's property."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from afterturn.channels.directory import Directory
from afterturn.channels.routing import learn, resolve_property
from afterturn.channels.types import Party
from afterturn.store.kept import MAX_VALUE_BYTES

DIRECTORY = Directory(accounts={"oak@x.example": "oak", "elm@x.example": "elm"}, people={"ann@y.example": "elm"})
OAK = frozenset({"oak", "oak-2"})
STRAYS = frozenset({"oak", None})


def place(account: str, note: JsonValue, sender: str = "bob@y.example") -> str | None:
    return resolve_property(DIRECTORY, Party(account, sender), note)


def learned(*moves: tuple[str | None, str | None, frozenset[str | None] | None]) -> JsonValue:
    """The note after moves: from where, to where, by whom."""
    note: JsonValue = None
    for taken_from, property_id, scope in moves:
        _, note = learn(note, taken_from, property_id, scope)
    return note


def test_who_has_a_say_in_all_goes_before_the_directory() -> None:
    note = learned((None, "ash", None))
    assert place("oak@x.example", note) == place("all@x.example", note) == "ash"
    assert place("oak@x.example", note, "ann@y.example") == "ash"


def test_who_has_a_say_in_some_rules_over_what_would_have_come_there() -> None:
    note = learned(("oak", "oak-2", OAK))
    assert place("oak@x.example", note) == "oak-2"
    assert place("elm@x.example", note) == "elm"
    assert place("all@x.example", note) is None
    assert place("oak@x.example", note, "ann@y.example") == "elm"


def test_who_sees_the_strays_assigns_them_and_their_next() -> None:
    note = learned((None, "oak", STRAYS))
    assert place("all@x.example", note) == "oak"
    assert place("elm@x.example", note) == "elm"


def test_what_was_ruled_for_them_they_may_rule_on() -> None:
    everything = learned((None, "oak", None), ("oak", "oak-2", OAK))
    assert place("elm@x.example", everything) == place("all@x.example", everything) == "oak-2"
    strays = learned((None, "oak", STRAYS), ("oak", "oak-2", OAK))
    assert place("all@x.example", strays) == place("oak@x.example", strays) == "oak-2"
    assert place("elm@x.example", strays) == "elm"


def test_what_another_was_given_stays_with_them() -> None:
    before = learned((None, "elm", None))
    assert learn(before, "oak", "oak-2", OAK) == (False, before)
    assert learn(before, "oak", None, STRAYS) == (False, before)


def test_who_is_put_nowhere_goes_where_the_directory_says() -> None:
    for scope in (None, STRAYS):
        note = learned(("oak", "oak", scope), ("oak", None, scope))
        assert place("oak@x.example", note) == "oak"
        assert place("all@x.example", note) is None


_PLACES = st.sampled_from([None, "oak", "oak-2", "elm", "ash"])
_SCOPES = st.one_of(st.none(), st.frozensets(_PLACES, min_size=1))


@given(st.lists(st.tuples(_PLACES, _PLACES, _SCOPES), max_size=8), st.sampled_from(["oak", "elm", "all"]), _SCOPES)
def test_no_move_within_a_scope_changes_what_would_have_gone_elsewhere(
    moves: list[tuple[str | None, str | None, frozenset[str | None] | None]],
    account: str,
    scope: frozenset[str | None] | None,
) -> None:
    note = learned(*[one for one in moves if one[2] is None or {one[0], one[1]} <= one[2]])
    before = place(f"{account}@x.example", note)
    for taken_from in scope or ():
        for property_id in scope or ():
            _, after = learn(note, taken_from, property_id, scope)
            assert scope is not None
            now = place(f"{account}@x.example", after)
            assert now == before or before in scope


def test_a_note_has_room_for_the_longest_names() -> None:
    names = [chr(0x10000 + number) * 200 for number in range(60)]
    scope = frozenset[str | None](names)
    note = learned(*[(one, other, scope) for one, other in pairwise(names)])
    assert len(json.dumps(note, ensure_ascii=False).encode()) <= MAX_VALUE_BYTES
    assert note == json.loads(json.dumps(note))


@pytest.mark.parametrize("note", [None, "", 5, [], {}, {"property": 5, "from": []}, {"property": "oak"}])
def test_a_note_that_says_nothing_leaves_it_to_the_directory(note: JsonValue) -> None:
    assert place("elm@x.example", note) == "elm"
