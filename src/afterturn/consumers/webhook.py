"""Signed delivery after the Standard Webhooks specification (https://www.standardwebhooks.com), and where alerts go."""

from __future__ import annotations

import hashlib
import json
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import cache
from urllib.parse import urlsplit

from pydantic import JsonValue, SecretStr

from afterturn.clock import Clock, system_clock, to_text
from afterturn.consumers.maintenance import Alert, AlertSink
from afterturn.errors import ConfigError, DeliveryFailed
from afterturn.signing import signed_headers, signer
from afterturn.telemetry import alerts_raised, log

TIMEOUT_S = 15.0
CONNECT_TIMEOUT_S = 5.0

_GONE = 410


class WebhookOutcome(Enum):
    """What became of a webhook that needs no further try."""

    ACCEPTED = "accepted"
    GONE = "gone"
    """The receiver answered 410: by the specification it wants no more of these."""


@dataclass(frozen=True, slots=True)
class SignedEndpoint:
    """Where webhooks go. The address is masked in ``repr`` too, since many carry a token."""

    url: str = field(repr=False)
    secret: SecretStr
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("webhook URL: must be a full address, such as https://example.com/hooks/afterturn")
        signer(self.secret, "webhook")

    async def send(self, webhook_id: str, body: Mapping[str, JsonValue], now: datetime) -> WebhookOutcome:
        """POST the body, signed. ``now`` is the time of this attempt, against which receivers check freshness.

        Raises DeliveryFailed for anything but a 2xx or 410: no answer, a redirect, an error. A 4xx means that
        something has to be put right first, so the engine's retries run out quickly and the reaction shows as
        failed until it is retried on demand.
        """
        data = json.dumps(body, separators=(",", ":"), ensure_ascii=True)
        headers = {"user-agent": "afterturn", **signed_headers(signer(self.secret, "webhook"), webhook_id, now, data)}
        import httpx  # noqa: PLC0415 - slow to import, and most commands send nothing

        timeout = httpx.Timeout(self.timeout_s, connect=min(self.timeout_s, CONNECT_TIMEOUT_S))
        verify = _tls() if self.url.startswith("https:") else False
        try:
            # Only the status is read: nothing follows from the rest, which may come slowly, or never end.
            async with (
                httpx.AsyncClient(timeout=timeout, verify=verify, follow_redirects=False) as client,
                client.stream("POST", self.url, content=data.encode(), headers=headers) as response,
            ):
                pass
        except httpx.HTTPError as error:
            raise DeliveryFailed(f"webhook: no answer from the receiver ({type(error).__name__})") from None
        if response.is_success:
            return WebhookOutcome.ACCEPTED
        if response.status_code == _GONE:
            return WebhookOutcome.GONE
        raise DeliveryFailed(f"webhook: the receiver answered {response.status_code}")


def endpoint(url: str | None, secret: SecretStr | None, *, name: str) -> SignedEndpoint | None:
    """The endpoint of two settings; none where no address is set. Raises ConfigError that names the setting."""
    if not url:
        return None
    if secret is None:
        variable = f"AFTERTURN_{name.upper()}_SECRET"
        raise ConfigError(f"{name}_secret: is not set ({variable}), and webhooks to {name}_url have to be signed")
    try:
        return SignedEndpoint(url=url, secret=secret)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


@cache
def _tls() -> ssl.SSLContext:
    """Loading the certificates takes tens of milliseconds, so it is done once."""
    import httpx  # noqa: PLC0415 - see above

    return httpx.create_ssl_context()


async def log_alert(alert: Alert) -> None:
    """One line at level CRITICAL, and one count, for each alert."""
    alerts_raised.labels(kind=alert.kind).inc()
    log(
        "red_alert",
        level=logging.CRITICAL,
        kind=alert.kind,
        conversation_id=alert.conversation_id,
        property_id=alert.property_id,
        message_id=alert.message_id,
    )


def webhook_alert(endpoint: SignedEndpoint, clock: Clock = system_clock) -> AlertSink:
    """Logs, and delivers ``conversation.red_alert``; raises DeliveryFailed so that the reaction tries again."""

    async def deliver(alert: Alert) -> None:
        webhook_id = f"msg_{hashlib.sha256(alert.idempotency_key.encode()).hexdigest()[:32]}"
        body: dict[str, JsonValue] = {
            "type": "conversation.red_alert",
            "timestamp": to_text(alert.at),
            "data": {
                "conversationId": alert.conversation_id,
                "propertyId": alert.property_id,
                "kind": alert.kind,
                "messageId": alert.message_id,
            },
        }
        await endpoint.send(webhook_id, body, clock())
        await log_alert(alert)

    return deliver
