"""The webhook of Vapi: a call's states, and the report at its end.

The transcript stands in ``artifact.messages`` or, in older reports, in ``messages``; the other of the two may be
empty. Roles are ``bot`` on the wire and ``assistant`` in the documents. ``call.status`` is the one at its beginning.
Requests that expect data (which assistant, which tool) are for the agent's own server; they are ignored here.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from afterturn.channels.provider import ProviderContext, webhooks_only
from afterturn.channels.sanitize import (
    clean_label,
    clean_lines,
    from_iso,
    from_millis,
    get_path,
    ignored_reason,
    require_json_object,
    secrets_equal,
)
from afterturn.channels.types import ChannelEvent, Ignored, Rejected, WebhookRequest
from afterturn.channels.voice import VapiSettings
from afterturn.channels.voice.calls import TranscriptEntry, call_event, entries, has_speech, parse_lines, seconds_after
from afterturn.channels.webhooks import WebhookEndpoint

_STATES = {"scheduled": "queued", "forwarding": "in-progress"}
_UNREACHED = {
    "customer-busy": "busy",
    "customer-did-not-answer": "no-answer",
    "twilio-failed-to-connect-call": "failed",
    "vonage-failed-to-connect-call": "failed",
}
_NAMES = {"ai": "agent", "assistant": "agent", "bot": "agent", "user": "user", "customer": "user"}
_TURN = re.compile(r"(?:^|(?<=\s))(?=(?:AI|Assistant|Bot|User|Customer): )")


def endpoints(settings: VapiSettings, context: ProviderContext) -> Mapping[str, WebhookEndpoint]:
    if settings.vapi_secret is None:
        return {}
    secret, region = settings.vapi_secret.get_secret_value(), context.phone_region
    return {
        "vapi": WebhookEndpoint(
            verify=lambda request, now: verify(request, secret),
            parse=lambda request, now: parse(request, now=now, region=region),
        )
    }


connect = webhooks_only(endpoints)


def verify(request: WebhookRequest, secret: str) -> None:
    """Raises Rejected unless the request carries the secret as ``x-vapi-secret``, as a bearer token, or in
    ``x-vapi-signature``, the HMAC-SHA256 of the body.

    None of them signs a time, so a replayed request is accepted; it has the same ids and changes nothing.
    """
    headers = request.headers
    scheme, _, token = headers.get("authorization", "").partition(" ")
    candidates = [
        *([(headers["x-vapi-secret"], secret)] if "x-vapi-secret" in headers else []),
        *([(token.strip(), secret)] if scheme.lower() == "bearer" else []),
    ]
    if "x-vapi-signature" in headers and secret:
        made = hmac.new(secret.encode(), request.body, hashlib.sha256).hexdigest()
        candidates.append((headers["x-vapi-signature"].removeprefix("sha256=").lower(), made))
    if not candidates:
        raise Rejected(401, "has no secret, bearer token or signature")
    if not any(secrets_equal(value, expected) for value, expected in candidates):
        raise Rejected(401, "the secret is wrong")


def parse(request: WebhookRequest, *, now: datetime, region: str | None = None) -> tuple[ChannelEvent, ...]:
    """A call, or Ignored. Raises Rejected for what is not JSON."""
    body = require_json_object(request)
    message = body.get("message")
    kind = get_path(message, "type")
    if not isinstance(message, dict) or kind not in ("end-of-call-report", "status-update"):
        return (Ignored(ignored_reason(kind)),)
    reason = clean_label(message.get("endedReason"))
    status = clean_label(message.get("status"))
    over = kind == "end-of-call-report" or status == "ended"
    begun = _started_at(message, now)
    return (
        call_event(
            call_id=get_path(message, "call", "id"),
            customer=get_path(message, "call", "customer", "number") or get_path(message, "customer", "number"),
            account=get_path(message, "call", "phoneNumber", "number") or get_path(message, "phoneNumber", "number"),
            agent=get_path(message, "call", "phoneNumberId") or get_path(message, "call", "assistantId"),
            region=region,
            at=now,
            state=_UNREACHED.get(reason, "completed") if over else _STATES.get(status, status),
            transcript=_transcript(message, begun, now) if over else [],
            started_at=begun or _timestamp(message, now),
            extra=clean_lines(
                reason=reason,
                seconds=_seconds(message.get("durationSeconds")),
                recording=message.get("recordingUrl") or get_path(message, "artifact", "recordingUrl"),
            ),
            request=request,
            is_final=kind == "end-of-call-report",
        ),
    )


def _transcript(message: Mapping[str, Any], begun: datetime | None, now: datetime) -> list[TranscriptEntry]:
    """The fullest account that there is."""
    for source in (get_path(message, "artifact", "messages"), message.get("messages")):
        transcript_entries = [_entry(entry, begun, now) for entry in entries(source)]
        if has_speech(transcript_entries):
            return transcript_entries
    for source in (get_path(message, "artifact", "messagesOpenAIFormatted"), message.get("messagesOpenAIFormatted")):
        transcript_entries = [TranscriptEntry(entry.get("role"), entry.get("content")) for entry in entries(source)]
        if has_speech(transcript_entries):
            return transcript_entries
    transcript = message.get("transcript") or get_path(message, "artifact", "transcript")
    if isinstance(transcript, str) and "\n" not in transcript.strip():
        transcript = "\n".join(_TURN.split(transcript))
    return parse_lines(transcript, _NAMES)


def _entry(entry: Mapping[str, Any], begun: datetime | None, now: datetime) -> TranscriptEntry:
    text = entry.get("message") if "message" in entry else entry.get("content")
    time = entry.get("time")
    if at := from_millis(time, now):
        return TranscriptEntry(entry.get("role"), text, at, f"t{time}")
    return TranscriptEntry(entry.get("role"), text, seconds_after(begun, entry.get("secondsFromStart")))


def _started_at(message: Mapping[str, Any], now: datetime) -> datetime | None:
    return from_iso(message.get("startedAt"), now) or from_iso(get_path(message, "call", "startedAt"), now)


def _timestamp(message: Mapping[str, Any], now: datetime) -> datetime | None:
    timestamp = message.get("timestamp")
    return from_iso(timestamp, now) or from_millis(timestamp, now)


def _seconds(value: object) -> object:
    return round(value) if isinstance(value, float) and math.isfinite(value) else value
