"""The demo, settled and drained once a process; each test has a copy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.web.pages.demo import Site, fill, open_site


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "demo.db"
    fill(path)
    return path


@pytest.fixture
async def site(filled: Path, tmp_path: Path) -> AsyncIterator[Site]:
    async with open_site(filled, tmp_path) as opened:
        yield opened
