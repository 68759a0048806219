"""Where the next conversation of a person goes: nobody rules over what would have come to another's property."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn.channels.routing import Directory, RoutingRule, load_directory, next_rule, resolve_property
from afterturn.channels.types import Party
from afterturn.errors import ConfigError
from afterturn.store.invariants import MAX_VALUE_BYTES
from afterturn.store.state import dump_state

DIRECTORY = Directory(accounts={"oak@x.example": "oak", "elm@x.example": "elm"}, people={"ann@y.example": "elm"})
OAK = frozenset({"oak", "oak-2"})
STRAYS = frozenset({"oak", None})


def place(account: str, rule: RoutingRule | None, sender: str = "bob@y.example") -> str | None:
    return resolve_property(DIRECTORY, Party(account, sender), rule)


def learned(*moves: tuple[str | None, str | None, frozenset[str | None] | None]) -> RoutingRule | None:
    """The rule after moves: from where, to where, by whom."""
    rule: RoutingRule | None = None
    for moved_from, property_id, scope in moves:
        rule = next_rule("bob@y.example", rule, moved_from, property_id, scope) or rule
    return rule


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
    assert next_rule("bob@y.example", before, "oak", "oak-2", OAK) is None
    assert next_rule("bob@y.example", before, "oak", None, STRAYS) is None


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
            after = next_rule("bob@y.example", note, taken_from, property_id, scope) or note
            assert scope is not None
            now = place(f"{account}@x.example", after)
            assert now == before or before in scope


def test_a_note_has_room_for_the_longest_names() -> None:
    names = [chr(0x10000 + number) * 200 for number in range(60)]
    scope = frozenset[str | None](names)
    note = learned(*[(one, other, scope) for one, other in pairwise(names)])
    assert note is not None
    assert len(dump_state(note).encode()) <= MAX_VALUE_BYTES


@pytest.mark.parametrize("rule", [None, RoutingRule(key="p"), RoutingRule(key="p", sources=("elm",))])
def test_without_a_rule_the_directory_decides(rule: RoutingRule | None) -> None:
    assert place("elm@x.example", rule) == "elm"


def written(folder: Path, text: str) -> Path:
    path = folder / "directory.toml"
    path.write_text(text, "utf-8")
    return path


def test_the_person_goes_before_the_account(tmp_path: Path) -> None:
    text = '[accounts]\n"+1 (555) 0100" = "oak"\n"Oak@Example.com" = "oak"\n[people]\n"+15158226442" = "elm"\n'
    directory = load_directory(written(tmp_path, text))
    assert directory.property_of(Party("+15550100", "+15158226442")) == "elm"
    assert directory.property_of(Party("+15550100", "+15158226443")) == "oak"
    assert directory.property_of(Party("oak@EXAMPLE.com", "a@b.example")) == "oak"
    assert directory.property_of(Party("+15550199", "+15158226443")) is None


def test_national_numbers_are_completed_by_the_region(tmp_path: Path) -> None:
    directory = load_directory(written(tmp_path, '[people]\n"(515) 822-6442" = "elm"\n'), "US")
    assert directory.property_of(Party("x", "+15158226442")) == "elm"


def test_without_a_file_everything_is_unassigned() -> None:
    assert Directory().property_of(Party("+15550100", "+15158226442")) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[accounts", "is not TOML"),
        ("accounts = 1", "is no table"),
        ("[peple]", "'peple' is unknown"),
        ('[accounts]\n"+15550100" = 7', "has to be a text"),
        ('[accounts]\n"+15550100" = ""', "is empty"),
        ('[accounts]\n"+15550100" = "UNASSIGNED"', "is reserved"),
        ('[people]\n"+15158226442" = "elm"\n"+1 515 822 6442" = "oak"', "stands twice"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_directory(written(tmp_path, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read"):
        load_directory(tmp_path / "nowhere.toml")
