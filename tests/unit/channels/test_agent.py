"""An agent over HTTP: asked with a signature that it can check, and whatever it answers breaks nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from pydantic import SecretStr
from standardwebhooks import Webhook
from tests.unit.channels.test_turns import SECRET

from afterturn.channels.agent import AgentWebhook
from afterturn.channels.http_client import HttpTimeouts, open_http
from afterturn.channels.responder import ReplyRequest
from afterturn.clock import system_clock
from afterturn.errors import ConfigError, DeliveryFailed
from afterturn.model import Channel, Conversation, Direction, Message, Role

AT = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)


class Agent:
    """A server that checks the signature with the specification's own library, and answers as it is told."""

    def __init__(self) -> None:
        self.answer: tuple[int, bytes] = (200, b'{"text": "Good day."}')
        self.asked: list[Any] = []
        self.hang = False
        told = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                told.asked.append(Webhook(SECRET).verify(body.decode(), dict(self.headers.items())))
                if told.hang:
                    self.connection.close()
                    return
                status, answer = told.answer
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/agent"


@pytest.fixture
def agent() -> Iterator[Agent]:
    made = Agent()
    thread = Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


async def ask(url: str, text: str = "The boiler is cold") -> str | None:
    said = Message(id="m-1", direction=Direction.INBOUND, role=Role.CUSTOMER, text=text, at=AT)
    conversation = Conversation(id="c-1", channel=Channel.SMS, property_id="oak", created_at=AT)
    async with open_http(HttpTimeouts(connect=2.0, read=2.0, total=2.0)) as http:
        asked = ReplyRequest(conversation, (said,), "ours", "theirs")
        return await AgentWebhook(http, url, SecretStr(SECRET), system_clock)(asked)


async def test_it_is_asked_with_the_thread_and_says_what_to_say(agent: Agent) -> None:
    assert await ask(agent.url, "Ünïcode 🔧") == "Good day."
    [asked] = agent.asked
    assert (asked["conversationId"], asked["propertyId"], asked["channel"]) == ("c-1", "oak", "sms")
    [message] = asked["messages"]
    assert (message["text"], message["role"], message["at"]) == (
        "Ünïcode 🔧",
        "customer",
        "2026-03-01T12:00:05.000000Z",
    )


@pytest.mark.parametrize("answer", [(204, b""), (200, b'{"text": null}'), (200, b"{}")])
async def test_it_may_say_nothing(agent: Agent, answer: tuple[int, bytes]) -> None:
    agent.answer = answer
    assert await ask(agent.url) is None


@pytest.mark.parametrize(
    "answer",
    [
        (500, b""),
        (302, b""),
        (200, b""),
        (200, b"Good day."),
        (200, b'{"text": 7}'),
        (200, b'{"txt": "Good day."}'),
        (200, b'["text"]'),
        (200, b'{"text": "' + b"x" * 2_000_000 + b'"}'),
    ],
    ids=lambda value: f"{value[0]} {value[1][:12]!r}",
)
async def test_what_is_no_answer_is_asked_for_again_and_told_without_content(
    agent: Agent, answer: tuple[int, bytes]
) -> None:
    agent.answer = answer
    with pytest.raises(DeliveryFailed) as failed:
        await ask(agent.url)
    assert "boiler" not in str(failed.value)


async def test_one_that_hangs_up_or_is_not_there_is_asked_again(agent: Agent) -> None:
    agent.hang = True
    with pytest.raises(DeliveryFailed):
        await ask(agent.url)
    with pytest.raises(DeliveryFailed):
        await ask("http://127.0.0.1:9/agent")


def test_a_secret_that_is_none_is_said_at_once() -> None:
    async def made() -> None:
        async with open_http() as http:
            AgentWebhook(http, "http://127.0.0.1:9", SecretStr("not base64!"), system_clock)

    with pytest.raises(ConfigError, match="agent secret"):
        asyncio.run(made())
