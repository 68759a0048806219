"""The ledger: settled turns against stamps. It can name what is owed, remind of it, and replay history."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from afterturn import telemetry
from afterturn.clock import Clock, to_text
from afterturn.errors import InvalidQuery, StreamUnavailable
from afterturn.event import make_event
from afterturn.model import UNASSIGNED, Channel, Conversation, FlushMode, Origin
from afterturn.reactions.state import ReactionState, reaction_states
from afterturn.store.pagination import iterate
from afterturn.store.port import ConsumerState, Range, Registration, Store, StoreReader
from afterturn.stream.port import Publisher


class OwedState(StrEnum):
    """``waiting``: the debounce may still run. ``overdue``: it should have run. ``failed``: its attempts are used up.

    A reaction in any of these states is owed.
    """

    WAITING = "waiting"
    OVERDUE = "overdue"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class OwedReaction:
    """A consumer has not seen a conversation's newest turns.

    ``since``: when the store recorded the first turn that it has not seen. ``age`` is counted from there, so that
    imported history is not overdue the moment it arrives, and a busy conversation cannot hide a consumer that is dead.
    For history that was asked for by a replay: since the request.
    """

    conversation: Conversation
    consumer: str
    state: OwedState
    since: datetime
    age: timedelta

    def to_json(self) -> dict[str, Any]:
        settled_at = self.conversation.settled_at
        return {
            "conversationId": self.conversation.id,
            "consumer": self.consumer,
            "state": self.state.value,
            "settledAt": None if settled_at is None else to_text(settled_at),
            "owedSince": to_text(self.since),
            "ageSeconds": int(self.age.total_seconds()),
        }


async def owed_reactions(
    conversation: Conversation,
    registrations: Mapping[str, Registration],
    store: StoreReader,
    now: datetime,
    grace: timedelta,
) -> list[OwedReaction]:
    """Every reaction that is owed to a conversation."""
    reactions = []
    for name, state in reaction_states(conversation, registrations).items():
        if state is ReactionState.FRESH:
            continue
        registration = registrations[name]
        since = await _owed_since(conversation, name, registration, store)
        age = max(now - since, timedelta(0))
        reactions.append(OwedReaction(conversation, name, owed_state(state, age, registration, grace), since, age))
    return reactions


def owed_state(state: ReactionState, age: timedelta, registration: Registration, grace: timedelta) -> OwedState:
    """The state of a reaction that is owed for ``age``.

    A consumer's own ``max_wait`` is added to the grace period: waiting that long is its debounce at work.
    """
    if state is ReactionState.FAILED:
        return OwedState.FAILED
    return OwedState.OVERDUE if age >= overdue_after(registration, grace) else OwedState.WAITING


def overdue_after(registration: Registration, grace: timedelta) -> timedelta:
    """The age from which an owed reaction is overdue; without a grace period each is."""
    return grace + registration.max_wait if grace else timedelta(0)


def remind(age: timedelta, age_before: timedelta | None, first: timedelta) -> bool:
    """Whether a sweep re-emits an owed reaction: at ages that double from ``first``, so an old one costs little.

    ``age_before``: the reaction's age at the sweep before this one (None if there was none, or it was not owed yet).
    """
    if age < first:
        return False
    if age_before is None or age_before < first or not first:
        return True
    return doublings(age, first) > doublings(age_before, first)


def doublings(age: timedelta, first: timedelta) -> int:
    """How often ``first`` doubles before it exceeds ``age``."""
    return (age // first).bit_length() - 1


async def _owed_since(
    conversation: Conversation, consumer: str, registration: Registration, store: StoreReader
) -> datetime:
    stamp = conversation.reactions.get(consumer)
    if stamp is not None and stamp.through is None and stamp.at is not None:
        return stamp.at
    after = None if stamp is None else stamp.through
    while turns := await store.turns(conversation.id, after=after, limit=100):
        for turn in turns:
            if stamp is not None or turn.recorded_at >= registration.registered_at:
                return turn.recorded_at
        after = turns[-1].occurred_at
    return conversation.recorded_at or registration.registered_at


GRACE = timedelta(minutes=2)
_READ = 500
_SWEPT = "ledger.swept"


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit. ``reactions``: those that are overdue or failed. ``waiting``: those that may still run
    in time. Clean: none is overdue or failed.
    """

    checked: int
    reactions: tuple[OwedReaction, ...]
    at: datetime
    waiting: tuple[OwedReaction, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.reactions

    @property
    def overdue(self) -> int:
        return sum(reaction.state is OwedState.OVERDUE for reaction in self.reactions)

    @property
    def failed(self) -> int:
        return sum(reaction.state is OwedState.FAILED for reaction in self.reactions)

    @property
    def owed(self) -> int:
        """Waiting, overdue and failed together."""
        return len(self.reactions) + len(self.waiting)

    def counts(self) -> dict[str, Any]:
        """The result without its reactions, as JSON."""
        return {
            "clean": self.clean,
            "checked": self.checked,
            "owed": self.owed,
            "waiting": len(self.waiting),
            "overdue": self.overdue,
            "failed": self.failed,
        }

    def to_json(self) -> dict[str, Any]:
        return {**self.counts(), "reactions": [reaction.to_json() for reaction in self.reactions]}


@dataclass(frozen=True, slots=True)
class Selection:
    """Which part of history: ``since <= recency < until``, of one property (or UNASSIGNED) or of all."""

    since: datetime | None = None
    until: datetime | None = None
    property_id: str | None = None

    def range(self) -> Range:
        return Range(
            since=self.since,
            until=self.until,
            of_property=self.property_id is not None,
            property_id=None if self.property_id == UNASSIGNED else self.property_id,
        )


class Ledger:
    """Reads the recency index, newest first, and writes nothing but requests and events."""

    def __init__(self, store: Store, stream: Publisher, clock: Clock, emitter: str) -> None:
        self._store = store
        self._stream = stream
        self._clock = clock
        self._emitter = emitter

    async def audit(
        self,
        selection: Selection | None = None,
        *,
        grace: timedelta = GRACE,
        progress: Callable[[int], None] = lambda _: None,
    ) -> Audit:
        """Compare every conversation of a selection with its stamps. ``progress`` receives how many were read.

        Costs one read of the selection's rows, whatever is owed.
        """
        now = self._clock()
        registrations = await self._store.registrations()
        reactions: list[OwedReaction] = []
        checked = 0
        async for conversation in iterate(self._store, (selection or Selection()).range()):
            reactions += await owed_reactions(conversation, registrations, self._store, now, grace)
            checked += 1
            if checked % _READ == 0:
                progress(checked)
        progress(checked)
        late = tuple(reaction for reaction in reactions if reaction.state is not OwedState.WAITING)
        waiting = tuple(reaction for reaction in reactions if reaction.state is OwedState.WAITING)
        return Audit(checked=checked, reactions=late, at=now, waiting=waiting)

    async def sweep(
        self,
        selection: Selection | None = None,
        *,
        grace: timedelta = GRACE,
        everything: bool = False,
        only: Collection[str] | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> tuple[OwedReaction, ...]:
        """Put what is owed into the stream again, and return it.

        It is re-emitted at ages that double from when it is overdue; ``everything`` re-emits all. ``only``: of these
        consumers. Failed reactions are left alone: they are retried on demand, or by the next turn.
        """
        before = await self._store.checkpoint(_SWEPT)
        audit = await self.audit(selection, grace=grace, progress=progress)
        registrations = await self._store.registrations()
        caught = []
        for reaction in audit.reactions:
            first = overdue_after(registrations[reaction.consumer], grace)
            age_before = None if before is None else before - reaction.since
            if only is not None and reaction.consumer not in only:
                continue
            if reaction.state is OwedState.OVERDUE and (everything or remind(reaction.age, age_before, first)):
                await self._emit(reaction.conversation, reaction.consumer, FlushMode.IMMEDIATE)
                telemetry.reactions_reemitted.labels(consumer=reaction.consumer).inc()
                telemetry.log(
                    "reaction_reemitted",
                    level=logging.WARNING,
                    consumer=reaction.consumer,
                    conversation_id=reaction.conversation.id,
                    age_s=int(reaction.age.total_seconds()),
                )
                caught.append(reaction)
        if selection is None and only is None:
            await self._store.save_checkpoint(_SWEPT, audit.at)
        return tuple(caught)

    async def replay(
        self,
        selection: Selection | None = None,
        *,
        consumers: Sequence[str] = (),
        rate: float | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Ask consumers (all that are not retired, where none is named) for a part of history.

        Each conversation that a consumer has not seen to its end is owed from now on, and put into the stream.
        ``rate``: at most so many events a second. Killed half-way, what was asked for is owed and swept, and running
        it again goes on. Returns how many events were emitted. Raises InvalidQuery for an unknown consumer.
        """
        registrations = await self._store.registrations()
        for name in consumers:
            if name not in registrations:
                raise InvalidQuery(f"no consumer {name!r} is registered (registered: {', '.join(registrations)})")
        names = consumers or [n for n, known in registrations.items() if known.state is not ConsumerState.RETIRED]
        emitted = 0
        loop = asyncio.get_running_loop()
        began = loop.time()
        async for conversation in iterate(self._store, (selection or Selection()).range()):
            behind = [name for name in names if _is_behind(conversation, name)]
            if behind:
                await self._store.request(conversation.id, behind, now=self._clock())
            for name in behind:
                await self._emit(conversation, name, FlushMode.DEBOUNCED)
                emitted += 1
                progress(emitted)
                if rate is not None:
                    await asyncio.sleep(max(0.0, emitted / rate - (loop.time() - began)))
        return emitted

    async def _emit(self, conversation: Conversation, consumer: str, flush_mode: FlushMode) -> None:
        assert conversation.settled_at is not None
        event = make_event(
            conversation_id=conversation.id,
            property_id=conversation.property_id,
            origin=Origin.VOICE if conversation.channel is Channel.VOICE else Origin.TEXT,
            channel=conversation.channel,
            emitter=self._emitter,
            occurred_at=conversation.settled_at,
            flush_mode=flush_mode,
        )
        emission = uuid.uuid4().hex
        try:
            await self._stream.publish(event, consumer=consumer, emission=emission)
        except StreamUnavailable:
            await self._stream.publish(event, consumer=consumer, emission=emission)


def _is_behind(conversation: Conversation, consumer: str) -> bool:
    if conversation.settled_at is None:
        return False
    stamp = conversation.reactions.get(consumer)
    return stamp is None or stamp.through is None or stamp.through < conversation.settled_at
