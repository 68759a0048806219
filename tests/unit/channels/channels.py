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
    Ignored,
    InboundMessage,
    MessageEdited,
    Rejected,
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


def assert_fits(arrival: ChannelEvent) -> None:
    """Whatever a foreigner sent, records can be made of it: ids are legal, texts short enough and encodable."""
    match arrival:
        case InboundMessage():
            ConversationMeta(
                id=arrival.thread.conversation_id,
                channel=arrival.channel,
                participants=arrival.participants,
                created_at=arrival.at,
            )
            _message(arrival.provider_id, arrival.text, arrival.at, arrival.attachments)
            for value in (arrival.party.account, arrival.party.sender, *([arrival.album] if arrival.album else [])):
                check_id(value)
            assert arrival.at == NOW
            assert arrival.sent_at is None or arrival.sent_at <= NOW
            _assert_short(arrival.extra)
        case MessageEdited():
            check_id(arrival.thread.conversation_id)
            _message(arrival.provider_id, arrival.text, arrival.at, arrival.attachments)
        case CallEvent():
            ConversationMeta(id=arrival.thread.conversation_id, channel=Channel.VOICE, participants=())
            for value in (arrival.provider_id, arrival.party.account, arrival.party.sender):
                check_id(value)
            times = [entry.at for entry in arrival.utterances]
            assert times == sorted(times)
            assert not times or times[-1] <= NOW
            assert len({entry.provider_id for entry in arrival.utterances}) == len(times)
            for entry in arrival.utterances:
                _message(entry.provider_id, entry.text, entry.at, ())
            _assert_short(arrival.extra)
        case DeliveryUpdate():
            check_id(arrival.provider_id)
            assert arrival.error is None or len(arrival.error) < 40
        case ThreadMigrated():
            check_id(arrival.source)
            check_id(arrival.target)
        case Ignored():
            assert arrival.reason.replace("-", "").isalpha()
        case _:
            raise AssertionError(f"{type(arrival).__name__} is not of these channels")


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


def _message(name: str, text: str, at: datetime, attachments: tuple[Any, ...]) -> None:
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
