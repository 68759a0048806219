"""What every profile makes of the settings in the same way."""

from __future__ import annotations

from afterturn.config import Settings
from afterturn.reactions.run import EffectsPolicy


def policy_of(settings: Settings) -> EffectsPolicy:
    """When reactions keep quiet."""
    return EffectsPolicy(effects_max_age=None if settings.effects_for_history else settings.effects_max_age)
