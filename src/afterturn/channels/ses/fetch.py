"""Fetches mail that SES stored in S3."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from afterturn.aws.errors import code_of, is_foreign
from afterturn.aws.session import Access, open_client
from afterturn.channels.email.message import MAX_MAIL_BYTES, MailReceipt, read_mail, received_time
from afterturn.channels.sanitize import clean_line
from afterturn.channels.sending import CONFIGURATION_PAUSE, Reason, SendFailed, TryLater
from afterturn.channels.types import ChannelEvent, FetchRequest, Ignored, InboundMessage, SuppressReason
from afterturn.clock import Clock, parse_time

CALL_S = 60.0
REPLICATION_DELAY = timedelta(minutes=5)
"""SES stores a mail before it notifies us, but a replica in another region comes later."""

VERDICTS = ("spam", "virus", "spf", "dkim", "dmarc")

_MISSING = frozenset({"NoSuchKey", "404", "NoSuchVersion"})
_LOCKED_BY_CLIENT = "x-amz-key-v2"
"""SES can encrypt a mail with a KMS key before it stores it; such a mail cannot be read here."""
_PIECE = 2**18


@asynccontextmanager
async def open_s3(access: Access, session: Any = None) -> AsyncIterator[Any]:
    """A client of S3. Raises MissingExtra, StoreError."""
    async with open_client("s3", access, session) as client:
        yield client


class S3MailFetcher:
    """Fetches mail that SES stored in S3.

    ``client``: from :func:`open_s3`; ``buckets``: that may be read, None: all; ``own_addresses``: our addresses, or
    domains such as ``@example.com``.
    """

    def __init__(
        self,
        client: Any,
        *,
        clock: Clock,
        own_addresses: Collection[str] = frozenset(),
        buckets: Collection[str] | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._own_addresses = own_addresses
        self._buckets = buckets

    async def fetch(self, request: FetchRequest) -> ChannelEvent:
        """The mail; of one that is too large the beginning."""
        bucket, key = request.reference.get("bucket", ""), request.reference.get("key", "")
        if not bucket or not key:
            return Ignored("bad-reference")
        if self._buckets is not None and bucket not in self._buckets:
            # It is retried until somebody corrects the setting, so that no mail is lost.
            raise TryLater("s3", Reason.CONFIGURATION, "foreign-bucket", after=CONFIGURATION_PAUSE)
        try:
            async with asyncio.timeout(CALL_S):
                mail = await self._read(bucket, key)
        except TimeoutError:
            raise TryLater("s3", Reason.UNAVAILABLE, "TimeoutError") from None
        except Exception as error:
            if code_of(error) in _MISSING:
                return self._missing(request)
            if not is_foreign(error) and not _is_broken_off(error):
                raise
            raise _failure(error) from None
        return (
            mail
            if isinstance(mail, Ignored)
            else parse_fetched(request, mail, now=self._clock(), own_addresses=self._own_addresses)
        )

    async def _read(self, bucket: str, key: str) -> bytes | Ignored:
        response = await self._client.get_object(Bucket=bucket, Key=key)
        body, raw = response["Body"], bytearray()
        try:
            if _LOCKED_BY_CLIENT in response.get("Metadata", {}):
                return Ignored("mail-encrypted")
            # One byte more than is kept, so that it is seen to be too large.
            while len(raw) <= MAX_MAIL_BYTES and (piece := await body.read(_PIECE)):
                raw += piece
        finally:
            body.close()
        return bytes(raw[: MAX_MAIL_BYTES + 1])

    def _missing(self, request: FetchRequest) -> Ignored:
        """Raises TryLater while the mail may still arrive."""
        try:
            received = parse_time(request.reference.get("received_at", ""))
        except ValueError:
            return Ignored("mail-gone")
        if self._clock() - received < REPLICATION_DELAY:
            raise TryLater("s3", Reason.UNAVAILABLE, "NoSuchKey", after=timedelta(seconds=30))
        return Ignored("mail-gone")


def parse_fetched(
    request: FetchRequest, raw: bytes, *, now: datetime, own_addresses: Collection[str] = frozenset()
) -> InboundMessage:
    """The mail that :func:`~afterturn.channels.ses.webhook.parse` requested, as it lay in S3."""
    reference = request.reference
    verdicts = {name: reference[name] for name in VERDICTS if name in reference}
    receipt = MailReceipt(
        at=received_time(reference.get("received_at"), now),
        accounts=tuple(reference.get("accounts", "").split()),
        own_addresses=frozenset(own_addresses),
        mail_id=reference.get("mail_id"),
        suppress=suppress_reason(verdicts),
        extra={**verdicts, "raw": clean_line(f"s3://{reference['bucket']}/{reference['key']}")},
    )
    return read_mail(raw, receipt)


def suppress_reason(verdicts: Mapping[str, str]) -> SuppressReason | None:
    return SuppressReason.SPAM if "FAIL" in {verdicts.get("spam"), verdicts.get("virus")} else None


def _is_broken_off(error: Exception) -> bool:
    """The driver passes on what its own driver raises in the middle of a body."""
    return any(kind.__module__.partition(".")[0] == "aiohttp" for kind in type(error).__mro__)


def _failure(error: Exception) -> SendFailed:
    code = code_of(error)
    if code in ("SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded"):
        return TryLater("s3", Reason.THROTTLED, code)
    if code in ("InternalError", "ServiceUnavailable", "RequestTimeout", "500", "503"):
        return TryLater("s3", Reason.UNAVAILABLE, code)
    if code is not None:  # no such bucket, no permission to read or to decrypt, another region
        return TryLater("s3", Reason.CONFIGURATION, code, after=CONFIGURATION_PAUSE)
    return TryLater("s3", Reason.UNREACHABLE, type(error).__name__)
