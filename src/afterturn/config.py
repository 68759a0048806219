"""Settings: read once from environment variables with the prefix ``AFTERTURN_``, then frozen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    AfterValidator,
    Field,
    ModelWrapValidatorHandler,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from afterturn.channels.registry import PROVIDERS
from afterturn.errors import ConfigError
from afterturn.model import Emitter, invalid
from afterturn.setting_types import Duration, Networks, Pause, Words


def _at_most_20s(value: timedelta) -> timedelta:
    if not timedelta(0) <= value <= timedelta(seconds=20):
        raise ValueError("must be between 0s and 20s, the longest wait that SQS allows")
    return value


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


class AppSettings(BaseSettings):
    """The settings that belong to no single provider."""

    model_config = SettingsConfigDict(env_prefix="AFTERTURN_", frozen=True, extra="ignore")

    profile: Profile = Field(Profile.EMBEDDED, description="Deployment profile: embedded, local or aws.")
    db: Path = Field(Path("afterturn.db"), description="SQLite file of the embedded profile.")
    busy_timeout: Duration = Field(
        timedelta(seconds=10), description="Maximum time to wait for another process's write to the SQLite file."
    )
    emitter: Emitter = Field(Emitter.WORKER, description="Name of this runtime in the events that it emits.")
    slots: int = Field(32, ge=1, le=1000, description="Maximum concurrent runs of one consumer in one process.")
    lease: Pause = Field(
        timedelta(seconds=30), description="Time after which another worker takes over from a dead one."
    )
    poll: Pause = Field(
        timedelta(milliseconds=500), description="Interval at which a process checks for work from other processes."
    )
    grace: Duration = Field(
        timedelta(minutes=2),
        description="Time that a reaction may be owed before it is reported as overdue, on top of the "
        "consumer's max_wait.",
    )
    sweep_every: Pause = Field(timedelta(minutes=1), description="Interval between two sweeps of `up` and `worker`.")
    effects_max_age: Duration | None = Field(
        timedelta(hours=24), description="Reactions to turns older than this write stamps but send nothing out."
    )
    effects_for_history: bool = Field(
        False, description="Ignore effects_max_age: reactions to old turns also send out."
    )
    taxonomy: Path | None = Field(None, description="Topics file to use instead of the shipped one.")
    webhook_url: str | None = Field(None, description="URL that inbound-package delivers to.")
    webhook_secret: SecretStr | None = Field(
        None, description="Signing secret for webhook_url (Standard Webhooks, whsec_…)."
    )
    alert_url: str | None = Field(None, description="URL that red alerts are delivered to, in addition to the log.")
    alert_secret: SecretStr | None = Field(
        None, description="Signing secret for alert_url (Standard Webhooks, whsec_…)."
    )
    turns_secret: SecretStr | None = Field(
        None,
        description="Secret that other runtimes sign their turns with when they post them to /turns (Standard "
        "Webhooks, whsec_…).",
    )
    public_url: Annotated[str, Field(pattern=r"\Ahttps?://[^\s/?#@]+(/[^\s?#]*)?\z")] | None = Field(
        None,
        description="Public base URL of the webhooks, such as https://hooks.example.com. Providers sign it.",
        examples=["https://hooks.example.com"],
    )
    phone_region: Annotated[str, Field(pattern=r"\A[A-Z]{2}\z")] | None = Field(
        None, description="Country whose national phone numbers are completed, such as US.", examples=["US"]
    )
    own_addresses: Words = Field(
        (), description="The company's own mail addresses, or domains such as @example.com, separated by commas."
    )
    agent_url: Annotated[str, Field(pattern=r"\Ahttps?://[^\s/?#@]+([/?][^\s#]*)?\z")] | None = Field(
        None,
        description="URL of your agent, called with a signed POST if the app declares no responder.",
        examples=["https://agent.example.com/answer"],
    )
    agent_secret: SecretStr | None = Field(
        None, description="Signing secret for agent_url (Standard Webhooks, whsec_…)."
    )
    auto_reply_limit: int = Field(
        40,
        ge=1,
        le=200,
        description="Maximum automatic replies per conversation and window; after that, people have to answer.",
    )
    auto_reply_window: Pause = Field(
        timedelta(hours=1), description="Window in which auto_reply_limit counts automatic replies."
    )
    directory: Path | None = Field(
        None, description="TOML file with the company's numbers, mailboxes, bots and people, and the property of each."
    )
    tokens: Path = Field(Path("afterturn-tokens.toml"), description="File with the tokens of the HTTP API.")
    trusted_proxies: Networks = Field(
        (),
        description="Addresses or networks of your own proxies, separated by commas. X-Forwarded-For is read "
        "only from these.",
    )
    lane: Lane = Field(Lane.DEV, description="Lane of this deployment. Every resource of a lane carries its name.")
    table: Annotated[str, Field(pattern=r"\A[a-zA-Z0-9_.-]{3,255}\z")] | None = Field(
        None, description="DynamoDB table. Default: afterturn-{lane}.", examples=["afterturn-prod"]
    )
    aws_region: str | None = Field(None, description="AWS region. Default: the region of the AWS tools' own settings.")
    aws_endpoint_url: str | None = Field(
        None, description="AWS endpoint to use instead of AWS itself, for example an emulator."
    )
    temporal_address: str = Field("localhost:7233", description="Host and port of Temporal.")
    temporal_namespace: str = Field("default", description="Temporal namespace.")
    temporal_api_key: SecretStr | None = Field(None, description="API key of Temporal Cloud. Setting it enables TLS.")
    long_poll: Annotated[Duration, AfterValidator(_at_most_20s)] = Field(
        timedelta(seconds=10), description="Time that one receive from SQS waits for a record, at most 20s."
    )
    bridge_polls: int = Field(4, ge=1, le=64, description="Concurrent receives from the main SQS queue in one process.")
    local_folder: Path = Field(
        Path(".afterturn"), description="Folder where the local profile keeps the state of its servers."
    )
    local_emulator: Path | None = Field(
        None,
        description="Folder where the AWS emulator of the local profile is installed. Default: the user's "
        "cache folder.",
    )
    local_aws_port: int = Field(14566, ge=1, le=65535, description="Port of the local profile's AWS emulator.")
    local_temporal_port: int = Field(17233, ge=1, le=65535, description="Port of the local profile's Temporal server.")
    local_temporal_ui_port: int = Field(18233, ge=1, le=65535, description="Port of the Temporal server's web page.")
    model: str | None = Field(
        None, description="Language model that replaces the rules, such as openai:gpt-4o-mini (needs the llm extra)."
    )

    @model_validator(mode="wrap")
    @classmethod
    def _in_our_words(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Turns a validation error into a ConfigError that names the variable."""
        try:
            return handler(value)
        except ValidationError as error:
            raise ConfigError(_problem(error)) from None

    @property
    def effects_limit(self) -> timedelta | None:
        """The age of a turn from which reactions send nothing out; None for no limit."""
        return None if self.effects_for_history else self.effects_max_age

    @property
    def has_channels(self) -> bool:
        """Whether at least one channel is configured."""
        return any(getattr(self, provider.opened_by) for provider in PROVIDERS)


if TYPE_CHECKING:

    class Settings(AppSettings):
        """All settings. Secrets are masked when settings are printed."""

else:

    class Settings(*reversed([provider.settings for provider in PROVIDERS]), AppSettings):
        """All settings. Secrets are masked when settings are printed."""

        model_config = SettingsConfigDict(extra="forbid")


def read_settings(**overrides: Any) -> Settings:
    """Settings from the environment, overridden by the keywords.

    Raises:
        ConfigError: a value is invalid; the message names the variable.
    """
    return Settings(**{name: value for name, value in overrides.items() if value is not None})


def _problem(error: ValidationError) -> str:
    """The variable, what is wrong with its value, and an example of a valid one."""
    refusal = invalid(error)
    name = re.split(r"[.\[]", refusal.field)[0]
    field = Settings.model_fields.get(name)
    example = None if field is None else field.examples[0] if field.examples else as_written(field.default)
    variable = f"AFTERTURN_{name.upper()}"
    return f"{variable}: {refusal.problem}" + (f"; such as {variable}={example}" if example else "")


def as_written(value: object) -> str | None:
    """A value as it is written in its environment variable; None if it has no such form."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        for unit, length in (("h", 3600), ("m", 60), ("s", 1)):
            if seconds >= length and not seconds % length:
                return f"{int(seconds // length)}{unit}"
        return f"{int(seconds * 1000)}ms"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | Path) else None


PREFIX = "AFTERTURN_"
CHANNEL_VARIABLES = tuple(f"{PREFIX}{provider.opened_by.upper()}" for provider in PROVIDERS)
"""Those that configure a channel: one for each provider."""

VARIABLES = frozenset(f"{PREFIX}{field.upper()}" for field in Settings.model_fields) | {
    f"{PREFIX}APP",
    f"{PREFIX}LOG_LEVEL",
    f"{PREFIX}AWS_ACCOUNT",
}
"""Every variable that afterturn reads: the settings, and those of the command alone."""


def misspelt(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Variables that begin as ours and are read by nobody, each with the one that was meant; sorted.

    Compared is what follows the prefix, which alone makes short names alike. What is like none of ours is left alone:
    an app may have variables of its own.
    """
    matches: list[tuple[str, str]] = []
    for name in sorted(names):
        variable = name.upper()
        if variable.startswith(PREFIX) and variable not in VARIABLES:
            rest = variable.removeprefix(PREFIX)
            near = get_close_matches(rest, sorted(each.removeprefix(PREFIX) for each in VARIABLES), n=1, cutoff=0.75)
            matches += [(name, f"{PREFIX}{each}") for each in near]
    return tuple(matches)
