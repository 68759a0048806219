"""Who reacts: consumers by name, each declared once."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from afterturn.clock import parse_duration
from afterturn.errors import ConfigError
from afterturn.model import Stamp
from afterturn.reactions.debounce import Debounce
from afterturn.reactions.window import ReactionContext, TurnWindow

Handler = Callable[[TurnWindow, ReactionContext], Awaitable[Stamp]]

_NAME = re.compile(r"[a-z][a-z0-9-]{0,47}\Z")


@dataclass(frozen=True, slots=True)
class Consumer:
    """A named reaction with its policy.

    ``attempts``: runs before it counts as failed. ``timeout``: of one run. ``shadow``: at its first registration it
    works apart, without effects and unseen, until it is promoted.
    """

    name: str
    handler: Handler
    debounce: Debounce
    attempts: int = 5
    timeout: timedelta = timedelta(seconds=60)
    shadow: bool = False


class Registry:
    """The consumers of an app, in the order of their registration."""

    def __init__(self) -> None:
        self._consumers: dict[str, Consumer] = {}

    def add(
        self,
        name: str,
        handler: Handler,
        *,
        quiet: str = "30s",
        max_wait: str = "5m",
        attempts: int = 5,
        timeout: str = "60s",
        shadow: bool = False,
    ) -> Consumer:
        """Register a consumer; raises ConfigError where the declaration makes no sense."""
        if not _NAME.match(name):
            raise ConfigError(
                f"consumer name {name!r}: use 1 to 48 lower-case letters, digits and hyphens, a letter first"
            )
        if name in self._consumers:
            raise ConfigError(f"consumer {name!r} is declared twice")
        if attempts < 1:
            raise ConfigError(f"consumer {name!r}: attempts must be 1 or more")
        try:
            debounce = Debounce(quiet=parse_duration(quiet), max_wait=parse_duration(max_wait))
            limit = parse_duration(timeout)
        except ValueError as error:
            raise ConfigError(f"consumer {name!r}: {error}") from None
        if debounce.max_wait < debounce.quiet:
            raise ConfigError(f"consumer {name!r}: max_wait {max_wait} is shorter than quiet {quiet}")
        consumer = Consumer(
            name=name, handler=handler, debounce=debounce, attempts=attempts, timeout=limit, shadow=shadow
        )
        self._consumers[name] = consumer
        return consumer

    def extend(self, others: Iterable[Consumer]) -> None:
        """Take over consumers that were declared elsewhere."""
        for consumer in others:
            if consumer.name in self._consumers:
                raise ConfigError(f"consumer {consumer.name!r} is declared twice")
            self._consumers[consumer.name] = consumer

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._consumers)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._consumers.values())

    def __len__(self) -> int:
        return len(self._consumers)

    def __contains__(self, name: object) -> bool:
        return name in self._consumers

    def __getitem__(self, name: str) -> Consumer:
        try:
            return self._consumers[name]
        except KeyError:
            known = ", ".join(self._consumers) or "none"
            raise ConfigError(f"no consumer {name!r} is registered (registered: {known})") from None
