"""What `aws deploy` builds, and how it refuses what makes no sense, with no account in reach."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.cli.command import call

IMPORTED = """
import asyncio, importlib, json, sys
sys.path[:] = [sys.argv[1], *sys.path]
for name in sys.argv[2:]:
    importlib.import_module(name)
import afterturn
from afterturn.aws.session import Access, open_client

async def opened():
    mail = ("s3", "sesv2") if sys.argv[2].endswith("webhooks") else ()
    for service in ("dynamodb", "sqs", "sts", *mail):
        async with open_client(service, Access(region="us-east-1", access_key="a", secret_key="b")):
            pass

asyncio.run(opened())
foreign = [m for m in sys.modules.values() if "site-packages" in (getattr(m, "__file__", None) or "")]
print(json.dumps([sorted({m.__name__ for m in foreign}), afterturn.__file__]))
"""
"""In an interpreter that finds nothing but the zip's content and the standard library."""


@pytest.mark.parametrize(("part", "megabytes"), [("bridge", (30, 100)), ("webhooks", (25, 80))])
@pytest.mark.thorough
def test_the_zip_has_everything_that_the_function_loads_and_little_else(
    part: str, megabytes: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A webhooks with mail also what reads it, checks who sent it and fetches it: that is loaded at the first call."""
    monkeypatch.setenv("AFTERTURN_SNS_TOPICS", "arn:aws:sns:us-east-1:1:mail")
    channels = ["quotequail", "cryptography.x509"] if part == "webhooks" else []
    out = tmp_path / f"{part}.zip"
    machine = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
    runtime = f"python3.{sys.version_info.minor}"
    done = call("aws", "deploy", part, "--out", out, "--json", "--runtime", runtime, "--architecture", machine)
    assert done.code == 0, done.err
    told = done.json
    assert (told["file"], told["bytes"]) == (str(out), out.stat().st_size)
    assert told["bytes"] < megabytes[0] * 1_000_000
    assert told["unzipped"] < megabytes[1] * 1_000_000
    assert f"installing what the {part} needs" in done.err
    with zipfile.ZipFile(out) as made:
        names = made.namelist()
        made.extractall(tmp_path / "laid")
    assert any(name.startswith("temporalio/") for name in names) is (part == "bridge")
    assert not [name for name in names if name.startswith(("typer/", "rich/", "pydantic_ai/", "bin/"))]
    if sys.platform == "linux":  # elsewhere the packages of Lambda's machines cannot be loaded
        modules = [f"afterturn.bootstrap.lambda_{part}", *channels]
        command = [sys.executable, "-I", "-S", "-c", IMPORTED, str(tmp_path / "laid"), *modules]
        loaded = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert loaded.returncode == 0, loaded.stderr
        assert json.loads(loaded.stdout) == [[], str(tmp_path / "laid" / "afterturn" / "__init__.py")]


def test_what_pip_cannot_install_is_told_in_its_words_and_no_zip_is_left(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("this is no requirement\n")
    out = tmp_path / "bridge.zip"
    done = call("aws", "deploy", "bridge", "--out", out, "--requirements", tmp_path / "requirements.txt")
    assert (done.code, done.out) == (2, "")
    assert "pip could not install" in done.err
    assert "this is no requirement" in done.err
    assert not list(tmp_path.glob("bridge.zip*"))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["worker"], "bridge"),
        (["bridge", "--runtime", "python3.9", "--out", "b.zip"], "--runtime python3.9"),
        (["bridge", "--architecture", "riscv", "--out", "b.zip"], "--architecture riscv"),
        (["bridge", "--runtime", "python3.12"], "go with --out"),
        (["bridge", "--zip", "a.zip", "--include", "app.py"], "--zip is finished"),
        (["bridge", "--zip", "a.zip", "--out", "b.zip"], "--zip is finished"),
        (["bridge", "--timeout", "soon"], "--timeout"),
        (["bridge", "--include", "nowhere.py"], "--include nowhere.py: there is no such file or folder"),
        (["bridge", "--requirements", "nowhere.txt"], "--requirements nowhere.txt: there is no such file"),
        (["bridge", "--zip", "nowhere.zip"], "--zip nowhere.zip: No such file"),
        (["bridge", "--env", "NOWHERE"], "--env NOWHERE: it is not set in this shell"),
        (["bridge", "--app", "reactions"], "has to be module:attribute"),
        (["bridge", "--app", "reactions:app"], "its module is not in the zip"),
        (["bridge", "--app", "reactions:app", "--out", "b.zip"], "its module is not in the zip"),
        (["bridge", "--keep", "1"], "--keep"),
        (["webhooks", "--unmapped"], "--unmapped is for the bridge"),
        (["bridge", "--out", "nowhere/b.zip"], "there is no folder nowhere"),
    ],
)
def test_wrong_usage_exits_2_builds_nothing_and_asks_no_account(words: list[str], problem: str, tmp_path: Path) -> None:
    """No account is in reach here, so what is told of it would be told first."""
    done = call("aws", "deploy", *words)
    assert (done.code, done.out) == (2, "")
    assert problem in done.err
    assert not list(tmp_path.iterdir())


def test_webhooks_with_channels_takes_the_app_that_answers_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it nobody would be asked, and nothing would say so."""
    monkeypatch.setenv("AFTERTURN_TELEGRAM_SECRET", "s")
    for words in ([], ["--out", "f.zip"]):
        done = call("aws", "deploy", "webhooks", "--app", "my_agent:app", *words)
        assert (done.code, done.out) == (2, "")
        assert "its module is not in the zip" in done.err


@pytest.mark.parametrize("command", ["deploy", "rollback"])
def test_help_tells_what_it_does_and_prints_json_where_it_is_asked_to(command: str) -> None:
    done = call("aws", command, "--help")
    assert done.code == 0
    for flag in ("--json", "--dry-run", "--lane", "--account"):
        assert flag in done.out
