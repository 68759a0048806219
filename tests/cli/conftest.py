"""Every test of the command has a folder of its own, and none of the surroundings' settings."""

from __future__ import annotations

import itertools
import logging
import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("AFTERTURN_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    root, own = logging.getLogger(), logging.getLogger("afterturn")
    handlers, levels = list(root.handlers), (root.level, own.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands of the test keep their store."""
    path = tmp_path / "test.db"
    monkeypatch.setenv("AFTERTURN_DB", str(path))
    return path


@pytest.fixture
def own_app(tmp_path: Path) -> Callable[[str], str]:
    """Writes a module of one's own and names its app. Consumers are declared by the code; nothing ships."""

    def write(code: str) -> str:
        name = f"own_app_{os.getpid()}_{next(_numbers)}"
        head = "import asyncio, time\nfrom afterturn import App, Stamp\napp = App(shipped=False)\n"
        (tmp_path / f"{name}.py").write_text(head + textwrap.dedent(code))
        return f"{name}:app"

    return write
