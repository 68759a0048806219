"""What the lane's Lambda functions have in common."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

from afterturn import telemetry
from afterturn.app import App, load_app
from afterturn.config import Profile, Settings, read_settings
from afterturn.errors import ConfigError


def function_settings() -> Settings:
    """The settings of a function: its environment. Raises ConfigError for another profile."""
    settings = read_settings()
    if settings.profile is not Profile.AWS:
        raise ConfigError(f"setting profile (AFTERTURN_PROFILE): a function's is aws, not {settings.profile.value}")
    return settings


def app_named() -> App:
    """The app that the function is to know: that of AFTERTURN_APP, or the one that ships. Raises ConfigError."""
    name = os.environ.get("AFTERTURN_APP")
    return load_app(name) if name else App()


def release() -> str | None:
    """Which afterturn is in the zip."""
    try:
        return version("afterturn")
    except PackageNotFoundError:
        return None


def set_up_logging() -> None:
    """Lambda's own handler writes the lines; without this it would take warnings and worse only."""
    telemetry.set_level(os.environ.get("AFTERTURN_LOG_LEVEL", "info"))
