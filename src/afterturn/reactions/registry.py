"""Consumers by name, each declared once, and what they receive: a window of turns and a context for effects."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Protocol

from pydantic import JsonValue

from afterturn.clock import parse_duration
from afterturn.errors import ConfigError
from afterturn.model import Conversation, Message, Stamp, StoredStamp
from afterturn.reactions.debounce import Debounce


@dataclass(frozen=True, slots=True)
class TurnWindow:
    """A conversation and its messages after the consumer's last ``through``, up to the newest settled turn.

    ``messages`` stand in thread order (time, then arrival). ``previous`` is the consumer's own last stamp, if any:
    carry forward in its data what has to be known of earlier turns. ``through`` is the turn that this run reaches.
    """

    conversation: Conversation
    messages: tuple[Message, ...]
    through: datetime
    previous: StoredStamp | None = None


class Claims(Protocol):
    """The part of the store that a context needs to do a thing once."""

    async def claim(self, name: str, key: str, value: JsonValue = None) -> JsonValue: ...

    async def claim_done(self, name: str, key: str) -> bool: ...

    async def finish_claim(self, name: str, key: str) -> None: ...


@dataclass(frozen=True, slots=True)
class ReactionContext:
    """The surroundings of one run. ``quiet``: this is history or a shadow run, so no effect may be sent out."""

    consumer: str
    conversation_id: str
    now: datetime
    attempt: int
    quiet: bool
    claims: Claims

    async def pin(self, key: str, value: JsonValue) -> JsonValue:
        """Remember ``value`` under ``key`` for ever; the first one wins, and every later call returns that one.

        What a side effect consists of is pinned before it is tried, so that a run after a crash repeats the very
        same effect and not another one.
        """
        return await self.claims.claim(self.consumer, self._scoped(key), value)

    async def once(self, key: str, effect: Callable[[str], Awaitable[None]]) -> bool:
        """Do ``effect`` behind a claim: not again once it has succeeded, and not at all in a quiet run.

        ``effect`` receives an idempotency key, the same in each try: a crash between the effect and the record of
        it repeats the call, and the receiver tells the repeat by the key. Returns whether the effect was done now.
        """
        scoped = self._scoped(key)
        if self.quiet or await self.claims.claim_done(self.consumer, scoped):
            return False
        await self.claims.claim(self.consumer, scoped)
        await effect(f"{self.consumer}:{scoped}")
        await self.claims.finish_claim(self.consumer, scoped)
        return True

    def _scoped(self, key: str) -> str:
        """Conversation and key, so that no two pairs read the same: ids may hold colons."""
        conversation_id = self.conversation_id.replace("%", "%25").replace(":", "%3A")
        return f"{conversation_id}:{key}"


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
    """Refuse a handler that would fail in every run; one that cannot be inspected is accepted."""
    function = inspect.unwrap(handler)
    if inspect.isfunction(function) and not inspect.iscoroutinefunction(function):
        raise ConfigError(f"consumer {name!r}: {function.__name__} is not async; write `async def`")
    try:
        inspect.signature(handler).bind(None, None)
    except TypeError:
        raise ConfigError(f"consumer {name!r}: its function has to take two arguments, (turns, ctx)") from None
    except ValueError:
        pass  # It has no signature that could be read.
