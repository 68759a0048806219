"""Where red alerts go: the log always, and a signed webhook where one is set."""

from __future__ import annotations

import hashlib
import logging

from pydantic import JsonValue

from afterturn.clock import Clock, system_clock, to_text
from afterturn.consumers.maintenance import Alert, AlertSink
from afterturn.consumers.webhook import SignedEndpoint
from afterturn.telemetry import alerts_raised, log


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
