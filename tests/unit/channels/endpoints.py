"""The webhook endpoints of all providers, as the tests call them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from pydantic import SecretStr
from tests.unit.channels.sns_rig import TOPIC, SnsServer, certificate
from tests.unit.channels.test_turns import SECRET

from afterturn.channels.outlook import webhook as outlook
from afterturn.channels.provider import ProviderContext
from afterturn.channels.registry import PROVIDERS
from afterturn.channels.ses.sns import SigningCertificates
from afterturn.channels.webhooks import WEBHOOKS_PATH, WebhookEndpoint
from afterturn.clock import system_clock
from afterturn.config import Settings

CLIENT_STATES = ("secretClientValue", "<secretClientState>", "hush")
"""Those of the samples, which Microsoft's documentation has in two forms."""


SECRETS = Settings(
    twilio_auth_token="12345",
    telegram_secret="hush",
    telegram_token="110201543:hush",
    sns_topics=(TOPIC,),
    graph_client_state="hush",
    vapi_secret="hush",
    retell_api_key="key_1",
    livekit_api_key="key_1",
    livekit_api_secret="hush",
    web_secret=SecretStr(SECRET),
    own_addresses=("desk@homes.example", "elm@homes.example"),
    phone_region="US",
)
"""Every provider is set up."""


def endpoints_of(settings: Settings) -> dict[str, WebhookEndpoint]:
    """By path. Certificates of SNS are the tests' own."""
    context = ProviderContext(
        system_clock, cast(Any, None), cast(Any, None), aws=None, phone_region=settings.phone_region
    )
    endpoints: dict[str, WebhookEndpoint] = {}
    for provider in PROVIDERS:
        more = (SigningCertificates(SnsServer(certificate())),) if provider.name == "ses" else ()
        endpoints |= cast(
            "Mapping[str, WebhookEndpoint]", import_module(provider.module).endpoints(settings, context, *more)
        )
    if "graph" in endpoints:
        endpoints["graph"] = WebhookEndpoint(
            lambda request, now: outlook.verify(request, client_states=CLIENT_STATES),
            lambda request, now: outlook.parse(request, client_states=CLIENT_STATES),
            endpoints["graph"].response,
        )
    return {f"{WEBHOOKS_PATH}/{path}": endpoint for path, endpoint in endpoints.items()}
