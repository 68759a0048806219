"""Dotenv files as runtimes, with what such files have in the wild; and how runtimes are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn.aws.lane_audit.runtimes import RuntimeTarget, parse_target, read_dotenv
from afterturn.aws.lane_audit.types import Runtime, RuntimeKind, RuntimeRole
from afterturn.errors import InvalidInput, NotFound


def read(path: Path, text: str | bytes) -> Runtime:
    file = path / ".env"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    (runtime,) = read_dotenv(file, None)
    return runtime


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("AFTERTURN_LANE=prod", "prod"),
        ("export AFTERTURN_LANE=prod", "prod"),
        ("  AFTERTURN_LANE = prod  ", "prod"),
        ('AFTERTURN_LANE="prod"', "prod"),
        ("AFTERTURN_LANE='prod'", "prod"),
        ("AFTERTURN_LANE=prod # not preview", "prod"),
        ("AFTERTURN_LANE='prod # not preview'", "prod # not preview"),
        ("AFTERTURN_LANE=prod#1", "prod#1"),
        ('AFTERTURN_LANE="prod\\n"', "prod\n"),
        ('AFTERTURN_LANE="prod\nAFTERTURN_TABLE=x"', "prod\nAFTERTURN_TABLE=x"),
        ("AFTERTURN_LANE=", ""),
        ("AFTERTURN_LANE=a=b", "a=b"),
        ("# AFTERTURN_LANE=dev\nAFTERTURN_LANE=prod", "prod"),
        ("\ufeffAFTERTURN_LANE=prod", "prod"),
        ("X=1\r\nAFTERTURN_LANE=prod\r\n", "prod"),
        ("AFTERTURN_LANE", None),
        ("AFTERTURN_LANE=${LANE}", None),
        ("AFTERTURN_LANE=${LANE:-prod}", None),
        ("AFTERTURN_LANE=prod\nAFTERTURN_LANE=", ""),
    ],
)
def test_a_value_is_what_the_usual_parser_makes_of_it(tmp_path: Path, line: str, value: str | None) -> None:
    assert read(tmp_path, line).environment["AFTERTURN_LANE"] == value


def test_the_surroundings_do_not_show_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFTERTURN_TABLE", "x")
    monkeypatch.setenv("LANE", "prod")
    assert read(tmp_path, "AFTERTURN_LANE=${LANE}\n").environment == {"AFTERTURN_LANE": None}


@pytest.mark.parametrize(("second", "twice"), [("dev", True), ("prod", False), ("${X}", True)])
def test_a_name_that_is_there_twice_is_remembered_where_the_values_differ(
    tmp_path: Path, second: str, twice: bool
) -> None:
    runtime = read(tmp_path, f"AFTERTURN_LANE=prod\nX=1\nAFTERTURN_LANE={second}\n")
    assert runtime.conflicting == (frozenset({"AFTERTURN_LANE"}) if twice else frozenset())


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "\ufeff"])
def test_an_empty_file_is_a_runtime_that_lacks_everything(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).environment == {}


@pytest.mark.parametrize(
    ("text", "line"),
    [("A=1\nB='open\n", 2), ("A=1\n\n\nthis is no line\n", 4), ("=x\n", 1), ("A=1\n{}: yes\n", 2)],
)
def test_what_is_no_dotenv_file_is_refused_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(InvalidInput, match=f"line {line}: is not NAME=value"):
        read(tmp_path, text)


@pytest.mark.parametrize(("data", "line"), [(b"A=1\nB=\xfc\n", 2), (b"\xff\xfeA\x00=\x001\x00", 1), (b"\x80", 1)])
def test_what_is_not_utf_8_is_refused_with_its_line(tmp_path: Path, data: bytes, line: int) -> None:
    with pytest.raises(InvalidInput, match=f"line {line}: is not UTF-8"):
        read(tmp_path, data)


def test_a_file_that_is_not_there_or_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no dotenv file"):
        read_dotenv(tmp_path / "gone.env", None)
    with pytest.raises(InvalidInput, match="is a folder"):
        read_dotenv(tmp_path, None)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_dotenv(tmp_path / ("x" * 300), None)


@given(
    st.dictionaries(
        st.from_regex(r"AFTERTURN_[A-Z_]{1,12}", fullmatch=True), st.from_regex(r"[a-z0-9.:/-]*", fullmatch=True)
    )
)
def test_every_plain_variable_is_read(tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]) -> None:
    file = tmp_path_factory.getbasetemp() / "any.env"
    file.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    assert read_dotenv(file, RuntimeRole.WEB) == (Runtime(RuntimeKind.DOTENV, str(file), variables, RuntimeRole.WEB),)


@pytest.mark.parametrize(
    ("kind", "text", "target"),
    [
        (RuntimeKind.LAMBDA, "in", RuntimeTarget(RuntimeKind.LAMBDA, "in")),
        (RuntimeKind.LAMBDA, "in:live", RuntimeTarget(RuntimeKind.LAMBDA, "in", "live")),
        (RuntimeKind.LAMBDA, "in:live=bridge", RuntimeTarget(RuntimeKind.LAMBDA, "in", "live", RuntimeRole.BRIDGE)),
        (RuntimeKind.ECS, "main/worker", RuntimeTarget(RuntimeKind.ECS, "main/worker")),
        (RuntimeKind.ECS, "main/worker:app=up", RuntimeTarget(RuntimeKind.ECS, "main/worker", "app", RuntimeRole.UP)),
        (RuntimeKind.VERCEL, "site", RuntimeTarget(RuntimeKind.VERCEL, "site")),
        (RuntimeKind.VERCEL, "site:preview", RuntimeTarget(RuntimeKind.VERCEL, "site", "preview")),
        (RuntimeKind.DOTENV, ".env", RuntimeTarget(RuntimeKind.DOTENV, ".env")),
        (RuntimeKind.DOTENV, "a=b/.env=web", RuntimeTarget(RuntimeKind.DOTENV, "a=b/.env", role=RuntimeRole.WEB)),
        (RuntimeKind.DOTENV, "c:/x.env", RuntimeTarget(RuntimeKind.DOTENV, "c:/x.env")),
        (RuntimeKind.DOTENV, "a=b", RuntimeTarget(RuntimeKind.DOTENV, "a=b")),
    ],
)
def test_a_runtime_is_named_by_kind_name_part_and_role(kind: RuntimeKind, text: str, target: RuntimeTarget) -> None:
    assert parse_target(kind, text) == target


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (RuntimeKind.LAMBDA, ""),
        (RuntimeKind.LAMBDA, ":live"),
        (RuntimeKind.LAMBDA, "in:"),
        (RuntimeKind.LAMBDA, "in=boss"),
        (RuntimeKind.LAMBDA, "arn:aws:lambda:eu-central-1:123456789012:function:in"),
        (RuntimeKind.ECS, "worker"),
        (RuntimeKind.ECS, "main/"),
        (RuntimeKind.ECS, "/worker"),
        (RuntimeKind.ECS, "a/b/c"),
        (RuntimeKind.VERCEL, "site:staging"),
        (RuntimeKind.VERCEL, "site:"),
        (RuntimeKind.DOTENV, ""),
        (RuntimeKind.DOTENV, "=web"),
    ],
)
def test_what_is_no_name_of_a_runtime_is_refused_with_the_form(kind: RuntimeKind, text: str) -> None:
    with pytest.raises(InvalidInput, match=f"--{kind.value} .* has to be .*roles: web"):
        parse_target(kind, text)
