"""Telegram: the messages of a bot."""

from __future__ import annotations

from pydantic import BaseModel, Field, SecretStr

from afterturn.channels.provider import Provider
from afterturn.setting_types import ServiceUrl


class TelegramSettings(BaseModel):
    """The bot."""

    telegram_token: SecretStr | None = Field(None, description="Token of the Telegram bot, from @BotFather.")
    telegram_secret: SecretStr | None = Field(
        None, description="Secret token that the bot's webhook was registered with."
    )
    telegram_api: ServiceUrl = Field(
        "https://api.telegram.org",
        description="Base URL of the Telegram Bot API, if you run a Bot API server of your own.",
    )


PROVIDER = Provider(
    name="telegram",
    settings=TelegramSettings,
    opened_by="telegram_secret",
    module="afterturn.channels.telegram.webhook",
)
