"""What everything of a lane is called, pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from afterturn.errors import ConfigError

LANES = ("prod", "preview", "dev")


@dataclass(frozen=True, slots=True)
class Names:
    """What one lane owns, by name: table, queues, functions, alarm topic. Everything carries the name of the lane."""

    lane: str
    table: str

    @classmethod
    def of(cls, lane: str, table: str | None = None) -> Names:
        return cls(lane, table or f"afterturn-{lane}")

    @property
    def prefix(self) -> str:
        return f"afterturn-{self.lane}"

    @property
    def main(self) -> str:
        return f"{self.prefix}-events.fifo"

    @property
    def retry(self) -> str:
        return f"{self.prefix}-retry.fifo"

    @property
    def main_dead(self) -> str:
        return dead_letters_of(self.main)

    @property
    def retry_dead(self) -> str:
        return dead_letters_of(self.retry)

    def function(self, part: str) -> str:
        """The Lambda function that is the lane's ``bridge`` or ``webhooks``."""
        return f"{self.prefix}-{part}"

    @property
    def topic(self) -> str:
        """Where alarms go."""
        return f"{self.prefix}-alarms"


def check_names(names: Names) -> None:
    """Raise ConfigError for a lane that is none, or a table whose name is another lane's."""
    if names.lane not in LANES:
        raise ConfigError(f"lane {names.lane!r} is none: {', '.join(LANES)}")
    words = set(re.split(r"[^a-z]+", names.table.lower()))
    for other in sorted(words & set(LANES) - {names.lane}):
        raise ConfigError(f"table {names.table} is lane {other}'s by its name, not {names.lane}'s; nothing was changed")


def dead_letters_of(queue: str) -> str:
    """``afterturn-dev-events-dlq.fifo`` for ``afterturn-dev-events.fifo``."""
    return f"{queue.removesuffix('.fifo')}-dlq.fifo"
