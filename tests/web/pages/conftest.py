"""The demo, settled and drained once a process; each test has a copy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.web.pages.browser import RunningServer, Visit, chromium, served, visit
from tests.web.pages.demo import Site, fill, open_site

expect.set_options(timeout=60_000)  # a busy machine is no failure


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "demo.db"
    fill(path)
    return path


@pytest.fixture
async def site(filled: Path, tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(filled, tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for longer: while it is open, its thread has a loop, and async tests could not have theirs."""
    with chromium() as opened:
        yield opened


@pytest.fixture
def server(filled: Path, tmp_path: Path) -> Iterator[RunningServer]:
    with served(filled, tmp_path) as running:
        yield running


@pytest.fixture
def seen(browser: Browser, server: RunningServer) -> Iterator[Visit]:
    with visit(browser, server) as found:
        yield found
