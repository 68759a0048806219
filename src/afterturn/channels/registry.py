"""The providers. Adding one takes its folder and one line here; see docs/how-to/connect-channels.md."""

from __future__ import annotations

from afterturn.channels import outlook, ses, telegram, twilio, voice, webchat
from afterturn.channels.provider import Provider

PROVIDERS: tuple[Provider, ...] = (
    twilio.PROVIDER,
    telegram.PROVIDER,
    outlook.PROVIDER,
    ses.PROVIDER,
    voice.VAPI,
    voice.RETELL,
    voice.LIVEKIT,
    webchat.PROVIDER,
)
"""In this order they are asked to send what no provider's accounts claim: mail goes out through Outlook before SES."""
