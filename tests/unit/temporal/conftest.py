"""One dev server for these tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.contract.reactions.temporal_servers import Server, dev_server
from tests.unit.temporal.rig import OpenRig, open_temporal_rig


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with dev_server() as started:
        yield started


@pytest.fixture
def open_rig(server: Server, tmp_path: Path) -> OpenRig:
    return partial(open_temporal_rig, server, tmp_path / "afterturn.db")
