"""What runtimes of your own sign as Standard Webhooks are signed (https://www.standardwebhooks.com)."""

from __future__ import annotations

import hmac
from datetime import datetime, timedelta

from pydantic import SecretStr

from afterturn.channels.types import Rejected, WebhookRequest
from afterturn.clock import EPOCH
from afterturn.signing import signer

MAX_CLOCK_SKEW = timedelta(minutes=5)
"""How far the time of a signature may be from ours, either way, as the specification says."""

_MAX_ID = 256
_MAX_SIGNATURES = 10


class SignatureVerifier:
    """``secret``: ``whsec_…``; ``name``: what to call it. Raises ConfigError where it is none."""

    def __init__(self, secret: SecretStr, name: str) -> None:
        self._webhook = signer(secret, name)

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        """Raise Rejected where the signature is not ours, or not of these minutes."""
        webhook_id = request.headers.get("webhook-id", "")
        given = request.headers.get("webhook-signature", "")
        at = _time(request.headers.get("webhook-timestamp", ""))
        if not webhook_id or not given or at is None or len(webhook_id) > _MAX_ID:
            raise Rejected(401, "the headers webhook-id, webhook-timestamp and webhook-signature are needed")
        if abs(now - at) > MAX_CLOCK_SKEW:
            raise Rejected(401, "the signature's time is more than five minutes away; check the clock, or sign anew")
        try:
            expected = self._webhook.sign(webhook_id, at, request.body.decode())
        except UnicodeDecodeError:
            raise Rejected(400, "the body is not UTF-8") from None
        signatures = given.split(" ")[:_MAX_SIGNATURES]
        if not any(hmac.compare_digest(one.encode(), expected.encode()) for one in signatures):
            raise Rejected(401, "the signature is not of this body and this secret")


def _time(seconds: str) -> datetime | None:
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) <= 11):
        return None
    return EPOCH + timedelta(seconds=int(seconds))
