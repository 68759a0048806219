"""A newcomer finds the way by ``--help`` alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command import call, run, turn

from afterturn.cli.app import ENTRIES
from afterturn.config import Settings

COMMANDS = [
    ("demo",),
    ("import",),
    ("settle",),
    ("up",),
    ("drain",),
    ("inbox",),
    ("show",),
    ("work-orders",),
    ("opt-outs",),
    ("stats",),
    ("audit",),
    ("sweep",),
    ("replay",),
    ("reactions", "list"),
    ("reactions", "failed"),
    ("reactions", "retry"),
    ("reactions", "promote"),
    ("reactions", "retire"),
    ("dead-letters", "list"),
    ("dead-letters", "show"),
    ("dead-letters", "redrive"),
]


def test_help_names_every_command_and_every_exit_code() -> None:
    done = run("--help")
    assert done.code == 0
    assert done.err == ""
    for command in COMMANDS:
        assert f" {command[0]} " in done.out
    for code in (0, 1, 2, 3, 4, 130, 141):
        assert f"• {code} " in done.out


def test_the_list_of_commands_says_what_each_command_says_first() -> None:
    for entry in ENTRIES:
        assert (entry.load().help or "").split("\n\n")[0].split("\n") == [entry.help]


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = "import sys, afterturn.cli.app; print(*[name for name in sys.modules if name.startswith('afterturn.')])"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {f"afterturn.cli.{entry.module}" for entry in ENTRIES}.isdisjoint(modules)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_has_help_that_names_its_file_and_the_variable(command: tuple[str, ...]) -> None:
    done = call(*command, "--help")
    assert done.code == 0
    assert "--db" in done.out
    assert "AFTERTURN_DB" in done.out


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_whatever_prints_data_can_print_json(command: tuple[str, ...]) -> None:
    shows_for_people_only = {("demo",), ("up",), ("reactions", "promote"), ("reactions", "retire")}
    assert ("--json" in call(*command, "--help").out) is (command not in shows_for_people_only)


def test_wrong_usage_exits_2_and_says_so_on_stderr() -> None:
    for arguments in (["nonsense"], ["inbox", "--nonsense"], ["show"], ["inbox", "--channel", "fax"]):
        done = call(*arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err


def test_a_choice_that_does_not_exist_is_refused_in_plain_words() -> None:
    for arguments in (["inbox", "--channel", "fax"], ["--profile", "cloud", "stats"]):
        said = call(*arguments).err
        assert "is not one of" in said
        assert "Value error" not in said


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["up", "--port", "99999"], "'--port': has to be at most 65535"),
        (["simulate", "--limit", "0"], "'--limit': has to be at least 1"),
        (["inbox", "--limit", "many"], "'--limit': has to be a whole number"),
        (["replay", "--rate", "fast"], "'--rate': has to be a number"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused_in_our_words(words: list[str], problem: str) -> None:
    done = call(*words)
    said = " ".join(done.err.replace("│", " ").split())
    assert (done.code, problem in said, "Input" in said) == (2, True, False), said


def test_without_a_command_help_is_shown() -> None:
    done = call()
    assert "afterturn demo" in done.out + done.err


def test_the_version_is_printed() -> None:
    assert call("--version").code == 0


def test_a_flag_goes_before_the_variable_and_the_nearer_flag_before_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFTERTURN_DB", str(tmp_path / "variable.db"))
    assert "variable.db" in call("stats").err
    assert "before.db" in call("--db", "before.db", "stats").err
    assert "after.db" in call("--db", "before.db", "stats", "--db", "after.db").err


def test_a_misspelt_setting_is_named_once_with_the_one_that_was_meant(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("settle", stdin=turn())
    plain = call("stats", "--json")
    monkeypatch.setenv("AFTERTURN_TWILO_AUTH_TOKEN", "a-secret")
    done = call("stats", "--json")
    assert (done.code, done.json.keys()) == (0, plain.json.keys())
    hint = "did you mean AFTERTURN_TWILIO_AUTH_TOKEN?"
    assert done.err == f"AFTERTURN_TWILO_AUTH_TOKEN is not a setting of afterturn and is ignored; {hint}\n"
    assert call("reactions", "failed").err.count("AFTERTURN_TWILO_AUTH_TOKEN") == 1


@pytest.mark.parametrize("name", ["AFTERTURN_DIRECTORY", "AFTERTURN_OF_OUR_OWN", "TWILO_AUTH_TOKEN", "AFTERTURN_"])
def test_a_variable_that_is_read_or_somebody_elses_is_not_spoken_of(
    db: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    call("settle", stdin=turn())
    monkeypatch.setenv(name, "")
    assert name not in call("stats").err


def test_of_an_app_that_is_not_found_it_is_said_where_to_be(tmp_path: Path) -> None:
    (tmp_path / "broken_agnt.py").write_text("import no_such_thing_at_all")
    (tmp_path / "pkg_agnt").mkdir()
    for name, advised in (("my_agnt", True), ("my_agnt.parts", True), ("pkg_agnt.app", True), ("broken_agnt", False)):
        done = call("--app", f"{name}:app", "drain")
        assert (done.code, f"importing {name} failed" in done.err) == (2, True)
        assert ("run it in the folder where the module is, or name that folder in PYTHONPATH" in done.err) == advised


@pytest.mark.parametrize(
    ("name", "value", "example"),
    [
        ("SLOTS", "many", "32"),
        ("SLOTS", "0", "32"),
        ("LEASE", "0s", "30s"),
        ("POLL", "0ms", "500ms"),
        ("SWEEP_EVERY", "0m", "1m"),
        ("GRACE", "-1s", "2m"),
        ("EMITTER", "fax", "worker"),
        ("EFFECTS_FOR_HISTORY", "maybe", "false"),
        ("LONG_POLL", "1h", "10s"),
        ("PUBLIC_URL", "hooks.example.com", "https://hooks.example.com"),
        ("AGENT_URL", "agent.example.com/answer", "https://agent.example.com/answer"),
        ("PHONE_REGION", "usa", "US"),
        ("TELEGRAM_API", "api.telegram.org", "https://api.telegram.org"),
        ("TABLE", "a", "afterturn-prod"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named_as_it_is_set_with_one_that_would_do(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, example: str
) -> None:
    variable = f"AFTERTURN_{name}"
    monkeypatch.setenv(variable, value)
    done = call("stats")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {variable}: ")
    assert done.err.endswith(f"; such as {variable}={example}\n")
    assert "timedelta" not in done.err
    assert "\\" not in done.err, "a pattern says nothing to whoever types a value"


def test_the_example_of_each_setting_would_do() -> None:
    for name, field in Settings.model_fields.items():
        for example in field.examples or ():
            assert getattr(Settings.model_validate({name: example}), name) is not None


def test_an_app_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken_app.py").write_text("1 / 0")
    for name in ("nowhere_to_be_found:app", "no-colon", "broken_app:app", "json:loads"):
        done = call("--app", name, "up")
        assert (done.code, done.out) == (2, "")
        assert repr(name) in done.err
    assert "broken_app.py:1" in call("--app", "broken_app:app", "up").err
    assert not (tmp_path / "afterturn.db").exists()
