"""The webhook of Amazon SES, which SNS calls: inbound mail and the delivery status of ours.

https://docs.aws.amazon.com/ses/latest/dg/receiving-email-notifications-contents.html and
https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html. A mail comes with the
notification, as text or as base64, or lies in S3: then :func:`parse` requests it and :func:`parse_fetched` reads it.

Mail that SES takes for spam or a virus is stored and gets no automatic reply: a filter's error must not lose mail.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from datetime import datetime

from afterturn.channels.email.addresses import normalise_address
from afterturn.channels.email.message import MailReceipt, read_mail, received_time
from afterturn.channels.sanitize import clean_label, clean_line, clean_string, get_path, json_object
from afterturn.channels.ses.sns import open_envelope, verify
from afterturn.channels.types import (
    ChannelEvent,
    DeliveryUpdate,
    FetchRequest,
    Ignored,
    InboundMessage,
    SubscriptionEvent,
    SuppressReason,
    WebhookRequest,
)
from afterturn.clock import to_text

__all__ = ["parse", "parse_fetched", "parse_notification", "verify"]

MAX_ACCOUNTS = 50

_VERDICTS = ("spam", "virus", "spf", "dkim", "dmarc")
_RANKS = {
    "send": 10,
    "renderingfailure": 50,
    "reject": 50,
    "deliverydelay": 20,
    "delivery": 30,
    "bounce": 50,
    "complaint": 60,
}
_STATES = {
    "send": "sent",
    "renderingfailure": "failed",
    "reject": "rejected",
    "deliverydelay": "delayed",
    "delivery": "delivered",
    "bounce": "bounced",
    "complaint": "complained",
}
_SOFT_BOUNCE_RANK = 25
"""Above a delay and below a delivery: a full mailbox or an absence note, after which the mail may still get through."""


def parse(
    request: WebhookRequest, *, now: datetime, own_addresses: Collection[str] = frozenset()
) -> tuple[ChannelEvent, ...]:
    """The events of a verified request. ``own_addresses``: our addresses, or domains such as ``@example.com``.

    Raises Rejected (400) for a body that is not an envelope of SNS.
    """
    envelope = open_envelope(request)
    if envelope.kind != "Notification":
        if envelope.subscribe_url is None:
            return (Ignored("subscribe-url-not-of-sns"),)
        # Both are confirmed at the same URL: a subscription that was ended is made again while its topic is ours.
        action = "confirm" if envelope.kind == "SubscriptionConfirmation" else "resubscribe"
        return (SubscriptionEvent("sns", action, {"url": envelope.subscribe_url, "topic": clean_line(envelope.topic)}),)
    return parse_notification(envelope.message, now=now, own_addresses=own_addresses)


def parse_notification(
    text: str, *, now: datetime, own_addresses: Collection[str] = frozenset()
) -> tuple[ChannelEvent, ...]:
    """The events of the message that SES put into the envelope. Raises only MissingExtra."""
    notification = json_object(text.encode("utf-8", "surrogatepass"))
    if notification is None:
        return (Ignored("not-from-ses"),)
    kind = get_path(notification, "notificationType") or get_path(notification, "eventType")
    name = kind.lower().replace(" ", "") if isinstance(kind, str) else ""
    if name == "received":
        return (_received(notification, now, own_addresses),)
    if name in _RANKS:
        return (_delivery(notification, name, now),)
    return (Ignored("event-of-no-interest" if name else "not-from-ses"),)


def parse_fetched(
    request: FetchRequest, raw: bytes, *, now: datetime, own_addresses: Collection[str] = frozenset()
) -> InboundMessage:
    """The mail that :func:`parse` requested, as it lay in S3."""
    reference = request.reference
    verdicts = {name: reference[name] for name in _VERDICTS if name in reference}
    receipt = MailReceipt(
        at=received_time(reference.get("received_at"), now),
        accounts=tuple(reference.get("accounts", "").split()),
        own_addresses=frozenset(own_addresses),
        mail_id=reference.get("mail_id"),
        suppress=_suppress_reason(verdicts),
        extra={**verdicts, "raw": clean_line(f"s3://{reference['bucket']}/{reference['key']}")},
    )
    return read_mail(raw, receipt)


def _received(notification: object, now: datetime, own_addresses: Collection[str]) -> ChannelEvent:
    action = get_path(notification, "receipt", "action")
    mail_id = clean_line(get_path(notification, "mail", "messageId"))
    received_at = get_path(notification, "mail", "timestamp") or get_path(notification, "receipt", "timestamp")
    recipients = get_path(notification, "receipt", "recipients")
    accounts = (
        [normalise_address(clean_line(name)) for name in recipients[:MAX_ACCOUNTS]]
        if isinstance(recipients, list)
        else []
    )
    verdicts = _verdicts(get_path(notification, "receipt"))
    content = get_path(notification, "content")
    if isinstance(content, str):
        receipt = MailReceipt(
            at=received_time(received_at, now),
            accounts=tuple(account for account in accounts if account),
            own_addresses=frozenset(own_addresses),
            mail_id=mail_id or None,
            envelope_sender=clean_line(get_path(notification, "mail", "source")),
            suppress=_suppress_reason(verdicts),
            extra=verdicts,
        )
        return read_mail(_bytes(content, get_path(action, "encoding")), receipt)
    bucket, key = clean_string(get_path(action, "bucketName")), clean_string(get_path(action, "objectKey"))
    if bucket and key:
        reference = {"bucket": bucket, "key": key, "mail_id": mail_id, "accounts": " ".join(filter(None, accounts))}
        return FetchRequest("s3", {**reference, "received_at": to_text(received_time(received_at, now)), **verdicts})
    # Another action of the same rule has the mail: one without content would take its id.
    return Ignored("mail-without-content")


def _bytes(content: str, encoding: object) -> bytes:
    if isinstance(encoding, str) and encoding.lower() == "base64":
        try:
            return base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError):
            pass
    return content.encode("utf-8", "surrogatepass")


def _verdicts(receipt: object) -> dict[str, str]:
    """The verdicts other than ``PASS``."""
    verdicts = {name: clean_label(get_path(receipt, f"{name}Verdict", "status")) for name in _VERDICTS}
    return {name: status for name, status in verdicts.items() if status and status != "PASS"}


def _suppress_reason(verdicts: Mapping[str, str]) -> SuppressReason | None:
    return SuppressReason.SPAM if "FAIL" in {verdicts.get("spam"), verdicts.get("virus")} else None


def _delivery(notification: object, name: str, now: datetime) -> ChannelEvent:
    provider_id = clean_line(get_path(notification, "mail", "messageId"))
    if not provider_id:
        return Ignored("event-without-message-id")
    detail = get_path(notification, {"deliverydelay": "deliveryDelay", "renderingfailure": "failure"}.get(name, name))
    soft = name == "bounce" and clean_label(get_path(detail, "bounceType")) not in {"Permanent", "Undetermined"}
    return DeliveryUpdate(
        provider_id=provider_id,
        state="soft-bounced" if soft else _STATES[name],
        rank=_SOFT_BOUNCE_RANK if soft else _RANKS[name],
        at=received_time(get_path(detail, "timestamp") or get_path(notification, "mail", "timestamp"), now),
        error=_error(name, detail),
    )


def _error(name: str, detail: object) -> str | None:
    """The reason, from SES's fixed vocabulary: its other texts may hold addresses."""
    words = {
        "bounce": ("bounceType", "bounceSubType"),
        "complaint": ("complaintFeedbackType",),
        "deliverydelay": ("delayType",),
    }.get(name, ())
    codes = [clean_label(get_path(detail, word)) for word in words]
    recipients = get_path(detail, "bouncedRecipients")
    if isinstance(recipients, list) and recipients:
        codes.append(clean_label(get_path(recipients[0], "status")))
    return " ".join(filter(None, codes)) or None
