"""``up`` and ``token``, as people run them."""

from __future__ import annotations

import re
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.cli.command import call, execute, interrupt, query, start, turn, wait_for
from tests.unit.channels.test_turns import SECRET
from tests.web.rig import API

APP = """
import asyncio
from afterturn import App, Stamp
app = App(shipped=False)

@app.consumer("quick", quiet="0s", max_wait="0s")
async def quick(turns, ctx):
    return Stamp(data={"seen": len(turns.messages)})
"""


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFTERTURN_DB", str(tmp_path / "test.db"))
    (tmp_path / "served_app.py").write_text(APP)


class Running:
    """A server that runs, and what it said."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.said: list[str] = []
        self.address = self._wait_for(r"Serving on (http://\S+)")

    def _wait_for(self, pattern: str) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.decode())
            if found := re.search(pattern, self.said[-1]):
                return found[1]
        raise AssertionError("".join(self.said))

    def link(self) -> str:
        return self._wait_for(r"Log in, once, within ten minutes: (http://\S+)")

    def stop(self) -> str:
        """Ctrl-C; returns what it said on stderr meanwhile."""
        interrupt(self.process)
        out, err = self.process.communicate()
        assert out == b""
        return err.decode()


@contextmanager
def serving(*arguments: object) -> Iterator[Running]:
    with start("--app", "served_app:app", "up", "--port", 0, *arguments) as process:
        try:
            yield Running(process)
        finally:
            if process.poll() is None:
                process.kill()


def test_serve_runs_reactions_answers_and_stops_gracefully(tmp_path: Path) -> None:
    with serving() as server:
        assert server.address.startswith("http://127.0.0.1:")
        with httpx.Client(base_url=server.address, follow_redirects=True) as client:
            assert client.get(f"{API}/conversations").status_code == 401
            link = server.link()
            assert client.get(link).status_code == 200
            csrf = client.get(f"{API}/session").json()["csrfToken"]
            assert httpx.get(link).status_code == 401
            assert call("settle", stdin=turn("c-1", propertyId="oak").encode()).code == 0
            sent = client.post(
                f"{API}/conversations/c-1/replies",
                json={"text": "At nine."},
                headers={"idempotency-key": "k-1", "x-csrf-token": csrf},
            )
            assert sent.status_code == 201

            def stamped() -> bool:
                row = client.get(f"{API}/conversations/c-1").json()
                return bool(row["messageCount"] == 2 and row["reactions"]["quick"]["through"] == row["settledAt"])

            wait_for(stamped)
        said = server.stop()
        assert server.process.returncode == 0
    assert "Stopped. 0 events" in said
    assert "At nine." not in "".join(server.said) + said
    assert query(tmp_path / "test.db", "SELECT DISTINCT emitter FROM turns ORDER BY emitter") == [("cli",), ("web",)]


def test_a_token_opens_what_it_says_until_it_is_removed(tmp_path: Path) -> None:
    added = call("token", "add", "desk-oak", "--role", "operator", "--property", "oak", "--expires", "1d")
    assert added.code == 0
    token = added.out.strip()
    assert token.startswith("aft_")
    file = tmp_path / "afterturn-tokens.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token not in file.read_text()
    assert token not in added.err
    call("settle", stdin=turn("c-1", propertyId="oak").encode())
    call("settle", stdin=turn("c-2", propertyId="elm").encode())
    with serving() as server:
        with httpx.Client(base_url=server.address, headers={"authorization": f"Bearer {token}"}) as client:
            rows = client.get(f"{API}/conversations").json()["rows"]
            assert [row["id"] for row in rows] == ["c-1"]
            assert client.get(f"{API}/stream").status_code == 403
            assert call("token", "list", "--json").json["tokens"][0]["properties"] == ["oak"]
            assert call("token", "remove", "desk-oak").code == 0
            assert client.get(f"{API}/conversations").status_code == 401
        server.stop()


def test_it_says_which_doors_are_open_and_who_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WEB", "TURNS"):
        monkeypatch.setenv(f"AFTERTURN_{name}_SECRET", SECRET)
    with serving() as server:
        server.link()
        assert f"Channels under {server.address}/hooks/: web\n" in server.said
        assert f"Signed turns of other runtimes at {server.address}/turns\n" in server.said
        assert any(line.startswith("Replies by: people, in the inbox") for line in server.said)


def test_a_store_that_breaks_while_it_is_served_is_a_503_and_a_proxy_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFTERTURN_TRUSTED_PROXIES", "127.0.0.1")
    with serving() as server:
        link = server.link()
        for caller, count, status in (("203.0.113.9", 10, 401), ("203.0.113.9", 1, 429), ("198.51.100.7", 1, 401)):
            for _ in range(count):
                headers = {"x-forwarded-for": f"192.0.2.1, {caller}"}
                tried = httpx.post(f"{server.address}{API}/session", json={"token": "aft_x"}, headers=headers)
                assert tried.status_code == status
        with httpx.Client(base_url=server.address, follow_redirects=True) as client:
            assert client.get(link).status_code == 200
            execute(tmp_path / "test.db", "DROP TABLE work_orders")
            answer = client.get(f"{API}/work-orders")
            assert answer.status_code == 503
            assert answer.json()["error"]["code"] == "unavailable"
            assert "work_orders" not in answer.text


def test_others_than_this_machine_are_refused_without_a_token() -> None:
    done = call("up", "--host", "0.0.0.0", "--port", 0)
    assert done.code == 2
    assert "afterturn token add" in done.err
    assert not Path("test.db").exists()
    assert call("token", "add", "desk", "--role", "operator").code == 0
    with serving("--host", "0.0.0.0") as server:
        assert not any("login" in line for line in server.said)
        said = server.stop()
    assert "login" not in said


def test_a_port_in_use_is_said_before_anything_is_opened() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = call("up", "--port", taken.getsockname()[1])
    assert done.code == 2
    assert "--port" in done.err
    assert not Path("test.db").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["add", "Desk!", "--role", "operator"], "name"),
        (["add", "desk", "--role", "king"], "king"),
        (["add", "desk", "--role", "admin", "--property", "oak"], "over all properties"),
        (["add", "desk", "--role", "operator", "--property", ""], "properties"),
        (["add", "desk", "--role", "operator", "--expires", "soon"], "--expires"),
        (["add", "desk", "--role", "operator", "--expires", "0s"], "--expires"),
        (["add", "desk", "--role", "operator", "--tokens", "no/such/folder.toml"], "folder"),
        (["remove", "nobody"], "token list"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_token_that_makes_no_sense_writes_nothing(tmp_path: Path, arguments: list[str], says: str) -> None:
    before = sorted(tmp_path.iterdir())
    done = call("token", *arguments)
    assert done.code == 2
    assert says in done.err
    assert done.out == ""
    assert sorted(tmp_path.iterdir()) == before


def test_without_a_bridge_pages_are_served_and_the_stream_is_left_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFTERTURN_POLL", "5ms")  # a bridge would have read it before the first page is there
    with serving("--no-bridge") as server:
        link = server.link()
        assert "Up without a bridge on" in "".join(server.said)
        with httpx.Client(base_url=server.address, follow_redirects=True) as client:
            assert client.get(link).status_code == 200
            assert call("settle", stdin=turn("c-1")).code == 0
            for _ in range(20):
                assert "c-1" in client.get("/").text
            row = client.get(f"{API}/conversations/c-1").json()
            assert row["reactions"]["quick"]["state"] == "owed"
            assert client.get(f"{API}/stream").json()["main"] == 1
        server.stop()


def test_without_both_it_is_a_worker(tmp_path: Path) -> None:
    with start("--app", "served_app:app", "up", "--no-bridge", "--no-http") as process:
        assert process.stderr is not None
        said = process.stderr.readline().decode()
        interrupt(process)
        process.communicate()
    assert said.startswith("Worker up on")
    assert process.returncode == 0
