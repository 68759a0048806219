"""After the last round: restart, drain, audit, and tell all that the store, the ledger and the receiver know."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.crash.checker import (
    AcknowledgedTurn,
    Order,
    Outcome,
    ReceivedRequest,
    StoredMessage,
    StoredStamp,
    StoredTurn,
    Thread,
)
from tests.crash.plan import Step
from tests.crash.reactions import clean_run, make_app, registry_of
from tests.crash.receiver import HEARD
from tests.crash.workers import ACKNOWLEDGED, DATABASE, CycleFolder, imported, opened

from afterturn import Backbone, Conversation, WorkOrder
from afterturn.clock import to_millis
from afterturn.errors import WorkerCrashed
from afterturn.ledger.ledger import OwedReaction
from afterturn.store.pagination import all_conversations

OUTCOME = "outcome.pickle"
_ALL = 1_000_000


async def inspect(place: CycleFolder, threads: Sequence[Sequence[Step]]) -> None:
    """Write the outcome into the cycle's folder."""
    async with opened(place) as backbone:
        swept = _watch_sweeps(backbone)
        left = await backbone.drain(eager=True)
        revived = await _revive(backbone)
        if revived:
            left = await backbone.drain(eager=True)
        audit = await backbone.ledger.audit(grace=timedelta(0))
        registry = registry_of(make_app(), place.settings())
        told: list[Thread] = []
        clean_orders: list[WorkOrder] = []
        async for conversation in all_conversations(backbone.store):
            thread = await _thread(backbone, conversation)
            if thread.settled:
                messages = (await backbone.store.messages(conversation.id))[: len(thread.settled)]
                clean = await clean_run(registry, conversation, messages)
                thread = replace(thread, clean=clean.stamps)
                clean_orders += clean.orders
            told.append(thread)
        orders = await backbone.store.work_orders(open_only=False, limit=_ALL)
    outcome = Outcome(
        acknowledged=tuple(acknowledged(place.folder)),
        attempted=_attempted(threads, place),
        threads=tuple(told),
        consumers=registry.names,
        orders=_orders(orders),
        clean_orders=_orders(clean_orders),
        heard=tuple(_heard(place.folder)),
        reactions=tuple(
            f"{reaction.consumer} {reaction.state.value} on {reaction.conversation.id!r}"
            for reaction in audit.reactions
        ),
        left=tuple(
            f"{count} {what}" for what, count in (("streamed", left.streamed), ("waiting", left.waiting)) if count
        ),
        swept=tuple(swept),
        dead_letters=left.dead_letters,
        revived=revived,
        integrity=_integrity(place.folder / DATABASE),
    )
    (place.folder / OUTCOME).write_bytes(pickle.dumps(outcome))


def left_over(path: Path) -> list[str]:
    """What a file still holds to be done: for whoever has to find out why it was not done."""
    told = [f"{one.name} {one.stat().st_size}" for one in sorted(path.parent.iterdir())]
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    try:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for table in (name for name in names if name.startswith(("stream", "reactions", "dead"))):
            told += [f"{table} {dict(row)}" for row in connection.execute(f"SELECT * FROM {table} LIMIT 8")]
    except sqlite3.Error as error:
        told.append(f"{type(error).__name__}: {error}")
    finally:
        connection.close()
    return told


def _watch_sweeps(backbone: Backbone) -> list[str]:
    """What sweeps catch from now on."""
    caught: list[str] = []
    sweep = backbone.ledger.sweep

    async def watched(*args: Any, **kwargs: Any) -> tuple[OwedReaction, ...]:
        reactions = await sweep(*args, **kwargs)
        caught.extend(f"{reaction.conversation.id!r} to {reaction.consumer}" for reaction in reactions)
        return reactions

    backbone.ledger.sweep = watched  # type: ignore[method-assign]
    return caught


async def _revive(backbone: Backbone) -> int:
    """What an operator does about reactions whose workers died time after time; returns how many there were."""
    failures = await backbone.store.failures(limit=_ALL)
    died = [one for one in failures if one.error == WorkerCrashed.__name__]
    for one in died:
        await backbone.engine.retry(one.consumer, one.conversation_id)
    return len(died)


def acknowledged(folder: Path) -> list[AcknowledgedTurn]:
    """What the workers were told is safe."""
    return [
        AcknowledgedTurn(
            conversation_id=line["conversation"],
            message_ids=tuple(line["messages"]),
            event_id=line.get("event"),
            occurred_at=int(line["event"].rpartition(":")[2]) if "event" in line else None,
            key=line["key"],
        )
        for line in _lines(folder / ACKNOWLEDGED)
    ]


async def _thread(backbone: Backbone, conversation: Conversation) -> Thread:
    messages = await backbone.store.messages(conversation.id)
    turns = await backbone.store.turns(conversation.id, limit=_ALL)
    return Thread(
        id=conversation.id,
        settled_at=None if conversation.settled_at is None else to_millis(conversation.settled_at),
        messages=tuple(StoredMessage(one.id, one.at, one.direction.value == "inbound") for one in messages),
        turns=tuple(StoredTurn(to_millis(turn.occurred_at), turn.last_seq) for turn in turns),
        stamps={
            name: StoredStamp(None if stamp.through is None else to_millis(stamp.through), dict(stamp.data))
            for name, stamp in conversation.reactions.items()
        },
    )


def _attempted(threads: Sequence[Sequence[Step]], place: CycleFolder) -> dict[str, tuple[tuple[str, ...], ...]]:
    calls: dict[str, list[tuple[str, ...]]] = {}
    for thread in threads:
        for step in thread:
            calls.setdefault(step.conversation.id, []).append(step.message_ids)
    for found in imported(place):
        calls[found.meta.id] = [tuple(message.id for message in turn.messages) for turn in found.turns]
    return {conversation_id: tuple(ids) for conversation_id, ids in calls.items()}


def _orders(orders: Iterable[WorkOrder]) -> tuple[Order, ...]:
    return tuple(
        Order(
            id=order.id,
            conversation_id=order.conversation_id,
            message_id=order.message_id,
            category=order.category,
            urgency=order.urgency.value,
        )
        for order in orders
    )


def _heard(folder: Path) -> list[ReceivedRequest]:
    heard = []
    for line in _lines(folder / HEARD):
        data = line["body"]["data"]
        heard.append(
            ReceivedRequest(
                kind=line["kind"],
                id=line["id"],
                content=json.dumps(line["body"] if line["kind"] == "package" else data, sort_keys=True),
                conversation_id=data["conversationId"],
                message_ids=tuple(data.get("messageIds", ())),
            )
        )
    return heard


def _integrity(path: Path) -> tuple[str, ...]:
    connection = sqlite3.connect(path)
    try:
        return tuple(row[0] for row in connection.execute("PRAGMA integrity_check"))
    finally:
        connection.close()


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
