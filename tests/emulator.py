"""The AWS emulator as a fixture: one for each test process, with an unused account for each test.

Take them into a test module::

    from tests.emulator import access, emulator, session  # noqa: F401
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from afterturn.aws import stack
from afterturn.aws.account import Account
from afterturn.aws.names import Names
from afterturn.aws.session import Access, open_session
from afterturn.local import ministack

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".venv-ministack"
"""``make test`` makes it; where a test is run alone, its first use does."""

_accounts = count(100_000_000_001)


_running = ExitStack()


@cache
def _endpoint() -> str:
    python = ministack.install(FOLDER, [ROOT / "constraints-emulator.txt"])
    return _running.enter_context(ministack.running(python))


@pytest.fixture(scope="session")
def emulator(request: pytest.FixtureRequest) -> str:
    """The endpoint of an emulator. pytest makes a fixture for each module that imports it; they share one process."""
    request.config.add_cleanup(_running.close)
    return _endpoint()


@pytest.fixture(scope="session")
def session() -> Any:
    """What clients are made of, loaded once."""
    return open_session(Access())


@pytest.fixture
def access(emulator: str) -> Access:
    """The way into an account that nobody has used."""
    return Access(region="us-east-1", endpoint=emulator, access_key=str(next(_accounts)), secret_key="test")


async def provision(account: Account, names: Names, **settings: str) -> None:
    """Make a lane from its template, as ``afterturn aws provision`` does; ``settings`` are its parameters."""
    await stack.execute(account, await stack.plan(account, names, settings))
