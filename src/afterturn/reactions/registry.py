"""Who reacts: consumers by name, each declared once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

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


@dataclass(frozen=True, slots=True)
class ForeignWorkflow:
    """A reaction that is a Temporal workflow of its own, written in any language.

    The bridge starts it with each event as a ``signal``; its debounce, retries and effects are its own business.
    ``max_wait``: set where it stands in the ledger. Then it owes turns as any consumer does, and has to stamp what it
    has seen, by the activity ``afterturn-stamp`` on the queue ``{lane}-reactions``. Left out, afterturn promises the
    signal and no more.
    """

    name: str
    workflow: str
    signal: str
    task_queue: str
    max_wait: timedelta | None = None


class Registry:
    """The consumers of an app, in the order of their registration.

    Iterating gives those that run here. ``foreign`` ones are only signalled.
    """

    def __init__(self) -> None:
        self._consumers: dict[str, Consumer] = {}
        self._foreign: dict[str, ForeignWorkflow] = {}

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
        self._check(name)
        if attempts < 1:
            raise ConfigError(f"consumer {name!r}: attempts must be 1 or more")
        try:
            debounce = Debounce(quiet=parse_duration(str(quiet)), max_wait=parse_duration(str(max_wait)))
            limit = parse_duration(str(timeout))
        except ValueError as error:
            raise ConfigError(f"consumer {name!r}: {error}") from None
        if not limit:
            raise ConfigError(f"consumer {name!r}: timeout must be longer than {timeout}")
        _check_handler(name, handler)
        if debounce.max_wait < debounce.quiet:
            raise ConfigError(f"consumer {name!r}: max_wait {max_wait} is shorter than quiet {quiet}")
        consumer = Consumer(
            name=name, handler=handler, debounce=debounce, attempts=attempts, timeout=limit, shadow=shadow
        )
        self._consumers[name] = consumer
        return consumer

    def add_foreign(
        self, name: str, *, workflow: str, signal: str, task_queue: str, max_wait: str | None = None
    ) -> ForeignWorkflow:
        """Register a workflow of another program; raises ConfigError where the declaration makes no sense."""
        self._check(name)
        for key, value in (("workflow", workflow), ("signal", signal), ("task_queue", task_queue)):
            if not value.strip():
                raise ConfigError(f"consumer {name!r}: {key} is empty")
        try:
            wait = None if max_wait is None else parse_duration(max_wait)
        except ValueError as error:
            raise ConfigError(f"consumer {name!r}: {error}") from None
        foreign = ForeignWorkflow(name=name, workflow=workflow, signal=signal, task_queue=task_queue, max_wait=wait)
        self._foreign[name] = foreign
        return foreign

    def extend(self, others: Iterable[Consumer]) -> None:
        """Take over consumers that were declared elsewhere: those of a registry with its foreign ones."""
        for consumer in others:
            self._check_new(consumer.name)
            self._consumers[consumer.name] = consumer
        if isinstance(others, Registry):
            for foreign in others.foreign.values():
                self._check_new(foreign.name)
                self._foreign[foreign.name] = foreign

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._consumers)

    @property
    def foreign(self) -> Mapping[str, ForeignWorkflow]:
        return MappingProxyType(self._foreign)

    @property
    def signalled(self) -> tuple[str, ...]:
        """The names of all that the bridge has to signal."""
        return (*self._consumers, *self._foreign)

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

    def _check(self, name: str) -> None:
        if not _NAME.match(name):
            raise ConfigError(
                f"consumer name {name!r}: use 1 to 48 lower-case letters, digits and hyphens, a letter first"
            )
        self._check_new(name)

    def _check_new(self, name: str) -> None:
        if name in self._consumers or name in self._foreign:
            raise ConfigError(f"consumer {name!r} is declared twice")


def _check_handler(name: str, handler: Handler) -> None:
    """Refuse what would fail in every run; what cannot be told from outside is taken."""
    function = inspect.unwrap(handler)
    if inspect.isfunction(function) and not inspect.iscoroutinefunction(function):
        raise ConfigError(f"consumer {name!r}: {function.__name__} is not async; write `async def`")
    try:
        inspect.signature(handler).bind(None, None)
    except TypeError:
        raise ConfigError(f"consumer {name!r}: its function has to take two arguments, (turns, ctx)") from None
    except ValueError:
        pass  # It has no signature that could be read.
