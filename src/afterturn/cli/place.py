"""Where a profile keeps everything, as people are told."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

from afterturn.config import Profile, Settings
from afterturn.errors import ConfigError


def place_of(settings: Settings) -> str:
    """``afterturn.db``, ``the local profile in .afterturn``, or ``lane prod``."""
    if settings.profile is Profile.EMBEDDED:
        return str(settings.db)
    if settings.profile is Profile.LOCAL:
        return f"the local profile in {settings.local_folder}"
    return f"lane {settings.lane.value}"


def export_of(settings: Settings) -> str:
    """What a shell is told, so that the next command finds the same place."""
    if settings.profile is Profile.EMBEDDED:
        return f"export AFTERTURN_DB={shlex.quote(str(settings.db))}"
    return f"export AFTERTURN_PROFILE=local AFTERTURN_LOCAL_FOLDER={shlex.quote(str(settings.local_folder))}"


def on_scratch(settings: Settings, *, db: Path | None) -> Settings:
    """The same settings on a new temporary folder, unless it was said where.

    Raises ConfigError for a profile that has no place of its own for trials.
    """
    if settings.profile is Profile.AWS:
        raise ConfigError("the demo's made-up conversations are not for an account; use --profile embedded or local")
    if db is not None if settings.profile is Profile.EMBEDDED else "local_folder" in settings.model_fields_set:
        return settings
    folder = Path(tempfile.mkdtemp(prefix="afterturn-demo-"))
    return settings.model_copy(update={"db": folder / "demo.db", "local_folder": folder})
