"""What a process would make of its variables, without being that process. Pure."""

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
"""The AWS tools' own, which win where AFTERTURN_AWS_ENDPOINT_URL is not set."""
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")

_NAMES = {f"{PREFIX}{field.upper()}": field for field in Settings.model_fields}

SECRET = frozenset(
    name
    for name, field in _NAMES.items()
    if SecretStr in (annotation := Settings.model_fields[field].annotation, *get_args(annotation))
)
PRIVATE = SECRET | {"AFTERTURN_WEBHOOK_URL", "AFTERTURN_ALERT_URL"}
"""Values that are never shown: many addresses of webhooks carry a token."""


class _Told(Settings):
    """Settings out of given values alone: what this process is set to must not show through."""

    @model_validator(mode="wrap")
    @classmethod
    def _in_our_words(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Here every problem is wanted, not the first one in a sentence."""
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


def variable(field: str) -> str:
    return f"{PREFIX}{field.upper()}"


def is_read(name: str) -> bool:
    """Whether a variable matters here: ours, what looks like ours, and what the AWS driver takes."""
    name = name.upper()
    return name.startswith("AFTERTURN") or name in (*REGIONS, *ENDPOINTS) or meant(name) is not None


def meant(name: str) -> str | None:
    """The setting that a name which is none is most like."""
    return next(iter(get_close_matches(name, sorted(VARIABLES), n=1, cutoff=0.85)), None)


def understood(given: Mapping[str, str]) -> tuple[Mapping[str, object], Mapping[str, str]]:
    """Every setting's value as a process has it, by its variable; and the problems of those that make no sense.

    A problem holds nothing of the value.
    """
    values: dict[str, Any] = {field: given[name] for name, field in _NAMES.items() if name in given}
    try:
        return _values(_Told(**values)), {}
    except ValidationError as error:
        told = error.errors(include_url=False, include_input=False)
    problems = {str(one["loc"][0]): problem_of(one) for one in told if one["loc"]}
    sound = {field: value for field, value in values.items() if field not in problems}
    return _values(_Told(**sound)), {variable(field): problem for field, problem in problems.items()}


def default(name: str) -> object:
    return Settings.model_fields[_NAMES[name]].default


def shown(name: str, value: str) -> str | None:
    """A value as it may be printed; None where it may not."""
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


def _values(settings: Settings) -> dict[str, object]:
    return {name: getattr(settings, field) for name, field in _NAMES.items()}
