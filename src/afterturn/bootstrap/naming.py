"""What the settings' lane owns, by name."""

from __future__ import annotations

from afterturn.aws.names import Names, check_names
from afterturn.config import Settings


def names_of(settings: Settings) -> Names:
    """Raises ConfigError for a table that is another lane's by its name: turns of two lanes must never mix."""
    names = Names.of(settings.lane.value, settings.table)
    check_names(names)
    return names
