"""Pages on the production path while the bridge runs elsewhere, as it does where it is a function."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

import httpx
from tests.cli.command import call, start, turn, wait_for
from tests.e2e.test_local_profile import assert_all_is_stopped, local

__all__ = ["local"]

API = "/api/v1"


def said(process: subprocess.Popen[bytes], pattern: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(pattern, line.decode()):
            return found[1]
    raise AssertionError(f"never said {pattern}")


def test_pages_are_served_and_the_queues_left_to_a_bridge_elsewhere(local: Mapping[str, str]) -> None:
    serving = start("up", "--no-bridge", "--port", 0)
    try:
        address = said(serving, r"Serving on (http://\S+)")
        link = said(serving, r"Log in, once, within ten minutes: (http://\S+)")
        with httpx.Client(base_url=address, follow_redirects=True, timeout=30) as client:
            assert client.get(link).status_code == 200
            assert call("settle", stdin=turn("c-1")).code == 0
            for _ in range(20):  # a bridge would have read it meanwhile
                assert "c-1" in client.get("/").text
            assert client.get(f"{API}/conversations/c-1").json()["reactions"]["topics"]["state"] == "owed"
            assert client.get(f"{API}/stream").json()["main"] == 1
            bridge = start("bridge")
            try:
                wait_for(lambda: client.get(f"{API}/stream").json()["main"] == 0)
                said(bridge, "(Bridge up)")
            finally:
                bridge.terminate()
                bridge.communicate()
    finally:
        serving.terminate()
        _, err = serving.communicate()
    assert serving.returncode == 0, err.decode()
    assert_all_is_stopped(local)
