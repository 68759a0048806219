"""Standard Webhooks (https://www.standardwebhooks.com): secrets, and the headers of a call that is signed."""

from __future__ import annotations

from datetime import datetime

from pydantic import SecretStr
from standardwebhooks import Webhook
from standardwebhooks.webhooks import EmptyWebhookSecretError

from afterturn.errors import ConfigError


def signer(secret: SecretStr, name: str) -> Webhook:
    """``name``: what to call it. Raises ConfigError where it is none."""
    try:
        return Webhook(secret.get_secret_value())
    except (ValueError, EmptyWebhookSecretError):
        raise ConfigError(
            f"{name} secret: must be base64, with or without whsec_ before it; `openssl rand -base64 24` makes one"
        ) from None


def signed_headers(webhook: Webhook, webhook_id: str, now: datetime, body: str) -> dict[str, str]:
    """``now``: the time of this try, against which receivers check freshness."""
    return {
        "content-type": "application/json",
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": webhook.sign(webhook_id, now, body),
    }
