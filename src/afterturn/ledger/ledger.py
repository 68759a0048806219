"""The ledger: settled turns against stamps. It can name what is owed, remind of it, and replay history."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from afterturn import telemetry
from afterturn.clock import Clock
from afterturn.errors import InvalidQuery, StreamUnavailable
from afterturn.event import make_event
from afterturn.ledger.debts import Debt, DebtState, debts_of, overdue_after, remind
from afterturn.model import UNASSIGNED, Channel, Conversation, FlushMode, Origin
from afterturn.store.pagination import iterate
from afterturn.store.port import ConsumerState, Range, Store
from afterturn.stream.port import Publisher

GRACE = timedelta(minutes=2)
_READ = 500
_SWEPT = "ledger.swept"


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit. ``debts``: the reactions that are overdue or failed. ``waiting``: those that may still
    run in time. Clean: none is overdue or failed.
    """

    checked: int
    debts: tuple[Debt, ...]
    at: datetime
    waiting: tuple[Debt, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.debts

    @property
    def overdue(self) -> int:
        return sum(debt.state is DebtState.OVERDUE for debt in self.debts)

    @property
    def failed(self) -> int:
        return sum(debt.state is DebtState.FAILED for debt in self.debts)

    @property
    def owed(self) -> int:
        """Waiting, overdue and failed together."""
        return len(self.debts) + len(self.waiting)

    def counts(self) -> dict[str, Any]:
        """The result without its debts, as JSON."""
        return {
            "clean": self.clean,
            "checked": self.checked,
            "owed": self.owed,
            "waiting": len(self.waiting),
            "overdue": self.overdue,
            "failed": self.failed,
        }

    def to_json(self) -> dict[str, Any]:
        return {**self.counts(), "debts": [debt.to_json() for debt in self.debts]}


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
        """Compare every conversation of a selection with its stamps. ``progress`` is told how many were read.

        Costs one read of the selection's rows, whatever is owed.
        """
        now = self._clock()
        registrations = await self._store.registrations()
        debts: list[Debt] = []
        checked = 0
        async for conversation in iterate(self._store, (selection or Selection()).range()):
            debts += await debts_of(conversation, registrations, self._store, now, grace)
            checked += 1
            if checked % _READ == 0:
                progress(checked)
        progress(checked)
        late = tuple(debt for debt in debts if debt.state is not DebtState.WAITING)
        waiting = tuple(debt for debt in debts if debt.state is DebtState.WAITING)
        return Audit(checked=checked, debts=late, at=now, waiting=waiting)

    async def sweep(
        self,
        selection: Selection | None = None,
        *,
        grace: timedelta = GRACE,
        everything: bool = False,
        only: Collection[str] | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> tuple[Debt, ...]:
        """Put what is owed into the stream again, and return it.

        A debt is reminded of at ages that double from when it is overdue; ``everything`` reminds of all. ``only``: of
        these consumers. Failed reactions are left alone: they are retried on demand, or by the next turn.
        """
        before = await self._store.checkpoint(_SWEPT)
        audit = await self.audit(selection, grace=grace, progress=progress)
        registrations = await self._store.registrations()
        caught = []
        for debt in audit.debts:
            first = overdue_after(registrations[debt.consumer], grace)
            age_before = None if before is None else before - debt.since
            if only is not None and debt.consumer not in only:
                continue
            if debt.state is DebtState.OVERDUE and (everything or remind(debt.age, age_before, first)):
                await self._emit(debt.conversation, debt.consumer, FlushMode.IMMEDIATE)
                telemetry.debts_swept.labels(consumer=debt.consumer).inc()
                telemetry.log(
                    "debt_swept",
                    level=logging.WARNING,
                    consumer=debt.consumer,
                    conversation_id=debt.conversation.id,
                    age_s=int(debt.age.total_seconds()),
                )
                caught.append(debt)
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
        names = consumers or [n for n, one in registrations.items() if one.state is not ConsumerState.RETIRED]
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
