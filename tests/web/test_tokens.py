"""The file of tokens holds no token, survives what happens to files, and says what is wrong with it."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from afterturn.errors import ConfigError, InvalidInput, NotFound
from afterturn.web.roles import CallerRole
from afterturn.web.tokens import Token, TokenFile, add_token, digest_of, read_tokens, remove_token

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def token(name: str, **given: object) -> Token:
    return Token.model_validate(
        {"name": name, "role": CallerRole.OPERATOR, "sha256": digest_of(f"aft_{name}"), "created_at": NOW, **given}
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


def test_what_is_written_is_read_again(path: Path) -> None:
    odd = ("oak", 'with "quotes" and \\', "ünïcode 🔑", "UNASSIGNED", "a#b", "'")
    added = [token("one"), token("two", properties=odd, expires_at=NOW), token("three", role=CallerRole.ADMIN)]
    for one in added:
        add_token(path, one)
    assert list(read_tokens(path)) == added


def test_only_its_owner_can_read_it_and_no_token_stands_in_it(path: Path) -> None:
    add_token(path, token("one"))
    add_token(path, token("two"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "aft_" not in path.read_text()
    assert [one.name for one in path.parent.iterdir()] == ["tokens.toml"]


def test_adding_keeps_what_people_wrote(path: Path) -> None:
    add_token(path, token("one"))
    path.write_text("# the night shift's\n" + path.read_text())
    add_token(path, token("two"))
    assert path.read_text().startswith("# the night shift's\n")
    assert [one.name for one in read_tokens(path)] == ["one", "two"]


def test_two_that_add_at_once_lose_nothing(path: Path) -> None:
    names = [f"n{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: add_token(path, token(name)), names))
    assert sorted(one.name for one in read_tokens(path)) == sorted(names)


def test_a_name_is_given_once_and_a_stranger_is_not_removed(path: Path) -> None:
    add_token(path, token("one"))
    before = path.read_text()
    with pytest.raises(InvalidInput, match="one"):
        add_token(path, token("one", sha256="0" * 64))
    with pytest.raises(NotFound, match="token list"):
        remove_token(path, "two")
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[token]", "not TOML"),
        ("tokens = 1", "something else"),
        ("token = 1", "something else"),
        ('[[token]]\nname = "x"', r"token\[0\]"),
        ('[[token]]\nname = "x"\nrole = "king"\nsha256 = "%s"\ncreated_at = 2026-03-01T00:00:00Z' % ("0" * 64), "role"),
        ("\x00", "not TOML"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_by_name(path: Path, text: str, says: str) -> None:
    path.write_text(text)
    with pytest.raises(ConfigError, match=says) as caught:
        read_tokens(path)
    assert str(path) in str(caught.value)
    with pytest.raises(ConfigError):
        add_token(path, token("one"))
    assert path.read_text() == text


def test_bytes_that_are_no_text_and_folders_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        read_tokens(path)
    with pytest.raises(ConfigError, match="folder"):
        add_token(tmp_path / "none" / "tokens.toml", token("one"))
    with pytest.raises(ConfigError):
        read_tokens(tmp_path)


def test_times_may_be_written_as_toml_has_them(path: Path) -> None:
    path.write_text(
        f'[[token]]\nname = "x"\nrole = "operator"\nsha256 = "{digest_of("aft_x")}"\n'
        "created_at = 2026-03-01T00:00:00Z\n"
    )
    assert TokenFile(path).find("aft_x", NOW) is not None


@pytest.mark.parametrize("role", [CallerRole.ON_CALL, CallerRole.ADMIN])
def test_what_is_beyond_operators_is_over_all_properties(role: CallerRole) -> None:
    with pytest.raises(ValueError, match="over all properties"):
        token("one", role=role, properties=("oak",))
    with pytest.raises(ValueError, match="empty"):
        token("one", properties=())
