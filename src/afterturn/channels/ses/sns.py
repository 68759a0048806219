"""The envelope in which Amazon SNS delivers to a webhook: its form and its signature.

https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html. A notification counts only from a topic
that we named, signed with a certificate that comes from SNS by HTTPS, and not long ago: SNS tries for an hour.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from afterturn import telemetry
from afterturn.channels.http_client import HttpClient, HttpTimeouts, failure_of, send_repeatable
from afterturn.channels.sanitize import require_json_object
from afterturn.channels.sending import Reason, TryLater, Undeliverable
from afterturn.channels.types import Rejected, SubscriptionEvent, WebhookRequest
from afterturn.clock import Clock, parse_time
from afterturn.errors import MissingExtra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

FetchUrl = Callable[[str], Awaitable[bytes]]
"""GETs a URL; any exception means that it could not be had. It must not follow redirects and has its own time limit."""

MAX_BODY_BYTES = 2 * 2**20
"""SNS carries 256 KB; escaped as JSON within JSON it may be several times that."""
MAX_AGE = timedelta(hours=1, minutes=30)
MAX_AHEAD = timedelta(minutes=15)
MAX_CERTIFICATES = 32
MAX_CERTIFICATE_BYTES = 64 * 1024

TIMEOUTS = HttpTimeouts(connect=3.0, read=5.0, total=8.0)
"""A webhook waits for it, and SNS gives up after fifteen seconds."""

_OF_SNS = re.compile(r"https://sns\.[a-z0-9-]{3,40}\.amazonaws\.com(?:\.cn)?/[\x21-\x7e]{1,4096}")
"""Checked again at the call: whatever an untrusted envelope says, no other host is called."""
_CONFIRMED = re.compile(rb"<SubscriptionArn>\s*arn:[\x21-\x7e]{1,400}?</SubscriptionArn>")

_HOST = r"https://sns\.[a-z0-9-]{3,40}\.amazonaws\.com(?:\.cn)?"
_CERTIFICATE_URL = re.compile(_HOST + r"/SimpleNotificationService-[A-Za-z0-9]{1,64}\.pem")
_SUBSCRIBE_URL = re.compile(_HOST + r"/\?Action=ConfirmSubscription&[\x21-\x7e]{1,4000}")
_SIGNED = {
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    "SubscriptionConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
}
_SIGNED["UnsubscribeConfirmation"] = _SIGNED["SubscriptionConfirmation"]


@dataclass(frozen=True, slots=True)
class SnsEnvelope:
    """``subscribe_url``: what confirms a subscription, at a host of SNS, or None."""

    kind: str
    message: str
    message_id: str
    topic: str
    subscribe_url: str | None = None


class SigningCertificates:
    """The public keys of SNS by their URL, fetched once each and kept until the certificate expires."""

    def __init__(self, fetch: FetchUrl) -> None:
        self._fetch = fetch
        self._keys: dict[str, tuple[RSAPublicKey, datetime]] = {}

    async def key(self, url: str, now: datetime) -> RSAPublicKey:
        """Raises Rejected (401 for a URL or a certificate that is none of SNS's, 503 where it can't be had now)."""
        if not _CERTIFICATE_URL.fullmatch(url):
            raise Rejected(401, "the signing certificate is not at a host of SNS")
        known = self._keys.get(url)
        if known and now < known[1]:
            return known[0]
        try:
            data = await self._fetch(url)
        except Exception as error:
            raise Rejected(503, f"the signing certificate could not be fetched ({type(error).__name__})") from error
        key, expires = _read_certificate(data, now)
        while len(self._keys) >= MAX_CERTIFICATES:
            del self._keys[next(iter(self._keys))]
        self._keys[url] = (key, expires)
        return key


class SnsClient:
    """``http``: opened with :data:`TIMEOUTS`. Raises TryLater, and Undeliverable for what is refused for good."""

    def __init__(self, http: HttpClient, clock: Clock) -> None:
        self._http = http
        self._clock = clock

    async def certificate(self, url: str) -> bytes:
        """The certificate; a :data:`~afterturn.channels.ses.sns.FetchUrl`."""
        return await self._get(url, MAX_CERTIFICATE_BYTES)

    async def confirm(self, url: str) -> None:
        """Confirm the subscription; a second time changes nothing."""
        answer = await self._get(url, MAX_CERTIFICATE_BYTES)
        if not _CONFIRMED.search(answer):
            raise TryLater("sns", Reason.UNAVAILABLE, "unreadable")

    async def confirm_subscription(self, event: SubscriptionEvent) -> None:
        """Confirm a subscription to one of our topics, also one that was ended.

        Each notification holds a URL that ends the subscription, so anybody who has read one can end it. To end it for
        good, remove its topic from the settings.
        """
        if event.action == "resubscribe":
            telemetry.log("unsubscribed", level=logging.ERROR, stage="sns", status="confirming-again")
        await self.confirm(event.reference["url"])

    async def _get(self, url: str, max_bytes: int) -> bytes:
        if not _OF_SNS.fullmatch(url):
            raise Undeliverable("sns", Reason.REFUSED, "not-a-host-of-sns")
        response = await send_repeatable(self._http, "sns", "GET", url, {"accept": "*/*"}, max_bytes=max_bytes)
        if response.status == 200 and not response.truncated:
            return response.body
        failure = failure_of("sns", response, self._clock(), repeatable=True)
        if failure is not None and response.status >= 400:
            raise failure
        if response.truncated:
            raise TryLater("sns", Reason.UNAVAILABLE, str(response.status))
        raise Undeliverable("sns", Reason.REFUSED, str(response.status))


async def verify(
    request: WebhookRequest,
    *,
    topics: Collection[str],
    certificates: SigningCertificates,
    now: datetime,
    max_age: timedelta = MAX_AGE,
) -> None:
    """Raises Rejected unless SNS sent this from one of ``topics`` (their ARNs), no longer ago than ``max_age``.

    The cheap checks come first, so that an untrusted sender makes us fetch nothing. Raises MissingExtra.
    """
    fields = _fields(request)
    kind = _text(fields, "Type")
    if kind not in _SIGNED:
        raise Rejected(400, "Type is none of SNS's")
    if _text(fields, "TopicArn") not in topics:
        raise Rejected(401, "the topic is none of ours")
    _check_age(_text(fields, "Timestamp"), now, max_age)
    signature = _signature(_text(fields, "Signature"))
    version = _text(fields, "SignatureVersion")
    if version not in {"1", "2"}:
        raise Rejected(401, "SignatureVersion is neither 1 nor 2")
    key = await certificates.key(_text(fields, "SigningCertURL"), now)
    _check_signature(key, signature, string_to_sign(fields), version)


def open_envelope(request: WebhookRequest) -> SnsEnvelope:
    """What is in a verified request. Raises Rejected (400) for what is no envelope."""
    fields = _fields(request)
    kind = _text(fields, "Type")
    if kind not in _SIGNED:
        raise Rejected(400, "Type is none of SNS's")
    url = _text(fields, "SubscribeURL")
    return SnsEnvelope(
        kind=kind,
        message=_text(fields, "Message"),
        message_id=_text(fields, "MessageId"),
        topic=_text(fields, "TopicArn"),
        subscribe_url=url if _SUBSCRIBE_URL.fullmatch(url) else None,
    )


def string_to_sign(fields: dict[str, Any]) -> bytes:
    """The names and values that SNS signs, a line each; ``Subject`` only where there is one."""
    names = _SIGNED.get(_text(fields, "Type"), ())
    lines = [f"{name}\n{fields[name]}\n" for name in names if isinstance(fields.get(name), str)]
    return "".join(lines).encode("utf-8", "surrogatepass")


def _fields(request: WebhookRequest) -> dict[str, Any]:
    if request.headers.get("x-amz-sns-rawdelivery", "").lower() == "true":
        raise Rejected(401, "raw delivery carries no signature; turn it off for this subscription")
    if len(request.body) > MAX_BODY_BYTES:
        raise Rejected(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
    return require_json_object(request)


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name, "")
    return value if isinstance(value, str) else ""


def _check_age(timestamp: str, now: datetime, max_age: timedelta) -> None:
    try:
        at = parse_time(timestamp)
    except ValueError:
        raise Rejected(401, "Timestamp is missing or not a time") from None
    if now - at > max_age:
        raise Rejected(401, "the notification is too old: a replay, or our clock is ahead")
    if at - now > MAX_AHEAD:
        raise Rejected(401, "the notification is from the future: our clock is behind")


def _signature(text: str) -> bytes:
    try:
        signature = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        signature = b""
    if not signature:
        raise Rejected(401, "there is no signature")
    return signature


def _read_certificate(data: bytes, now: datetime) -> tuple[RSAPublicKey, datetime]:
    try:
        from cryptography import x509  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("SNS needs the channels extra: pip install 'afterturn[channels]'") from None
    try:
        certificate = x509.load_pem_x509_certificate(data[:MAX_CERTIFICATE_BYTES])
        key = certificate.public_key()
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    except Exception as error:  # the library's own errors are many and not all documented
        raise Rejected(503, f"what came as the signing certificate is none ({type(error).__name__})") from error
    if not isinstance(key, RSAPublicKey) or not begins <= now.astimezone(UTC) < ends:
        raise Rejected(401, "the signing certificate is not valid now, or not for RSA")
    return key, ends


def _check_signature(key: RSAPublicKey, signature: bytes, signed: bytes, version: str) -> None:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA1, SHA256  # noqa: PLC0415

    try:
        key.verify(signature, signed, PKCS1v15(), SHA1() if version == "1" else SHA256())
    except InvalidSignature:
        raise Rejected(401, "the signature is wrong") from None
