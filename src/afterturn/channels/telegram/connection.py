"""Connects a Telegram bot: its webhook and the sender."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from afterturn.channels.http_client import open_http
from afterturn.channels.provider import ProviderConnection, ProviderContext, SenderBinding
from afterturn.channels.telegram import TelegramSettings, webhook
from afterturn.channels.telegram.send import TelegramSender
from afterturn.channels.webhooks import WebhookEndpoint
from afterturn.model import Channel


def endpoints(settings: TelegramSettings, context: ProviderContext) -> Mapping[str, WebhookEndpoint]:
    if settings.telegram_secret is None:
        return {}
    secret = settings.telegram_secret.get_secret_value()
    # A token begins with the bot's id.
    bot = "bot" if settings.telegram_token is None else settings.telegram_token.get_secret_value().partition(":")[0]
    return {
        "telegram": WebhookEndpoint(
            verify=lambda request, now: webhook.verify(request, secret),
            parse=lambda request, now: webhook.parse(request, now=now, bot=bot),
        )
    }


@asynccontextmanager
async def connect(settings: TelegramSettings, context: ProviderContext) -> AsyncIterator[ProviderConnection]:
    if settings.telegram_token is None:
        yield ProviderConnection(endpoints(settings, context))
        return
    async with open_http() as http:
        sender = TelegramSender(http, token=settings.telegram_token, clock=context.clock, api=settings.telegram_api)
        yield ProviderConnection(endpoints(settings, context), [SenderBinding(Channel.TELEGRAM, sender)])
