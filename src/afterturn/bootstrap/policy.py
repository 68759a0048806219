"""What every profile makes of the settings in the same way."""

from __future__ import annotations

from afterturn.config import Settings
from afterturn.reactions.run import Policy


def policy_of(settings: Settings) -> Policy:
    """When reactions keep quiet."""
    return Policy(effects_max_age=None if settings.effects_for_history else settings.effects_max_age)
