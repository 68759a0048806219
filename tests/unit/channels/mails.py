"""What the tests of the mail channels share: mails made by hand, and what a record asks of an arrival."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from tests.unit.channels.channels import assert_fits

from afterturn.channels.email.message import MailReceipt, read_mail
from afterturn.channels.types import (
    InboundMessage,
)

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
