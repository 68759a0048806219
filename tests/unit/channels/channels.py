"""What the tests of the channels share: the samples of providers, requests, and what a record asks of an arrival."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from afterturn.channels.types import (
    CallEvent,
    ChannelEvent,
    DeliveryUpdate,
    FetchRequest,
    Ignored,
    ImmediateResponse,
    InboundMessage,
    MessageEdited,
    Rejected,
    SubscriptionEvent,
    ThreadMigrated,
    WebhookRequest,
)
from afterturn.model import Channel, ConversationMeta, Direction, Message, Role, check_id

SAMPLES = Path(__file__).parents[3].parent / "shared" / "data" / "channels"
here = pytest.mark.skipif(not SAMPLES.exists(), reason="the samples are not at hand")
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def signed_sample(name: str) -> tuple[WebhookRequest, Mapping[str, str]]:
    """The request of a ``.meta.json`` and everything that the file says."""
    meta = json.loads(sample(f"{name}.meta.json"))
    body = sample(f"{Path(name).parent}/{meta['body_file']}") if "body_file" in meta else sample(f"{name}.json")
    headers = {key.lower(): value for key, value in meta["headers"].items()}
    return WebhookRequest(meta.get("method", "POST"), meta.get("url", "https://example.com/hook"), headers, body), meta


def request(
    body: bytes, headers: Mapping[str, str] | None = None, url: str = "https://example.com/hook"
) -> WebhookRequest:
    return WebhookRequest("POST", url, headers or {}, body)


def json_request(value: object, headers: Mapping[str, str] | None = None) -> WebhookRequest:
    return request(json.dumps(value).encode(), headers)


def form_request(**fields: str) -> WebhookRequest:
    return request(urlencode(fields).encode())


def only(arrivals: Iterable[ChannelEvent]) -> Any:
    """The one arrival; it has to fit records."""
    (arrival,) = arrivals
    assert_fits(arrival)
    return arrival


def assert_fits(event: ChannelEvent) -> None:
    """Whatever a stranger sent, records can be made of it: ids are legal, texts short enough and encodable."""
    match event:
        case InboundMessage():
            ConversationMeta(
                id=event.thread.conversation_id,
                channel=event.channel,
                participants=event.participants,
                created_at=event.at,
            )
            for text in (event.text, event.full_text or ""):
                _assert_message(event.provider_id, text, event.at, event.attachments)
            for value in (event.party.account, event.party.sender, event.album or "-", *event.thread.after):
                check_id(value)
            assert len(event.thread.after) <= 100
            if event.channel is Channel.EMAIL:  # whose dates are its servers'
                assert event.at <= NOW
                assert event.sent_at is None or event.sent_at.tzinfo is not None
            else:
                assert event.at == NOW
                assert event.sent_at is None or event.sent_at <= NOW
            _assert_short({**event.extra, "subject": event.thread.subject or "-"})
        case MessageEdited():
            check_id(event.thread.conversation_id)
            _assert_message(event.provider_id, event.text, event.at, event.attachments)
        case CallEvent():
            ConversationMeta(id=event.thread.conversation_id, channel=Channel.VOICE, participants=())
            for value in (event.provider_id, event.party.account, event.party.sender):
                check_id(value)
            times = [entry.at for entry in event.utterances]
            assert times == sorted(times)
            assert not times or times[-1] <= NOW
            assert len({entry.provider_id for entry in event.utterances}) == len(times)
            for entry in event.utterances:
                _assert_message(entry.provider_id, entry.text, entry.at, ())
            _assert_short(event.extra)
        case DeliveryUpdate():
            check_id(event.provider_id)
            assert event.at <= NOW
            assert event.error is None or len(event.error) <= 303
        case ThreadMigrated():
            check_id(event.source)
            check_id(event.target)
        case FetchRequest() | SubscriptionEvent():
            assert event.source in {"s3", "graph", "sns"}
            json.dumps(dict(event.reference), ensure_ascii=False).encode()
        case ImmediateResponse():
            assert event.status == 200
            assert event.body.isprintable()
            assert event.content_type.startswith("text/plain")
        case Ignored():
            assert event.reason.replace("-", "").isalpha()


def assert_survives(attempt: Callable[[], Iterable[ChannelEvent] | None], what: str, *statuses: int) -> None:
    """It is refused with one of the statuses, or brings nothing that does not fit records."""
    try:
        for arrival in attempt() or ():
            assert_fits(arrival)
    except Rejected as refused:
        if refused.status not in statuses:
            raise AssertionError(what) from refused
    except Exception as error:
        raise AssertionError(what) from error


def _assert_message(name: str, text: str, at: datetime, attachments: tuple[Any, ...]) -> None:
    made = Message(
        id=name,
        provider_id=name,
        direction=Direction.INBOUND,
        role=Role.CUSTOMER,
        text=text,
        at=at,
        attachments=attachments,
    )
    assert made.text == text


def _assert_short(extra: Mapping[str, str]) -> None:
    assert all(value and len(value) <= 200 and len(value.splitlines()) == 1 for value in extra.values())
    json.dumps(dict(extra), ensure_ascii=False).encode()
