"""Twilio: SMS, MMS, WhatsApp and calls."""

from __future__ import annotations

from pydantic import BaseModel, Field, SecretStr

from afterturn.channels.provider import Provider


class TwilioSettings(BaseModel):
    """The account that sends and receives."""

    twilio_account_sid: str | None = Field(None, description="Twilio account that sends messages, AC….")
    twilio_auth_token: SecretStr | None = Field(
        None, description="Auth token of the Twilio account. Twilio also signs its webhooks with it."
    )


PROVIDER = Provider(
    name="twilio",
    settings=TwilioSettings,
    opened_by="twilio_auth_token",
    module="afterturn.channels.twilio.webhook",
)
