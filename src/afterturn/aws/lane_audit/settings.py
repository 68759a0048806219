"""The values that a process gets from its environment variables, computed without being that process. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Self, get_args
from urllib.parse import urlsplit

from pydantic import ModelWrapValidatorHandler, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from afterturn.config import PREFIX, VARIABLES, Settings
from afterturn.validation_messages import problem_of

ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS")
"""The AWS tools' own variables, which count if AFTERTURN_AWS_ENDPOINT_URL is not set."""
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")

_FIELDS = {f"{PREFIX}{field.upper()}": field for field in Settings.model_fields}

SECRET = frozenset(
    name
    for name, field in _FIELDS.items()
    if SecretStr in (annotation := Settings.model_fields[field].annotation, *get_args(annotation))
)
PRIVATE = SECRET | {"AFTERTURN_WEBHOOK_URL", "AFTERTURN_ALERT_URL"}
"""Values that are never shown: many webhook addresses contain a token."""


class _ExplicitSettings(Settings):
    """Settings from keywords alone: the environment of this process does not count."""

    @model_validator(mode="wrap")
    @classmethod
    def _in_our_words(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Keep pydantic's error, which lists every problem, where Settings raises one that names the first."""
        return handler(value)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def is_read(name: str) -> bool:
    """Whether a variable matters here: afterturn's, one that looks misspelt, and those of the AWS driver."""
    name = name.upper()
    return name.startswith("AFTERTURN") or name in (*REGIONS, *ENDPOINTS) or closest_setting(name) is not None


def closest_setting(name: str) -> str | None:
    """The setting that a misspelt name is most like."""
    return next(iter(get_close_matches(name, sorted(VARIABLES), n=1, cutoff=0.85)), None)


def evaluate(variables: Mapping[str, str]) -> tuple[Mapping[str, object], Mapping[str, str]]:
    """The value of each setting, and the problems of invalid ones, by variable. A problem never quotes the value."""
    values: dict[str, Any] = {field: variables[name] for name, field in _FIELDS.items() if name in variables}
    problems: dict[str, str] = {}
    try:
        settings = _ExplicitSettings(**values)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            if detail["loc"]:
                field = str(detail["loc"][0])
                problems[f"{PREFIX}{field.upper()}"] = problem_of(detail)
                values.pop(field, None)
        settings = _ExplicitSettings(**values)
    return {name: getattr(settings, field) for name, field in _FIELDS.items()}, problems


def default(name: str) -> object:
    return Settings.model_fields[_FIELDS[name]].default


def shown(name: str, value: str) -> str | None:
    """A value as it may be printed; None if it must not be."""
    if name in PRIVATE:
        return None
    if "://" in value:
        try:
            parts = urlsplit(value)
            value = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
        except ValueError:
            return None
    text = value if value and value == value.strip() and value.isprintable() else repr(value)
    return text if len(text) <= 100 else f"{text[:99]}…"
