"""Clients: loaded when they are wanted, missing with a word of what to do, and silent about secrets."""

from __future__ import annotations

import subprocess
import sys

import pytest

from afterturn.aws.session import Access, open_client, open_session
from afterturn.errors import MissingExtra, StoreError


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_importing_the_store_loads_no_driver() -> None:
    """Only opening a client does."""
    code = "import sys, afterturn, afterturn.aws.session, afterturn.aws.table, afterturn.store.dynamodb\n"
    code += "print({'aiobotocore', 'botocore', 'aiohttp'} & set(sys.modules))"
    assert run(code) == "set()"


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiobotocore.session", None)
    with pytest.raises(MissingExtra, match=r"pip install 'afterturn\[aws\]'"):
        open_session(Access())


async def test_a_profile_that_does_not_exist_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="profile"):
        async with open_client("dynamodb", Access(region="eu-west-1", profile="nobody-has-this")):
            pass


async def test_a_missing_region_is_a_store_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(StoreError, match="AWS_REGION"):
        async with open_client("dynamodb", Access()):
            pass


def test_a_secret_is_not_printed() -> None:
    assert "hush" not in repr(Access(access_key="known", secret_key="hush"))
