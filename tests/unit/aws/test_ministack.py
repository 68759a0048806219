"""The emulator: on this machine only, stopped whatever happens, and with clear words where it cannot be had."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from tests.emulator import FOLDER, ROOT

from afterturn.errors import ConfigError
from afterturn.local import ministack


@pytest.fixture(scope="module")
def python() -> Path:
    return ministack.install(FOLDER, [ROOT / "constraints-emulator.txt"])


def answers(endpoint: str) -> bool:
    try:
        with urllib.request.urlopen(f"{endpoint}/_ministack/health", timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def port_of(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])


def test_it_runs_while_the_block_does_and_takes_a_port_that_nobody_lends(python: Path) -> None:
    with ministack.running(python) as endpoint:
        assert answers(endpoint)
        assert endpoint.startswith("http://127.0.0.1:")
        assert port_of(endpoint) < 32768
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if sys.platform == "linux" else ():
            address, _, port = line.split()[1].partition(":")
            if int(port, 16) == port_of(endpoint) and line.split()[3] == "0A":
                assert address == "0100007F", "it listens beyond this machine"
    assert not answers(endpoint)


def test_it_ends_with_its_parent(python: Path, tmp_path: Path) -> None:
    """Also where the parent has no chance to stop it."""
    told = tmp_path / "endpoint"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom afterturn.local import ministack\n"
        f"with ministack.running(Path({str(python)!r})) as endpoint:\n"
        f"    Path({str(told)!r}).write_text(endpoint)\n    time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        _wait_until(lambda: told.exists() and bool(told.read_text()))
        endpoint = told.read_text()
        assert answers(endpoint)
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    _wait_until(lambda: not answers(endpoint))


def test_a_port_in_use_is_said_to_be_that(python: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} is in use"), ministack.running(python, port=port):
            pass


def test_a_program_that_does_not_start_is_said_to_be_that(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with (
        pytest.raises(ConfigError, match=r"did not start; its last words are in .*log"),
        ministack.running(Path(sys.executable), log=log),  # an environment without it
    ):
        pass
    assert "ministack" in log.read_text()


def test_an_installation_that_fails_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(ConfigError, match=r"could not install it with pip.*\n.*ministack"):
        ministack.install(tmp_path / "emulator")
    assert list(tmp_path.iterdir()) == []


def test_what_is_installed_is_not_installed_again(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("nothing has to be run"))
    assert ministack.install(FOLDER) == python


def test_each_user_has_a_place_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ministack.default_folder() == tmp_path / "afterturn" / f"ministack-{ministack.VERSION}"


def test_the_tests_run_the_version_that_users_get() -> None:
    pins = (ROOT / "constraints-emulator.txt").read_text().splitlines()
    assert f"ministack=={ministack.VERSION}" in pins


def _wait_until(done: object) -> None:
    assert callable(done)
    deadline = time.monotonic() + 240
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)
