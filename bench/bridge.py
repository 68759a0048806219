"""Signals a second of the bridge against a bare Temporal client, and what bursts cost, on a real development server.

The subject is what a batch costs from the record to Temporal's answer: reading, merging, signalling every consumer. As
many batches are handled at once as the long-poll bridge has receives under way. The baseline makes the same
signalWithStart calls, whose payloads are there beforehand, by a client of ``temporalio`` with as many under way as the
signaler allows itself. Both go to workflows of the same kind; nobody works on them, so all that is timed is
signalling. First every workflow is new, then each is signalled again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from temporalio.client import Client

from afterturn.bridge.bridge import Bridge
from afterturn.clock import system_clock
from afterturn.config import Settings
from afterturn.event import TurnSettled, make_event
from afterturn.model import Channel, FlushMode, Origin
from afterturn.reactions.temporal.engine import Address, Connection, TemporalSignaler
from afterturn.sqlite.database import Database
from afterturn.stream.port import Delivery, Queue, Receipt
from afterturn.stream.sqlite import SqliteStream
from bench import bursts, files, servers, signals
from bench.measure import Report, Stopwatch, Took, figure, ratio

PARALLEL = 32
NEW, EXISTING = "new workflows", "existing workflows"
AGAIN = 2
"""Signals that an existing workflow gets in a round."""


@dataclass(slots=True)
class _Side:
    """What the signals of each round took."""

    took: dict[str, list[Took]] = field(default_factory=lambda: {NEW: [], EXISTING: []})

    def rates(self, kind: str) -> list[float]:
        return [one.rate for one in self.took[kind]]


def run(*, rounds: int = 7, conversations: int = 40, folder: Path | None = None) -> Report:
    with files.scratch(folder) as place, servers.temporal_server(place) as target:
        return asyncio.run(_run(place, target, rounds, conversations))


async def _run(place: Path, target: str, rounds: int, conversations: int) -> Report:
    ours, theirs = _Side(), _Side()
    client = await Client.connect(target)
    registry = signals.registry_of(signals.CONSUMERS, quiet="1h", max_wait="1h")
    polls = Settings().bridge_polls
    with closing(Database.open(files.fresh(place, "bridge"))) as database:
        # Nothing fails here, so nothing is parked, buried or given back: the stream is there and is not asked.
        stream = SqliteStream(database, system_clock)
        signaler = TemporalSignaler(
            Connection(Address(target=target)), registry, lane="ours", lease=signals.LEASE, parallel=PARALLEL
        )
        bridge = Bridge(stream, signaler, registry.signalled, visibility=signals.LEASE)
        await signaler.ready()
        for number in range(rounds + 1):
            for kind, times in ((NEW, 1), (EXISTING, AGAIN)):
                events = list(_events(conversations, number, times, kind is EXISTING))
                sides = [
                    (ours, partial(_bridged, bridge, events, polls)),
                    (theirs, partial(_bare, client, signals.calls_of(registry, "bare", events))),
                ]
                for side, work in sides if number % 2 else reversed(sides):
                    took = await work()
                    if number:  # the first round warms up
                        side.took[kind].append(took)
    burst = await bursts.measured(place, client)
    kinds = (NEW, EXISTING)
    return Report(
        "bridge",
        (
            *(figure(f"bridge, {kind}", "signals/s", ours.rates(kind)) for kind in kinds),
            *(figure(f"bare client, {kind}", "signals/s", theirs.rates(kind)) for kind in kinds),
            *(
                figure(f"processor: {name}, {kind}", "µs/signal", [one.processor_micros for one in side.took[kind]])
                for name, side in (("bridge", ours), ("bare client", theirs))
                for kind in kinds
            ),
            *burst.figures,
        ),
        (
            *(ratio(f"bridge / bare client, {kind}", ours.rates(kind), theirs.rates(kind), aim=0.9) for kind in kinds),
            *burst.ratios,
        ),
        {
            "conversations": conversations,
            "consumers": list(signals.CONSUMERS),
            "recordsABatch": signals.BATCH,
            "batchesAtATime": polls,
            "callsAtATime": PARALLEL,
            **burst.facts,
        },
    )


async def _bridged(bridge: Bridge, events: Sequence[TurnSettled], polls: int) -> Took:
    """Batches of the events, so many at a time."""
    deliveries = [_delivery(number, event) for number, event in enumerate(events)]
    batches = iter([deliveries[start : start + signals.BATCH] for start in range(0, len(deliveries), signals.BATCH)])

    async def poll() -> None:
        for batch in batches:
            outcome = await bridge.deliver(batch)
            assert len(outcome.done) == len(batch)
            assert not outcome.failed

    watch = Stopwatch()
    await asyncio.gather(*(poll() for _ in range(polls)))
    return watch.took(len(events) * len(signals.CONSUMERS))


async def _bare(client: Client, calls: Sequence[signals.Call]) -> Took:
    waiting = iter(calls)

    async def caller() -> None:
        for call in waiting:
            await signals.signal_with_start(client, call)

    watch = Stopwatch()
    await asyncio.gather(*(caller() for _ in range(PARALLEL)))
    return watch.took(len(calls))


def _events(conversations: int, number: int, times: int, later: bool) -> Iterator[TurnSettled]:
    """So many turns of every conversation of a round; all of one turn before the next, so that none merge."""
    for turn in range(times):
        for conversation in range(conversations):
            yield event_of(f"conv-{number:03}-{conversation:06}", later + turn)


def event_of(conversation_id: str, turn: int) -> TurnSettled:
    return make_event(
        conversation_id=conversation_id,
        property_id="property-001",
        origin=Origin.TEXT,
        channel=Channel.SMS,
        emitter="worker",
        occurred_at=datetime(2026, 3, 1, 9, tzinfo=UTC) + timedelta(minutes=turn),
        flush_mode=FlushMode.DEBOUNCED,
    )


def _delivery(number: int, event: TurnSettled) -> Delivery:
    return Delivery(Receipt(Queue.MAIN, str(number)), event.conversation_id, event.to_json(), receives=1)
