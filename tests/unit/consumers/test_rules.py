"""A rule file that is wrong says which file, which section, and what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterturn.consumers.repairs import CATEGORIES, load_repair_rules
from afterturn.consumers.topics import OTHER, load_taxonomy
from afterturn.errors import ConfigError

TOPICS = {
    "leasing", "tour", "maintenance", "rent-payment", "renewal", "move-in", "move-out", "deposit", "parking", "pets",
    "noise", "access-keys", "amenities", "billing-dispute", "complaint", "spam",
}  # fmt: skip


def test_the_shipped_files_are_sound() -> None:
    assert set(load_taxonomy().labels) == TOPICS | {OTHER}
    assert set(load_repair_rules().urgency) == set(CATEGORIES)
    assert set(load_repair_rules().emergencies) == {"gas", "fire", "flood", "no-heat", "break-in"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("topics = 1", r"topics: must be a table"),
        ("", r"topics: is missing or empty"),
        ("[topics.a", r"not valid TOML"),
        ("[topics]\na = 1", r"topics\.a: must be a table"),
        ("[topics.a]\nlabel = 'A'", r"topics\.a: has no phrases"),
        ("[topics.a]\nlabel = 1\nsays.en = ['x']", r"topics\.a: label must be a text"),
        ("[topics.a]\nsay.en = ['x']", r"topics\.a: unknown key 'say'"),
        ("[topics.a]\nsays = ['x']", r"topics\.a\.says: must be a table of languages"),
        ("[topics.a]\nsays.en = 'x'", r"topics\.a\.says\.en: must be a list of texts"),
        ("[topics.a]\nsays.en = [1]", r"topics\.a\.says\.en: must be a list of texts"),
        ("[topics.a]\nsays.en = ['{home}']", r"topics\.a\.says\.en: there is no word list 'home'"),
        ("[topics.a]\nsays.en = ['(x']", r"topics\.a\.says\.en: .*unbalanced bracket"),
        ("[topics.A_b]\nsays.en = ['xyz']", r"topics\.A_b: a topic is named with lower-case"),
        ("[topics.a]\nnear = ['b']\nsays.en = ['xyz']", r"topics\.a\.near: there is no topic 'b'"),
        ("[words]\nhome = 1\n[topics.a]\nsays.en = ['x']", r"words\.home: must be a list of texts"),
    ],
)
def test_a_bad_taxonomy_names_file_topic_and_problem(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=rf"mine\.toml: {problem}"):
        load_taxonomy(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[categories.roof]\nsays.en = ['x']", r"categories\.roof: no such category"),
        ("[categories.pest]\nurgency = 'soon'", r"categories\.pest: urgency must be one of"),
        ("[categories.pest]\nthings = 1", r"categories\.pest\.things: must be a table"),
        ("[categories.pest.things]\nrat = ['rat']", r"categories\.pest\.things\.rat: must be a table of languages"),
        ("[categories.pest.things]\nrat.en = ['rat']", r"categories\.pest\.things\.rat: .*no word list 'trouble'"),
        (
            "[categories.pest]\nlabel = 'Pest'\n[emergencies.rat]\ncategory = 'zoo'",
            r"emergencies\.rat: no such category: 'zoo'",
        ),
    ],
)
def test_bad_repair_rules_name_file_section_and_problem(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=rf"mine\.toml: {problem}"):
        load_repair_rules(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        load_taxonomy(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_taxonomy(tmp_path)
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"label = 'caf\xe9'")
    with pytest.raises(ConfigError, match=r"latin\.toml: is not UTF-8 text"):
        load_taxonomy(latin)
