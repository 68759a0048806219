"""The conformance suite of reaction engines on Temporal: on the dev server and on the time-skipping test server."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from tests.contract.reactions.effects import EffectContract, QuietContract
from tests.contract.reactions.failing import DeathContract, FailureContract, NonsenseContract
from tests.contract.reactions.rig import Engines
from tests.contract.reactions.temporal import open_rig
from tests.contract.reactions.temporal_servers import Server, dev_server, skipping_server
from tests.contract.reactions.timing import RepeatContract, TimingContract

SERVERS = {"dev": dev_server, "skipping": skipping_server}
QUICK = timedelta(milliseconds=500)
"""How soon the server finds out that a worker is dead, where a test waits for that."""


@pytest.fixture(scope="module", params=["dev", pytest.param("skipping", marks=pytest.mark.thorough)])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with SERVERS[request.param]() as started:
        yield started


@pytest.fixture
def path() -> Iterator[Path]:
    """In memory where there is such a place: thousands of turns are settled here."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="afterturn-", dir=memory if memory.is_dir() else None))
    yield folder / "afterturn.db"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def engines(server: Server, path: Path) -> Engines:
    return partial(open_rig, server, path)


class TestTiming(TimingContract):
    pass


class TestRepeats(RepeatContract):
    pass


class TestFailures(FailureContract):
    pass


class TestNonsense(NonsenseContract):
    pass


class TestDeath(DeathContract):
    @pytest.fixture
    def engines(self, server: Server, path: Path) -> Engines:
        return partial(open_rig, server, path, heartbeat=QUICK)


class TestEffects(EffectContract):
    @pytest.fixture
    def engines(self, server: Server, path: Path) -> Engines:
        return partial(open_rig, server, path, heartbeat=QUICK)


class TestQuiet(QuietContract):
    pass
