"""Names of a lane's resources."""

from __future__ import annotations

import re
from dataclasses import dataclass

from afterturn.errors import ConfigError

LANES = ("prod", "preview", "dev")


@dataclass(frozen=True, slots=True)
class Names:
    """Names of what one lane owns: stack, table, queues, functions. Each contains the name of the lane."""

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
    def stack(self) -> str:
        """The CloudFormation stack."""
        return self.prefix

    @property
    def has_default_table(self) -> bool:
        return self.table == self.prefix


def check_names(names: Names) -> None:
    """Raise ConfigError for an unknown lane, or a table with the name of another lane."""
    if names.lane not in LANES:
        raise ConfigError(f"there is no lane {names.lane!r}: {', '.join(LANES)}")
    words = set(re.split(r"[^a-z]+", names.table.lower()))
    for other in sorted(words & set(LANES) - {names.lane}):
        raise ConfigError(
            f"table {names.table} belongs to lane {other} by its name, not to {names.lane}; nothing was changed"
        )


def dead_letters_of(queue: str) -> str:
    """``afterturn-dev-events-dlq.fifo`` for ``afterturn-dev-events.fifo``."""
    return f"{queue.removesuffix('.fifo')}-dlq.fifo"
