"""A provider calls a real server, the agent of the user answers, and the answer goes out to a real one: once."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cli.command import query, run, turn, wait_for
from tests.unit.channels.channels import here, sample
from tests.unit.channels.test_turns import SECRET, signed
from tests.web.test_serving import serving

from afterturn.clock import system_clock

APP = """
from afterturn import App, Stamp
app = App(shipped=False)

@app.consumer("quick", quiet="0s", max_wait="0s")
async def quick(turns, ctx):
    return Stamp(data={"seen": len(turns.messages)})

@app.responder
async def reply(asked):
    return f"You said: {asked.messages[-1].text}"
"""


class Telegram:
    """A Bot API server as far as `sendMessage` goes; it takes down what it was told to send."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        taking = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                assert self.path.endswith("/sendMessage")
                taking.sent.append(body)
                number = 1000 + len(taking.sent)
                chat = {"id": int(body["chat_id"]), "type": "private"}
                result = {"message_id": number, "date": 1772366405, "chat": chat, "text": body["text"]}
                told = json.dumps({"ok": True, "result": result}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def telegram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Telegram]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFTERTURN_DB", str(tmp_path / "test.db"))
    monkeypatch.setenv("AFTERTURN_POLL", "50ms")
    monkeypatch.setenv("AFTERTURN_TELEGRAM_SECRET", "hush")
    monkeypatch.setenv("AFTERTURN_TELEGRAM_TOKEN", "12345:" + "A" * 35)
    monkeypatch.setenv("AFTERTURN_TURNS_SECRET", SECRET)
    (tmp_path / "served_app.py").write_text(APP)
    provider = Telegram()
    monkeypatch.setenv("AFTERTURN_TELEGRAM_API", provider.address)
    thread = threading.Thread(target=provider.server.serve_forever)
    thread.start()
    yield provider
    provider.server.shutdown()
    thread.join()
    provider.server.server_close()


def update(number: int, text: str) -> bytes:
    sender = {"id": 7, "is_bot": False, "first_name": "Ada"}
    said = {
        "message_id": number,
        "date": 1772366405,
        "chat": {"id": 7, "type": "private"},
        "from": sender,
        "text": text,
    }
    return json.dumps({"update_id": number, "message": said}).encode()


def post(address: str, body: bytes, secret: str = "hush") -> httpx.Response:
    headers = {"x-telegram-bot-api-secret-token": secret, "content-type": "application/json"}
    return httpx.post(f"{address}/hooks/telegram", content=body, headers=headers)


def test_what_comes_in_is_answered_settled_reacted_to_and_sent_once(telegram: Telegram, tmp_path: Path) -> None:
    with serving() as server:
        for _ in range(2):
            assert post(server.address, update(1, "The boiler is cold")).status_code == 200
        wait_for(lambda: len(telegram.sent) == 1)
        assert telegram.sent[0]["text"] == "You said: The boiler is cold"
        assert str(telegram.sent[0]["chat_id"]) == "7"
        wait_for(lambda: run("--app", "served_app:app", "audit", "--grace", "0s").code == 0)
        assert "Stopped." in server.stop()
    assert len(telegram.sent) == 1
    shown = run("show", "telegram:7", "--json").json
    assert [one["text"] for one in shown["messages"]] == ["The boiler is cold", "You said: The boiler is cold"]
    assert len(shown["turns"]) == 1


def test_a_kill_after_the_answer_to_the_provider_loses_nothing_and_sends_once(
    telegram: Telegram, tmp_path: Path
) -> None:
    """At moments spread over the way: between message, answer and dispatch. What may have gone out is not repeated."""
    chance = random.Random(7)
    for number in range(1, 5):
        with serving() as server:
            assert post(server.address, update(number, f"Number {number}")).status_code == 200
            time.sleep(chance.random() / 4)
            server.process.kill()
            server.process.wait()
    execute_leases(tmp_path / "test.db")
    with serving() as server:
        wait_for(lambda: query(tmp_path / "test.db", "SELECT count(*) FROM jobs WHERE done = 0") == [(0,)])
        server.stop()
    texts = [one["text"] for one in telegram.sent]
    assert len(texts) == len(set(texts))
    [(inbound,)] = query(tmp_path / "test.db", "SELECT count(*) FROM messages WHERE direction = 'inbound'")
    assert inbound == 4
    told = query(tmp_path / "test.db", "SELECT value FROM state WHERE kind = 'send-status'")
    states = [json.loads(value)["state"] for (value,) in told]
    assert states.count("sent") + states.count("uncertain") == len(states)
    assert run("--app", "served_app:app", "drain", "--now").code == 0


def execute_leases(db: Path) -> None:
    """The leases of the killed have run out, as they would in minutes."""
    from tests.cli.command import execute

    execute(db, "UPDATE jobs SET visible_at = due_at WHERE done = 0")
    execute(db, "DELETE FROM state WHERE kind = 'lock'")


def test_a_wrong_secret_stores_nothing_and_guessing_is_slowed_down(telegram: Telegram, tmp_path: Path) -> None:
    with serving() as server, httpx.Client(base_url=server.address) as client:
        statuses = [
            client.post("/hooks/telegram", content=b"{}", headers={"x-telegram-bot-api-secret-token": "x"}).status_code
            for _ in range(70)
        ]
        assert statuses[:10] == [401] * 10
        assert statuses[-1] == 429
        assert post(server.address, update(1, "Still here")).status_code == 200
        assert client.post("/hooks/vapi", content=b"{}").status_code == 404
        assert client.post("/hooks/telegram", content=b"x" * 3_000_000).status_code == 413


@here
def test_a_turn_that_another_runtime_hands_in_is_settled(telegram: Telegram, tmp_path: Path) -> None:
    with serving() as server:
        given = signed(turn("c-1").encode(), at=system_clock())
        answers = [
            httpx.post(f"{server.address}/turns", content=given.body, headers=dict(given.headers)) for _ in range(2)
        ]
        assert [(one.status_code, one.json()["new"]) for one in answers] == [(200, True), (200, False)]
        assert httpx.post(f"{server.address}/turns", content=given.body).status_code == 401
        assert post(server.address, sample("telegram/unknown-update-kind.json")).status_code == 200
