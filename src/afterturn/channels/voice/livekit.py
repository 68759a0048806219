"""The webhook of LiveKit: a room's events, and the agent's report at the end of a call.

A room's events do not contain what was said, so they are ignored. The report is sent by the agent's own
process: ``{"data": {"room_name", "from_number", "to_number", "started_at", "ended_at", "transcripts": [{"speaker",
"text", "timestamp"}]}}``. Both are signed like a room's events, so an agent signs with LiveKit's own library.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from afterturn.channels.provider import ProviderContext, webhooks_only
from afterturn.channels.sanitize import (
    clean_lines,
    from_iso,
    get_path,
    ignored_reason,
    require_json_object,
    secrets_equal,
)
from afterturn.channels.types import ChannelEvent, Ignored, Rejected, WebhookRequest
from afterturn.channels.voice import LiveKitSettings
from afterturn.channels.voice.calls import TranscriptEntry, call_event, entries
from afterturn.channels.webhooks import WebhookEndpoint
from afterturn.clock import EPOCH

CLOCK_SKEW = timedelta(minutes=1)


def endpoints(settings: LiveKitSettings, context: ProviderContext) -> Mapping[str, WebhookEndpoint]:
    key, region = settings.livekit_api_key, context.phone_region
    if not key or settings.livekit_api_secret is None:
        return {}
    secret = settings.livekit_api_secret.get_secret_value()
    return {
        "livekit": WebhookEndpoint(
            verify=lambda request, now: verify(request, key, secret, now=now),
            parse=lambda request, now: parse(request, now=now, region=region),
        )
    }


connect = webhooks_only(endpoints)


def verify(request: WebhookRequest, api_key: str, api_secret: str, *, now: datetime) -> None:
    """Raises Rejected unless the token in ``authorization`` is of this key, in force, and made for this very body.

    The token is a JWT (HS256) whose claim ``sha256`` is the body's digest in base64, as LiveKit's ``WebhookReceiver``
    checks it. It has no id of its own: one that is sent again before it expires is good, and changes nothing.
    """
    token = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    if not token:
        raise Rejected(401, "has no token")
    head, claims = _checked(token, api_secret)
    if head.get("alg") != "HS256" or not api_key or claims.get("iss") != api_key:
        raise Rejected(401, "the token is of another key")
    expires, begins = claims.get("exp"), claims.get("nbf", 0)
    seconds = (now - EPOCH).total_seconds()
    skew = CLOCK_SKEW.total_seconds()
    if not isinstance(expires, int | float) or not isinstance(begins, int | float):
        raise Rejected(401, "the token does not say how long it is in force")
    if not begins - skew <= seconds < expires + skew:
        raise Rejected(401, "the token is not in force, or the clock is wrong")
    body_hash = claims.get("sha256")
    made = base64.b64encode(hashlib.sha256(request.body).digest()).decode()
    if not isinstance(body_hash, str) or not secrets_equal(body_hash, made):
        raise Rejected(401, "the body is not the one that was signed")


def parse(request: WebhookRequest, *, now: datetime, region: str | None = None) -> tuple[ChannelEvent, ...]:
    """A call, or Ignored. Raises Rejected for what is not JSON."""
    body = require_json_object(request)
    report, event = body.get("data"), body.get("event")
    if event is not None or not isinstance(report, dict) or not isinstance(report.get("room_name"), str):
        return (Ignored(ignored_reason(event)),)
    transcript = [
        TranscriptEntry(entry.get("speaker"), entry.get("text"), from_iso(entry.get("timestamp"), now))
        for entry in entries(report.get("transcripts"))
    ]
    return (
        call_event(
            call_id=report["room_name"],
            customer=report.get("from_number"),
            account=report.get("to_number"),
            agent=report.get("assistant_id"),
            region=region,
            at=now,
            state="completed",
            transcript=transcript,
            started_at=from_iso(report.get("started_at"), now),
            extra=clean_lines(recording=get_path(report, "recording_path")),
            request=request,
        ),
    )


def _checked(token: str, secret: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Head and claims of a token whose signature is good."""
    signed, _, signature = token.rpartition(".")
    made = hmac.new(secret.encode(), signed.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()
    if not secret or not secrets_equal(signature, base64.urlsafe_b64encode(made).rstrip(b"=").decode()):
        raise Rejected(401, "the token's signature is wrong")
    try:
        head, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in signed.split("."))
    except (ValueError, RecursionError):
        raise Rejected(401, "the token cannot be read") from None
    if not isinstance(head, dict) or not isinstance(claims, dict):
        raise Rejected(401, "the token cannot be read")
    return head, claims
