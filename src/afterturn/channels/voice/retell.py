"""The webhook of Retell: a call began, ended, and was analysed (which repeats the transcript)."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from afterturn.channels.provider import ProviderContext, webhooks_only
from afterturn.channels.sanitize import (
    clean_label,
    clean_lines,
    from_millis,
    get_path,
    ignored_reason,
    require_json_object,
    secrets_equal,
)
from afterturn.channels.types import ChannelEvent, Ignored, Rejected, WebhookRequest
from afterturn.channels.voice import RetellSettings
from afterturn.channels.voice.calls import (
    ENDED,
    TranscriptEntry,
    call_event,
    entries,
    has_speech,
    parse_lines,
    seconds_after,
)
from afterturn.channels.webhooks import WebhookEndpoint
from afterturn.clock import EPOCH

SIGNATURE_HEADER = "x-retell-signature"
REPLAY_WINDOW = timedelta(minutes=5)

_SIGNATURE = re.compile(r"v=([0-9]{1,15}),d=([0-9a-f]{64})\Z")
_ENDED_EVENTS = ("call_ended", "call_analyzed")
_UNREACHED = {
    "dial_busy": "busy",
    "dial_no_answer": "no-answer",
    "dial_failed": "failed",
    "invalid_destination": "failed",
}
_NAMES = {"agent": "agent", "user": "user", "transfer target": "transfer_target"}


def endpoints(settings: RetellSettings, context: ProviderContext) -> Mapping[str, WebhookEndpoint]:
    if settings.retell_api_key is None:
        return {}
    key, region = settings.retell_api_key.get_secret_value(), context.phone_region
    return {
        "retell": WebhookEndpoint(
            verify=lambda request, now: verify(request, key, now=now),
            parse=lambda request, now: parse(request, now=now, region=region),
        )
    }


connect = webhooks_only(endpoints)


def verify(request: WebhookRequest, api_key: str, *, now: datetime) -> None:
    """Raises Rejected unless Retell signed this request within five minutes of now.

    The header is ``v=<milliseconds>,d=<hex>``; the second is the HMAC-SHA256, with the API key that carries the
    webhook badge, of the body and the digits of the first. As ``Retell.verify`` of their SDKs does; see
    https://docs.retellai.com/features/secure-webhook.
    """
    if SIGNATURE_HEADER not in request.headers:
        raise Rejected(401, "has no signature")
    if not (parts := _SIGNATURE.match(request.headers[SIGNATURE_HEADER])):
        raise Rejected(401, "the signature is not one of Retell")
    made = hmac.new(api_key.encode(), request.body + parts[1].encode(), hashlib.sha256).hexdigest()
    if not api_key or not secrets_equal(parts[2], made):
        raise Rejected(401, "the signature is wrong: is the key the one with the webhook badge?")
    if abs((now - EPOCH) - timedelta(milliseconds=int(parts[1]))) > REPLAY_WINDOW:
        raise Rejected(401, "the signature is older than five minutes, or the clock is wrong")


def parse(request: WebhookRequest, *, now: datetime, region: str | None = None) -> tuple[ChannelEvent, ...]:
    """A call, or Ignored. Raises Rejected for what is not JSON."""
    body = require_json_object(request)
    event, call = body.get("event"), body.get("call")
    if not isinstance(call, dict) or event not in ("call_started", *_ENDED_EVENTS):
        return (Ignored(ignored_reason(event)),)
    ours, theirs = call.get("to_number"), call.get("from_number")
    if call.get("direction") == "outbound":
        ours, theirs = theirs, ours
    reason = clean_label(call.get("disconnection_reason"))
    state = _UNREACHED.get(reason, "completed") if event in _ENDED_EVENTS else "in-progress"
    begun = from_millis(call.get("start_timestamp"), now)
    return (
        call_event(
            call_id=call.get("call_id"),
            customer=theirs,
            account=ours,
            agent=call.get("agent_id"),
            region=region,
            at=now,
            state=state,
            transcript=_transcript(call, begun) if state in ENDED else [],
            started_at=begun or from_millis(call.get("end_timestamp"), now),
            extra=clean_lines(reason=reason, seconds=_seconds(call), recording=call.get("recording_url")),
            request=request,
        ),
    )


def _transcript(call: Mapping[str, Any], begun: datetime | None) -> list[TranscriptEntry]:
    """The fullest account that there is; all of them tell the same, in the same order."""
    for source in (call.get("transcript_object"), call.get("transcript_with_tool_calls")):
        transcript_entries = [
            TranscriptEntry(entry.get("role"), entry.get("content"), _at(entry, begun)) for entry in entries(source)
        ]
        if has_speech(transcript_entries):
            return transcript_entries
    return parse_lines(call.get("transcript"), _NAMES)


def _at(entry: Mapping[str, Any], begun: datetime | None) -> datetime | None:
    words = entries(entry.get("words"))
    return seconds_after(begun, get_path(words[0], "start")) if words else None


def _seconds(call: Mapping[str, Any]) -> object:
    millis = call.get("duration_ms")
    return round(millis / 1000) if isinstance(millis, int) and 0 <= millis < 10**12 else None
