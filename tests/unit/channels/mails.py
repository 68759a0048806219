"""What the tests of the mail channels share: mails made by hand, and what a record asks of an arrival."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from tests.unit.channels.channels import NOW

from afterturn.channels.email.message import MailReceipt, read_mail
from afterturn.channels.types import (
    ChannelEvent,
    DeliveryUpdate,
    FetchRequest,
    Ignored,
    ImmediateResponse,
    InboundMessage,
    SubscriptionEvent,
)
from afterturn.model import Attachment, ConversationMeta, Direction, Message, Role, check_id

RECEIVED = datetime(2026, 5, 31, 8, tzinfo=UTC)
RECEIPT = MailReceipt(at=RECEIVED, accounts=("desk@homes.example",))
HEADERS = {
    "From": "Jo <jo@tenants.example>",
    "To": "desk@homes.example",
    "Subject": "Boiler",
    "Message-ID": "<m1@tenants.example>",
}


def mail(body: bytes = b"The boiler is cold.", headers: Mapping[str, str | bytes | None] | None = None) -> bytes:
    """A mail of Jo's with the headers changed as told; None takes one away."""
    lines = []
    for name, value in {**HEADERS, **(headers or {})}.items():
        if value is not None:
            lines.append(name.encode() + b": " + (value if isinstance(value, bytes) else value.encode()))
    return b"\r\n".join([*lines, b"", body])


def received(raw: bytes, receipt: MailReceipt = RECEIPT) -> InboundMessage:
    """The mail as it arrives; it has to fit records."""
    found = read_mail(raw, receipt)
    assert_fits(found)
    return found


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
            for text in (arrival.text, arrival.full_text or ""):
                assert _message(arrival, text, arrival.attachments).text == text
            for value in (arrival.party.account, arrival.party.sender, *arrival.thread.after):
                check_id(value)
            assert len(arrival.thread.after) <= 100
            assert arrival.at <= NOW
            assert arrival.sent_at is None or arrival.sent_at.tzinfo is not None
            _assert_short({**arrival.extra, "subject": arrival.thread.subject or "-"})
        case DeliveryUpdate():
            check_id(arrival.provider_id)
            assert arrival.at <= NOW
            assert arrival.error is None or len(arrival.error) <= 303
        case FetchRequest() | SubscriptionEvent():
            assert arrival.source in {"s3", "graph", "sns"}
            json.dumps(dict(arrival.reference), ensure_ascii=False).encode()
        case ImmediateResponse():
            assert arrival.status == 200
            assert arrival.body.isprintable()
            assert arrival.content_type.startswith("text/plain")
        case Ignored():
            assert arrival.reason.replace("-", "").isalpha()
        case _:
            raise AssertionError(f"{type(arrival).__name__} is not of these channels")


def _message(arrival: InboundMessage, text: str, attachments: tuple[Attachment, ...]) -> Message:
    return Message(
        id=arrival.provider_id,
        provider_id=arrival.provider_id,
        direction=Direction.INBOUND,
        role=Role.CUSTOMER,
        text=text,
        at=arrival.at,
        attachments=attachments,
    )


def _assert_short(extra: Mapping[str, str]) -> None:
    assert all(value and len(value) <= 200 and len(value.splitlines()) == 1 for value in extra.values())
    json.dumps(dict(extra), ensure_ascii=False).encode()
