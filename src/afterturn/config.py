"""Settings: read once, frozen, every one of them an environment variable with the prefix ``AFTERTURN_``."""

from __future__ import annotations

import ipaddress
import re
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from afterturn.clock import parse_duration
from afterturn.errors import ConfigError
from afterturn.model import Emitter, invalid


def _read_duration(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


def _longer_than_nothing(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("has to be longer than 0s")
    return value


Duration = Annotated[timedelta, BeforeValidator(_read_duration)]
Pause = Annotated[Duration, AfterValidator(_longer_than_nothing)]
"""What repeats after it rests in between."""


def _at_most_20s(value: timedelta) -> timedelta:
    if not timedelta(0) <= value <= timedelta(seconds=20):
        raise ValueError("has to be from 0s to 20s, which is the longest that SQS waits")
    return value


def _split(value: Any) -> Any:
    return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""Several words in one variable, separated by commas."""


def _are_networks(value: tuple[str, ...]) -> tuple[str, ...]:
    for place, one in enumerate(value, 1):
        try:
            network = ipaddress.ip_network(one, strict=False)
        except ValueError:
            raise ValueError(f"number {place} is no address and no network; write such as 10.0.0.0/8") from None
        if network.prefixlen == 0:
            raise ValueError(f"number {place} would trust everybody; name where your proxies stand, such as 10.0.0.0/8")
    return value


Networks = Annotated[Words, AfterValidator(_are_networks)]
"""Addresses and networks, separated by commas."""


class Profile(StrEnum):
    """``embedded``: one SQLite file. ``local``: the production path on this machine. ``aws``: in an account."""

    EMBEDDED = "embedded"
    LOCAL = "local"
    AWS = "aws"


class Lane(StrEnum):
    """Deployments that share accounts and namespaces and must never mix."""

    PROD = "prod"
    PREVIEW = "preview"
    DEV = "dev"


class Settings(BaseSettings):
    """Everything that can be set. Secrets are masked wherever settings are printed."""

    model_config = SettingsConfigDict(env_prefix="AFTERTURN_", frozen=True, extra="ignore")

    profile: Profile = Field(Profile.EMBEDDED, description="Where everything lives: embedded, local or aws.")
    db: Path = Field(Path("afterturn.db"), description="The SQLite file of the embedded profile.")
    busy_timeout: Duration = Field(timedelta(seconds=10), description="How long to wait for another process's write.")
    emitter: Emitter = Field(Emitter.WORKER, description="The name of this runtime in the events that it emits.")
    slots: int = Field(32, ge=1, le=1000, description="Runs of one consumer at a time, in one process.")
    lease: Pause = Field(timedelta(seconds=30), description="How soon another worker takes over from a dead one.")
    poll: Pause = Field(timedelta(milliseconds=500), description="How often to look for other processes' work.")
    grace: Duration = Field(timedelta(minutes=2), description="How long a reaction may be owed before it is reported.")
    sweep_every: Pause = Field(timedelta(minutes=1), description="How often `up` sweeps what is owed.")
    effects_max_age: Duration | None = Field(
        timedelta(hours=24), description="Reactions to older turns stamp, but send nothing out."
    )
    effects_for_history: bool = Field(False, description="Lift effects_max_age: reactions to old turns send out too.")
    taxonomy: Path | None = Field(None, description="A topics file of your own in place of the shipped one.")
    webhook_url: str | None = Field(None, description="Where inbound-package delivers.")
    webhook_secret: SecretStr | None = Field(None, description="Its signing secret (Standard Webhooks, whsec_…).")
    alert_url: str | None = Field(None, description="Where red alerts are delivered, besides the log.")
    alert_secret: SecretStr | None = Field(None, description="Its signing secret (Standard Webhooks, whsec_…).")
    turns_secret: SecretStr | None = Field(
        None, description="Signs the turns that other runtimes hand to the webhooks (Standard Webhooks, whsec_…)."
    )
    public_url: Annotated[str, Field(pattern=r"\Ahttps?://[^\s/?#@]+(/[^\s?#]*)?\z")] | None = Field(
        None,
        description="Where providers reach the webhooks, such as https://hooks.example.com; signatures are of it.",
        examples=["https://hooks.example.com"],
    )
    phone_region: Annotated[str, Field(pattern=r"\A[A-Z]{2}\z")] | None = Field(
        None, description="The country whose national phone numbers are completed, such as US.", examples=["US"]
    )
    twilio_account_sid: str | None = Field(None, description="The Twilio account that sends texts, AC….")
    twilio_auth_token: SecretStr | None = Field(
        None, description="Its auth token; Twilio signs what it sends to the webhooks with it."
    )
    telegram_token: SecretStr | None = Field(None, description="The token of the Telegram bot, from @BotFather.")
    telegram_secret: SecretStr | None = Field(None, description="The secret that its webhook was registered with.")
    telegram_api: Annotated[str, Field(pattern=r"\Ahttps?://[^\s?#]+\z")] = Field(
        "https://api.telegram.org", description="Another Bot API server than Telegram's own."
    )
    ses_from: str | None = Field(
        None,
        description="Who mail through SES is from, such as Homes <office@example.com>; the mailbox that was written to "
        "where nothing is said.",
    )
    graph_tenant: str | None = Field(None, description="The Microsoft tenant whose mailboxes are read and answered.")
    graph_client_id: str | None = Field(
        None, description="The application registered there, with Mail.ReadWrite and Mail.Send."
    )
    graph_client_secret: SecretStr | None = Field(None, description="Its client secret.")
    graph_client_state: SecretStr | None = Field(
        None, description="The clientState of the subscriptions there; notifications name it."
    )
    graph_mailboxes: Words = Field(
        (),
        description="The mailboxes there that are subscribed to and looked through, separated by commas; no other is "
        "read.",
    )
    graph_api: Annotated[str, Field(pattern=r"\Ahttps?://[^\s?#]+\z")] = Field(
        "https://graph.microsoft.com",
        description="Another Microsoft Graph than the world's, such as a national cloud's.",
    )
    graph_login: Annotated[str, Field(pattern=r"\Ahttps?://[^\s?#]+\z")] = Field(
        "https://login.microsoftonline.com", description="The login that goes with it."
    )
    sns_topics: Words = Field((), description="The SNS topics that mail from SES comes by: ARNs, separated by commas.")
    mail_buckets: Words = Field(
        (), description="The S3 buckets that SES lays mail into, separated by commas; no other is read."
    )
    own_addresses: Words = Field(
        (), description="Mail addresses that are ours, or domains as @example.com, separated by commas."
    )
    vapi_secret: SecretStr | None = Field(None, description="The secret of Vapi's server URL.")
    retell_api_key: SecretStr | None = Field(None, description="The Retell key with the webhook badge.")
    livekit_api_key: str | None = Field(None, description="The LiveKit key that signs webhooks.")
    livekit_api_secret: SecretStr | None = Field(None, description="Its secret.")
    web_secret: SecretStr | None = Field(
        None, description="Signs what your server hands on from a chat on your page (Standard Webhooks, whsec_…)."
    )
    agent_url: Annotated[str, Field(pattern=r"\Ahttps?://[^\s/?#@]+([/?][^\s#]*)?\z")] | None = Field(
        None,
        description="Your agent, asked by a signed POST, where no app declares one.",
        examples=["https://agent.example.com/answer"],
    )
    agent_secret: SecretStr | None = Field(None, description="Signs what it is asked (Standard Webhooks, whsec_…).")
    answers_cap: int = Field(
        40, ge=1, le=200, description="So many answers of a machine a conversation gets; then people have to answer."
    )
    answers_window: Pause = Field(timedelta(hours=1), description="Within which time answers_cap counts them.")
    directory: Path | None = Field(
        None, description="The company's numbers, mailboxes, bots and people, and their properties: a TOML file."
    )
    tokens: Path = Field(Path("afterturn-tokens.toml"), description="The file of those who may call the HTTP API.")
    trusted_proxies: Networks = Field(
        (),
        description="Where proxies of yours stand, whose X-Forwarded-For tells who calls: addresses or networks, "
        "separated by commas.",
    )
    lane: Lane = Field(Lane.DEV, description="Which deployment this is; everything that it owns carries the name.")
    table: Annotated[str, Field(pattern=r"\A[a-zA-Z0-9_.-]{3,255}\z")] | None = Field(
        None, description="The DynamoDB table; afterturn-{lane} where nothing is said.", examples=["afterturn-prod"]
    )
    aws_region: str | None = Field(None, description="The AWS region, where the AWS tools' own settings do not say it.")
    aws_endpoint_url: str | None = Field(None, description="Another endpoint than AWS, such as an emulator.")
    temporal_address: str = Field("localhost:7233", description="Where Temporal is: host and port.")
    temporal_namespace: str = Field("default", description="The Temporal namespace.")
    temporal_api_key: SecretStr | None = Field(None, description="An API key of Temporal Cloud; it implies TLS.")
    long_poll: Annotated[Duration, AfterValidator(_at_most_20s)] = Field(
        timedelta(seconds=10), description="How long one receive from SQS waits for a record, at most 20s."
    )
    bridge_polls: int = Field(4, ge=1, le=64, description="Receives from the SQS main queue at a time, in one process.")
    local_folder: Path = Field(Path(".afterturn"), description="Where the local profile keeps its servers' state.")
    local_emulator: Path | None = Field(
        None, description="Where its AWS emulator is installed; in the user's cache where nothing is said."
    )
    local_aws_port: int = Field(14566, ge=1, le=65535, description="The port of the local profile's AWS emulator.")
    local_temporal_port: int = Field(17233, ge=1, le=65535, description="The port of its Temporal server.")
    local_temporal_ui_port: int = Field(18233, ge=1, le=65535, description="The port of Temporal's own web page.")
    model: str | None = Field(
        None, description="A language model judges in place of the rules, e.g. openai:gpt-4o-mini (needs [llm])."
    )

    @model_validator(mode="wrap")
    @classmethod
    def _in_our_words(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Raises ConfigError that names the variable."""
        try:
            return handler(value)
        except ValidationError as error:
            raise ConfigError(_problem(error)) from None

    @property
    def has_channels(self) -> bool:
        """Whether anything comes in by the webhooks."""
        return any(getattr(self, name) for name in CHANNELS)


CHANNELS = (
    "twilio_auth_token",
    "telegram_secret",
    "sns_topics",
    "graph_client_state",
    "vapi_secret",
    "retell_api_key",
    "livekit_api_secret",
    "web_secret",
)
"""The settings of which any opens a channel."""


def read_settings(**given: Any) -> Settings:
    """Settings from the environment, with what is given on top; raises ConfigError that names the variable."""
    return Settings(**{name: value for name, value in given.items() if value is not None})


def _problem(error: ValidationError) -> str:
    """The variable, what is wrong with its value, and one that would do: ``AFTERTURN_SLOTS has to be …``."""
    found = invalid(error)
    name = re.split(r"[.\[]", found.field)[0]
    field = Settings.model_fields.get(name)
    example = None if field is None else field.examples[0] if field.examples else as_written(field.default)
    variable = f"AFTERTURN_{name.upper()}"
    return f"{variable}: {found.problem}" + (f"; such as {variable}={example}" if example else "")


def as_written(value: object) -> str | None:
    """A value as its variable has it; none where there is none to show."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        for unit, length in (("h", 3600), ("m", 60), ("s", 1)):
            if seconds >= length and not seconds % length:
                return f"{int(seconds // length)}{unit}"
        return f"{int(seconds * 1000)}ms"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | Path) else None
