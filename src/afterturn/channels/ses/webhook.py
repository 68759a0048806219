"""The webhook of Amazon SES, which SNS calls: inbound mail and the delivery status of ours.

https://docs.aws.amazon.com/ses/latest/dg/receiving-email-notifications-contents.html and
https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html. A mail comes with the
notification, as text or as base64, or lies in S3: then :func:`parse` requests it.

Mail that SES takes for spam or a virus is stored and gets no automatic reply: a filter's error must not lose mail.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime

from afterturn.channels.email.addresses import normalise_address
from afterturn.channels.email.message import MailReceipt, read_mail, received_time
from afterturn.channels.http_client import open_http
from afterturn.channels.provider import ProviderConnection, ProviderContext, SenderBinding
from afterturn.channels.sanitize import clean_label, clean_line, clean_string, get_path, json_object
from afterturn.channels.ses import SesSettings
from afterturn.channels.ses.fetch import VERDICTS, S3MailFetcher, open_s3, suppress_reason
from afterturn.channels.ses.send import SesSender, open_ses
from afterturn.channels.ses.sns import TIMEOUTS, SigningCertificates, SnsClient, open_envelope, verify
from afterturn.channels.types import (
    ChannelEvent,
    DeliveryUpdate,
    FetchRequest,
    Ignored,
    SubscriptionEvent,
    WebhookRequest,
)
from afterturn.channels.webhooks import Fetch, WebhookEndpoint
from afterturn.clock import to_text
from afterturn.model import Channel

MAX_ACCOUNTS = 50
MAX_NOTIFICATION_BYTES = 300_000
"""SNS sends no more in one call; larger mail lies in S3."""

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


def endpoints(
    settings: SesSettings, context: ProviderContext, certificates: SigningCertificates
) -> Mapping[str, WebhookEndpoint]:
    topics, own_addresses = frozenset(settings.sns_topics), context.own_addresses
    if not topics:
        return {}

    async def verify_request(request: WebhookRequest, now: datetime) -> None:
        await verify(request, topics=topics, certificates=certificates, now=now)

    return {
        "ses": WebhookEndpoint(
            verify_request,
            lambda request, now: parse(request, now=now, own_addresses=own_addresses),
            max_body=MAX_NOTIFICATION_BYTES,
        )
    }


@asynccontextmanager
async def connect(settings: SesSettings, context: ProviderContext) -> AsyncIterator[ProviderConnection]:
    if not settings.sns_topics:
        yield ProviderConnection()
        return
    access, clock = context.aws, context.clock
    async with AsyncExitStack() as stack:
        topic = SnsClient(await stack.enter_async_context(open_http(TIMEOUTS)), clock)
        fetchers: dict[str, Fetch] = {}
        if settings.mail_buckets:
            s3 = await stack.enter_async_context(open_s3(access))
            fetchers["s3"] = S3MailFetcher(
                s3, clock=clock, own_addresses=context.own_addresses, buckets=settings.mail_buckets
            ).fetch
        sender = SesSender(await stack.enter_async_context(open_ses(access)), clock=clock, sender=settings.ses_from)
        yield ProviderConnection(
            endpoints(settings, context, SigningCertificates(topic.certificate)),
            [SenderBinding(Channel.EMAIL, sender)],
            fetchers,
            {"sns": topic.confirm_subscription},
        )


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
            suppress=suppress_reason(verdicts),
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
    verdicts = {name: clean_label(get_path(receipt, f"{name}Verdict", "status")) for name in VERDICTS}
    return {name: status for name, status in verdicts.items() if status and status != "PASS"}


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
