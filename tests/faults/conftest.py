"""Where the files of fault tests lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.machines import fast_folder


@pytest.fixture
def path() -> Iterator[Path]:
    with fast_folder() as folder:
        yield folder / "afterturn.db"
