"""Verifies requests that are signed as Standard Webhooks (https://www.standardwebhooks.com)."""

from __future__ import annotations

import hmac
from datetime import datetime, timedelta

from pydantic import SecretStr

from afterturn.channels.types import Rejected, WebhookRequest
from afterturn.clock import EPOCH
from afterturn.signing import signer

MAX_CLOCK_SKEW = timedelta(minutes=5)
"""The greatest difference between the signature's time and ours, from the specification."""

_MAX_ID = 256
_MAX_SIGNATURES = 10


class SignatureVerifier:
    """``secret``: ``whsec_…``; ``name``: its name in errors. Raises ConfigError for an invalid secret."""

    def __init__(self, secret: SecretStr, name: str) -> None:
        self._webhook = signer(secret, name)

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        """Raise Rejected unless the request was signed with the secret in the last five minutes."""
        webhook_id = request.headers.get("webhook-id", "")
        header = request.headers.get("webhook-signature", "")
        at = _time(request.headers.get("webhook-timestamp", ""))
        if not webhook_id or not header or at is None or len(webhook_id) > _MAX_ID:
            raise Rejected(401, "the headers webhook-id, webhook-timestamp and webhook-signature are required")
        if abs(now - at) > MAX_CLOCK_SKEW:
            raise Rejected(401, "the signature's time is more than five minutes off; check the clock, or sign again")
        try:
            expected = self._webhook.sign(webhook_id, at, request.body.decode())
        except UnicodeDecodeError:
            raise Rejected(400, "the body is not UTF-8") from None
        signatures = header.split(" ")[:_MAX_SIGNATURES]
        if not any(hmac.compare_digest(signature.encode(), expected.encode()) for signature in signatures):
            raise Rejected(401, "the signature is not of this body and this secret")


def _time(seconds: str) -> datetime | None:
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) <= 11):
        return None
    return EPOCH + timedelta(seconds=int(seconds))
