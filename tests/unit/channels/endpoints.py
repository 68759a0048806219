"""The webhook endpoints of all providers, as the tests call them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from tests.unit.channels.sns_rig import Served, certificate

from afterturn.channels.outlook import webhook as outlook
from afterturn.channels.provider import ProviderContext
from afterturn.channels.registry import PROVIDERS
from afterturn.channels.ses.sns import SigningCertificates
from afterturn.channels.webhooks import WEBHOOKS_PATH, WebhookEndpoint
from afterturn.clock import system_clock
from afterturn.config import Settings

CLIENT_STATES = ("secretClientValue", "<secretClientState>", "hush")
"""Those of the samples, which Microsoft's documentation has in two forms."""


def endpoints_of(settings: Settings) -> dict[str, WebhookEndpoint]:
    """By path. Certificates of SNS are the tests' own."""
    context = ProviderContext(
        system_clock, cast(Any, None), cast(Any, None), aws=None, phone_region=settings.phone_region
    )
    endpoints: dict[str, WebhookEndpoint] = {}
    for provider in PROVIDERS:
        more = (SigningCertificates(Served(certificate())),) if provider.name == "ses" else ()
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
