"""The servers of the local profile when commands come and go at bad moments."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.cli.command import call, run, start, turn, wait_for
from tests.e2e.test_local_profile import PORTS, assert_all_is_stopped, local, up

from afterturn.local import is_free

__all__ = ["local"]


def test_a_command_that_comes_while_the_servers_start_waits_for_them(local: Mapping[str, str]) -> None:
    running = start("bridge")
    try:
        wait_for((Path(local["AFTERTURN_LOCAL_FOLDER"]) / "aws.log").exists)
        done = run("settle", stdin=turn("c-1").encode())
        assert done.code == 0, done.err
    finally:
        running.terminate()
        running.communicate()
    assert call("audit", "--json").json["checked"] == 1
    assert_all_is_stopped(local)


@pytest.mark.thorough
def test_a_restart_right_after_a_kill_waits_until_the_dead_ones_servers_are_gone(local: Mapping[str, str]) -> None:
    with up("bridge") as running:
        assert run("settle", stdin=turn("c-1").encode()).code == 0
        running.kill()
        running.wait()
        done = call("audit", "--json", "--grace", "0s")
        assert done.json["checked"] == 1, done.err
    assert_all_is_stopped(local)


@pytest.mark.thorough
def test_up_stops_as_it_was_asked_to_where_temporal_has_died(local: Mapping[str, str]) -> None:
    """Settling goes on without it, and what waits is there for the next start."""
    with up() as running:
        for pid in temporal_servers(local):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: is_free(int(local[PORTS[1]])))
        assert run("settle", stdin=turn("c-1").encode()).code == 0
        running.terminate()
        _, err = running.communicate()
        assert running.returncode == 0, err.decode()
        assert b"Stopped. What is left is unknown (Temporal" in err
    assert call("drain", "--now").code == 0
    assert_all_is_stopped(local)


def temporal_servers(local: Mapping[str, str]) -> list[int]:
    """Their process ids, told by the file that they keep their state in."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/temporal") and f"{local['AFTERTURN_LOCAL_FOLDER']}/temporal.db".encode() in words:
            found.append(int(folder.name))
    assert found
    return found
