"""Voice: reports of calls from Vapi, Retell and LiveKit agents."""

from __future__ import annotations

from pydantic import BaseModel, Field, SecretStr

from afterturn.channels.provider import Provider


class VapiSettings(BaseModel):
    """How Vapi proves its reports."""

    vapi_secret: SecretStr | None = Field(None, description="Secret of Vapi's server URL.")


class RetellSettings(BaseModel):
    """How Retell proves its reports."""

    retell_api_key: SecretStr | None = Field(None, description="Retell API key with the webhook badge.")


class LiveKitSettings(BaseModel):
    """How LiveKit proves its reports."""

    livekit_api_key: str | None = Field(None, description="LiveKit API key that signs webhooks.")
    livekit_api_secret: SecretStr | None = Field(None, description="Secret of livekit_api_key.")


VAPI = Provider(name="vapi", settings=VapiSettings, opened_by="vapi_secret", module="afterturn.channels.voice.vapi")
RETELL = Provider(
    name="retell", settings=RetellSettings, opened_by="retell_api_key", module="afterturn.channels.voice.retell"
)
LIVEKIT = Provider(
    name="livekit", settings=LiveKitSettings, opened_by="livekit_api_secret", module="afterturn.channels.voice.livekit"
)
