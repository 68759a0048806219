"""Connects Twilio: the webhooks of messages and calls, and the sender."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from afterturn.channels.http_client import open_http
from afterturn.channels.provider import ProviderConnection, ProviderContext, SenderBinding
from afterturn.channels.sanitize import public_url
from afterturn.channels.twilio import TwilioSettings, voice, webhook
from afterturn.channels.twilio.send import TwilioSender
from afterturn.channels.types import ChannelEvent
from afterturn.channels.webhooks import TWIML, WEBHOOKS_PATH, WebhookEndpoint
from afterturn.model import Channel

METHODS = frozenset({"GET", "POST"})


def endpoints(settings: TwilioSettings, context: ProviderContext) -> Mapping[str, WebhookEndpoint]:
    if settings.twilio_auth_token is None:
        return {}
    token, region = settings.twilio_auth_token.get_secret_value(), context.phone_region

    def endpoint(parse: Callable[..., Sequence[ChannelEvent]]) -> WebhookEndpoint:
        return WebhookEndpoint(
            verify=lambda request, now: webhook.verify(request, token),
            parse=lambda request, now: parse(request, now=now, region=region),
            response=TWIML,
            methods=METHODS,
        )

    return {"twilio": endpoint(webhook.parse), "twilio/voice": endpoint(voice.parse)}


@asynccontextmanager
async def connect(settings: TwilioSettings, context: ProviderContext) -> AsyncIterator[ProviderConnection]:
    if not settings.twilio_account_sid or settings.twilio_auth_token is None:
        yield ProviderConnection(endpoints(settings, context))
        return
    async with open_http() as http:
        sender = TwilioSender(
            http,
            account_sid=settings.twilio_account_sid,
            auth_token=settings.twilio_auth_token,
            clock=context.clock,
            status_callback=context.public_url and public_url(context.public_url, f"{WEBHOOKS_PATH}/twilio"),
            region=context.phone_region,
        )
        yield ProviderConnection(endpoints(settings, context), [SenderBinding(Channel.SMS, sender)])
