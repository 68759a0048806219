"""The directory: who writes from where belongs where, and an entry that is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterturn.channels.routing import Directory, load_directory
from afterturn.channels.types import Party
from afterturn.errors import ConfigError


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
