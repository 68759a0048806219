"""Web chat: messages that your own server signs and hands on."""

from __future__ import annotations

from pydantic import BaseModel, Field, SecretStr

from afterturn.channels.provider import Provider


class WebChatSettings(BaseModel):
    """The secret that your server signs with."""

    web_secret: SecretStr | None = Field(
        None, description="Secret that your server signs web chat messages with (Standard Webhooks, whsec_…)."
    )


PROVIDER = Provider(
    name="webchat",
    settings=WebChatSettings,
    opened_by="web_secret",
    module="afterturn.channels.webchat.webhook",
)
