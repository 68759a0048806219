"""Whole webhooks: a damaged body that is signed anew, and damaged headers around a good one.

What comes through fits records, and the answer is a success or the one shape of an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import SecretStr
from tests.unit.channels import channels
from tests.unit.channels.channels import NOW
from tests.unit.channels.endpoints import SECRETS, endpoints_of
from tests.unit.channels.test_turns import SECRET
from tests.web.rig import BASE
from tests.web.signed_requests import SIGNED, good_bodies

from afterturn.channels.ingest import IngestResult
from afterturn.channels.turns import TURNS_PATH, TurnEndpoint
from afterturn.channels.types import ChannelEvent, FetchRequest, Ignored, SubscriptionEvent, WebhookRequest
from afterturn.channels.webhooks import WEBHOOKS_PATH, WebhookResponse, WebhookRouter
from afterturn.clock import to_text
from afterturn.event import make_event
from afterturn.model import Origin, Turn
from afterturn.settle import SettleResult

__all__ = ["SIGNED", "assert_fits", "bodies", "good_headers", "with_body", "with_headers"]

T = TypeVar("T")


class IngestRecorder:
    """Replaces ingest and settler, and records what reaches them."""

    def __init__(self) -> None:
        self.came: list[object] = []

    async def handle(self, arrival: ChannelEvent) -> IngestResult:
        self.came.append(arrival)
        return IngestResult("nothing")

    async def settle(self, turn: Turn) -> SettleResult:
        self.came.append(turn)
        about = turn.conversation
        event = make_event(
            conversation_id=about.id,
            property_id=about.property_id,
            origin=Origin.TEXT,
            channel=about.channel,
            emitter="web",
            occurred_at=NOW,
            flush_mode=turn.flush_mode,
        )
        return SettleResult(event=event, new=True)

    async def fetch(self, asked: FetchRequest) -> ChannelEvent:
        self.came.append(asked)
        return Ignored("elsewhere")

    async def keep(self, event: SubscriptionEvent) -> None:
        self.came.append(event)


@cache
def _front() -> tuple[IngestRecorder, Callable[[str, WebhookRequest], Coroutine[Any, Any, WebhookResponse]]]:
    through = IngestRecorder()
    router = WebhookRouter(
        through,  # type: ignore[arg-type]
        lambda: NOW,
        endpoints_of(SECRETS),
        fetchers={"s3": through.fetch, "graph": through.fetch},
        subscriptions={"sns": through.keep, "graph": through.keep},
    )
    turns = TurnEndpoint(through.settle, SecretStr(SECRET), lambda: NOW)

    async def front(path: str, request: WebhookRequest) -> WebhookResponse:
        return await (turns(request) if path == TURNS_PATH else router(path, request))

    return through, front


def call(path: str, headers: Mapping[str, str], body: bytes) -> Iterable[object]:
    """What reaches the store through a webhook. Raises AssertionError for a response that is not ours."""
    through, front = _front()
    through.came.clear()
    assert_answers(at_once(front(path, WebhookRequest("POST", BASE + path, headers, body))))
    return tuple(through.came)


def with_body(path: str, body: bytes) -> Iterable[object]:
    """Signed anew, so that it gets as far as it can."""
    return call(path, SIGNED[path](body, NOW), body)


def with_headers(path: str, told: bytes) -> Iterable[object]:
    """``told``: the headers as a JSON object, damaged."""
    try:
        headers = json.loads(told)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(headers, dict):
        return ()
    # As they come over HTTP: Latin-1, names in lower case.
    plain = {name: str(value).encode("latin-1", "replace").decode("latin-1") for name, value in headers.items()}
    return call(path, plain, good_bodies(NOW)[path])


def bodies() -> Mapping[str, bytes]:
    """Good ones, by path, and after a space what more of ours can stand in them."""
    at = to_text(NOW)
    said = {
        "conversationId": "visitor-1",
        "messageId": "m-1",
        "text": "Hello \N{WAVING HAND SIGN}",
        "sender": "ada@example.com",
        "account": "shop",
        "name": "Ada",
    }
    message = {
        "id": "m-1",
        "direction": "inbound",
        "role": "customer",
        "text": "Hello",
        "at": at,
        "providerId": "p-1",
        "attachments": [{"url": "https://files.example.com/1", "mediaType": "image/png", "name": "a.png"}],
    }
    about = {
        "id": "c-1",
        "channel": "voice",
        "propertyId": "oak",
        "type": "tenant",
        "participants": ["+15558226442"],
        "status": "closed",
        "createdAt": at,
        "synthetic": True,
    }
    answer = {**message, "id": "m-2", "direction": "outbound", "role": "agent", "providerId": None, "attachments": []}
    turn = {"conversation": about, "messages": [message, answer], "key": "k-1", "at": at, "flushMode": "immediate"}
    return {
        **good_bodies(NOW),
        f"{WEBHOOKS_PATH}/web more": json.dumps(said).encode(),
        f"{TURNS_PATH} more": json.dumps(turn).encode(),
        f"{TURNS_PATH} none": json.dumps({"conversation": {"id": "c-1", "channel": "voice"}}).encode(),
    }


def good_headers(path: str) -> bytes:
    return json.dumps(dict(SIGNED[path](good_bodies(NOW)[path], NOW))).encode()


def assert_answers(answer: WebhookResponse) -> None:
    assert 200 <= answer.status < 500 or answer.status == 503, f"answered with {answer.status}"
    if answer.status >= 400:
        told = json.loads(answer.body)
        assert set(told) == {"error"}
        assert {"code", "message"} <= set(told["error"]) <= {"code", "message", "field"}
        assert len(answer.body) < 1_000


def assert_fits(one: Any) -> None:
    """Whatever came through can be stored."""
    if isinstance(one, Turn):
        assert Turn.model_validate_json(one.model_dump_json(by_alias=True)) == one
        json.dumps(one.to_json(), ensure_ascii=False).encode()
        return
    channels.assert_fits(one)


def at_once(doing: Coroutine[Any, Any, T]) -> T:
    """The outcome of what never has to wait, without a loop for each of a million."""
    try:
        doing.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    doing.close()
    raise AssertionError("it waited for something")
