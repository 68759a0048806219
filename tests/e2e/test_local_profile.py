"""The local profile by its commands: the same result as the embedded one, and servers that come and go with them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import CommandResult, call, run, start, turn, wait_for
from tests.emulator import FOLDER, ROOT

from afterturn.demo import sample
from afterturn.local import HOST, free_port, is_free, ministack

THOROUGH = bool(os.environ.get("AFTERTURN_TEST_THOROUGH"))
CONVERSATIONS = 85 if THOROUGH else 8
"""Of the demo's sample."""
DIALOGUES = ROOT.parent / "shared" / "data" / "dialogues-dev.jsonl.gz"
IMPORTED = 80
PORTS = ("AFTERTURN_LOCAL_AWS_PORT", "AFTERTURN_LOCAL_TEMPORAL_PORT", "AFTERTURN_LOCAL_TEMPORAL_UI_PORT")


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """The settings of a local profile that nobody else uses, which are also those of this process."""
    for name in [name for name in os.environ if name.startswith("AFTERTURN_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    ministack.install(FOLDER, [ROOT / "constraints-emulator.txt"])
    given = {name: str(free_port()) for name in PORTS}
    given |= {
        "AFTERTURN_PROFILE": "local",
        "AFTERTURN_LOCAL_FOLDER": str(tmp_path / "state"),
        "AFTERTURN_LOCAL_EMULATOR": str(FOLDER),
        "AFTERTURN_LONG_POLL": "1s",
        "AFTERTURN_POLL": "100ms",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return given


def test_it_does_what_the_embedded_profile_does_and_keeps_it(
    local: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo on each; what commands tell then is the same, with servers started anew.

    They use the servers of ``up``, which also reacts to what they settle. Its interrupt goes to all of its process
    group, as a terminal's does.
    """
    now = datetime.now(UTC)
    monkeypatch.setattr("afterturn.cli.demo.sample", lambda _: islice(sample(now), CONVERSATIONS))
    embedded = ("--profile", "embedded", "--db", tmp_path / "embedded.db")
    for options in ((), embedded):
        done = call(*options, "demo")
        assert done.code == 0, done.err
        assert re.search(r"^owed: 0  failed: 0  dead letters: 0$", done.out, re.MULTILINE)
    assert_all_is_stopped(local)
    with up() as running:
        told = {}
        for look in ("inbox --json --window all", "work-orders --json", "audit --json --grace 0s"):
            done = call(*look.split())
            told[look] = done.json
            expected = call(*embedded, *look.split())
            assert (done.code, comparable(done)) == (0, comparable(expected)), look
        rows, orders, audit = told.values()
        assert len(rows["rows"]) > CONVERSATIONS / 2
        assert orders
        assert audit["clean"]
        assert (audit["checked"], audit["owed"], audit["reactions"]) == (CONVERSATIONS, 0, [])

        given = json.loads(turn("c-1")) | {"flushMode": "immediate"}
        assert run("settle", stdin=json.dumps(given).encode()).code == 0
        wait_for(lambda: call("audit", "--grace", "0s").code == 0)
        assert call("audit", "--json").json["checked"] == CONVERSATIONS + 1
        os.killpg(running.pid, signal.SIGINT)
        _, err = running.communicate()
        assert running.returncode == 0, err.decode()
        assert b"Stopped. 0 events in the stream, 0 reactions waiting" in err
    assert_all_is_stopped(local)


@pytest.mark.skipif(not DIALOGUES.exists(), reason="needs the dialogues of ../shared")
@pytest.mark.timeout(900)
@pytest.mark.thorough
def test_history_comes_in_and_nothing_of_it_is_owed(local: Mapping[str, str]) -> None:
    """Real dialogues through DynamoDB, SQS and Temporal; each command has servers of its own time."""
    done = call("import", DIALOGUES, "--limit", IMPORTED, "--json")
    assert done.code == 0, done.err
    assert done.json["conversations"] == {"found": IMPORTED, "new": IMPORTED, "known": 0}
    done = call("drain", "--now", "--json")
    assert done.code == 0, done.err
    done = call("audit", "--grace", "0s", "--json")
    assert (done.code, done.json["checked"], done.json["owed"], done.json["failed"]) == (0, IMPORTED, 0, 0)
    assert_all_is_stopped(local)


def test_bridge_and_worker_do_it_together(local: Mapping[str, str]) -> None:
    """In a process each; the servers are those of the bridge, so it ends last."""
    with up("bridge"), up("worker"):
        given = json.loads(turn("c-1")) | {"flushMode": "immediate"}
        assert run("settle", stdin=json.dumps(given).encode()).code == 0
        wait_for(lambda: call("audit", "--grace", "0s").code == 0)
    assert_all_is_stopped(local)


def test_servers_go_with_a_command_that_is_killed(local: Mapping[str, str]) -> None:
    with up() as running:
        running.kill()
        running.wait()
        wait_for(lambda: all(is_free(int(local[name])) for name in PORTS))
    assert call("audit").code == 0


@pytest.mark.parametrize("name", PORTS)
def test_a_port_in_use_is_said_and_nothing_is_left_running(local: Mapping[str, str], name: str) -> None:
    with socket.create_server((HOST, int(local[name]))):
        done = call("inbox")
        assert done.code == 2
        assert re.fullmatch(rf"error: port {local[name]} is in use; stop what listens there, or .*\n", done.err)
    assert_all_is_stopped(local)


def comparable(done: CommandResult) -> Any:
    """What was told, without the moments at which this machine did it."""
    return without(done.json, "recordedAt", "scanned")


def without(value: Any, *names: str) -> Any:
    if isinstance(value, dict):
        return {key: without(one, *names) for key, one in value.items() if key not in names}
    if isinstance(value, list):
        return [without(one, *names) for one in value]
    return value


@contextmanager
def up(command: str = "up") -> Iterator[subprocess.Popen[bytes]]:
    """``afterturn up``, asked to stop at the end, in a process group of its own."""
    process = start(command, start_new_session=True)
    assert process.stderr is not None
    with process:
        try:
            said = b""
            while b"Ctrl-C stops." not in said:
                line = process.stderr.readline()
                assert line, said.decode()
                said += line
            yield process
        finally:
            process.terminate()
            process.communicate()


def assert_all_is_stopped(local: Mapping[str, str]) -> None:
    assert all(is_free(int(local[name])) for name in PORTS)
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert local["AFTERTURN_LOCAL_FOLDER"] not in left
