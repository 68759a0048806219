"""Twilio's webhook for calls: their states, and transcripts of voicemail. Signed like messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from afterturn.channels.sanitize import clean_label, clean_lines, from_mail_date
from afterturn.channels.twilio.webhook import fields
from afterturn.channels.types import ChannelEvent, Ignored, WebhookRequest
from afterturn.channels.voice.calls import TranscriptEntry, call_event


def parse(request: WebhookRequest, *, now: datetime, region: str | None = None) -> tuple[ChannelEvent, ...]:
    """A call, or Ignored. ``region``: see :func:`afterturn.ids.normalise`."""
    form = fields(request)
    if not form.get("CallSid"):
        return (Ignored("message" if "MessageSid" in form or "SmsSid" in form else "unknown-kind"),)
    text = form.get("TranscriptionText", "")
    state = "completed" if text else (form.get("CallStatus") or form.get("DialCallStatus") or "").lower()
    if not state:
        return (Ignored("call-detail"),)
    key = clean_label(form.get("TranscriptionSid")) or "tape"
    ours, theirs = form.get("To", ""), form.get("From", "")
    if form.get("Direction", "").startswith("outbound"):
        ours, theirs = theirs, ours
    return (
        call_event(
            call_id=form["CallSid"],
            customer=theirs,
            account=ours,
            region=region,
            at=now,
            state=state,
            transcript=[TranscriptEntry("customer", text, key=key)] if text else [],
            started_at=from_mail_date(form.get("Timestamp"), now),
            extra=_facts(form),
            request=request,
        ),
    )


def _facts(form: Mapping[str, str]) -> dict[str, str]:
    """``CallDuration`` is in seconds; ``Duration`` is in billed minutes."""
    seconds = form.get("CallDuration", "")
    return clean_lines(
        seconds=seconds if seconds.isdecimal() else "",
        recording=form.get("RecordingUrl"),
        reason=clean_label(form.get("SipResponseCode")),
    )
