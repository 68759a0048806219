"""What a burst of ten turns of one conversation makes Temporal do, merged by the bridge or signalled turn by turn.

Turns are settled in a real store, their events come through a real stream, a real worker runs the reactions. Both ways
signal the same workflow, which waits for quiet. What happened is counted in the histories, as Temporal Cloud's actions
are: workflows started, signals, timers started, activities scheduled (https://docs.temporal.io/cloud/actions).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from afterturn.bridge.bridge import Bridge
from afterturn.clock import system_clock
from afterturn.event import TurnSettled, read_event
from afterturn.reactions.registry import Registry
from afterturn.reactions.run import EffectsPolicy
from afterturn.reactions.temporal import protocol
from afterturn.reactions.temporal.engine import Address, Connection, TemporalSignaler
from afterturn.reactions.temporal.runner import TemporalRunner
from afterturn.settle import Settler
from afterturn.sqlite.database import Database
from afterturn.store.sqlite import SqliteStore
from afterturn.stream import sqlite as sqlite_stream
from afterturn.stream.port import Queue
from afterturn.stream.sqlite import SqliteStream
from bench import files, signals, workload
from bench.measure import Report, figure, ratio

BURST = 10
CONVERSATIONS = 4
VISIBILITY = timedelta(minutes=5)

_SIGNALLING = (EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED)
_RUNNING = (EventType.EVENT_TYPE_TIMER_STARTED, EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)


async def measured(place: Path, client: Client) -> Report:
    """Per burst and consumer. The figures are counts, the same in every run, so there is one round."""
    registry = signals.registry_of(signals.CONSUMERS, quiet="2s", max_wait="1m")
    merged = await _merged(place, client, registry)
    single = await _one_by_one(place, client, registry)
    bursts = CONVERSATIONS * len(signals.CONSUMERS)
    rows = {
        "signals": (EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,),
        "actions by signalling": _SIGNALLING,
        "actions in all": (*_SIGNALLING, *_RUNNING),
        "history events": tuple(EventType.values()),
    }
    ours = {name: sum(merged[kind] for kind in kinds) / bursts for name, kinds in rows.items()}
    theirs = {name: sum(single[kind] for kind in kinds) / bursts for name, kinds in rows.items()}
    return Report(
        "bursts",
        (
            *(figure(f"burst, merged: {name}", "", [count]) for name, count in ours.items()),
            *(figure(f"burst, turn by turn: {name}", "", [count]) for name, count in theirs.items()),
        ),
        tuple(
            ratio(
                f"burst, turn by turn / merged: {name}",
                [theirs[name]],
                [ours[name]],
                aim=5 if name.startswith("actions") else None,
            )
            for name in rows
        ),
        {"turnsABurst": BURST},
    )


async def _merged(place: Path, client: Client, registry: Registry) -> Counter[int]:
    with closing(Database.open(files.fresh(place, "merged"))) as database:
        store, stream = SqliteStore(database, outbox=sqlite_stream.outbox), SqliteStream(database, system_clock)
        connection = Connection(Address(target=client.service_client.config.target_host))
        signaler = TemporalSignaler(connection, registry, lane="merged", lease=signals.LEASE)
        reader = Bridge(stream, signaler, registry.signalled, visibility=VISIBILITY)
        conversations = await _settled(store, stream)
        async with asyncio.timeout(60):
            while await reader.pump(Queue.MAIN, limit=signals.BATCH):
                pass
        return await _histories(client, connection, registry, store, "merged", conversations)


async def _one_by_one(place: Path, client: Client, registry: Registry) -> Counter[int]:
    with closing(Database.open(files.fresh(place, "single"))) as database:
        store, stream = SqliteStore(database, outbox=sqlite_stream.outbox), SqliteStream(database, system_clock)
        connection = Connection(Address(target=client.service_client.config.target_host))
        conversations = await _settled(store, stream)
        events: list[TurnSettled] = []
        while batch := await stream.receive(Queue.MAIN, limit=signals.BATCH, visibility=VISIBILITY):
            events += [read_event(delivery.body) for delivery in batch]
            await stream.ack([delivery.receipt for delivery in batch])
        for call in signals.calls_of(registry, "single", events):
            await signals.signal_with_start(client, call)
        return await _histories(client, connection, registry, store, "single", conversations)


async def _settled(store: SqliteStore, stream: SqliteStream) -> list[str]:
    """The bursts, one conversation after the other; returns the conversations."""
    settler = Settler(store, stream, system_clock, "worker")
    conversations = workload.live_turns(CONVERSATIONS, BURST)
    for turns in conversations:
        for turn in turns:
            await settler.settle(turn)
    return [turns[0].conversation.id for turns in conversations]


async def _histories(
    client: Client,
    connection: Connection,
    registry: Registry,
    store: SqliteStore,
    lane: str,
    conversations: Sequence[str],
) -> Counter[int]:
    """Let every reaction come to its end, and count the events of each."""
    runner = TemporalRunner(connection, registry, store, system_clock, lane=lane, policy=EffectsPolicy())
    stop = asyncio.Event()
    working = asyncio.create_task(runner.run(stop, poll=0.1))
    found: Counter[int] = Counter()
    async with asyncio.timeout(120):
        for conversation_id in conversations:
            for name in registry.names:
                handle = client.get_workflow_handle(protocol.reaction_id(lane, name, conversation_id))
                await handle.result()
                found.update(event.event_type for event in (await handle.fetch_history()).events)
    stop.set()
    await working
    return found
