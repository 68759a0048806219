"""The promises that hold after any crash, restart and drain. Pure: an outcome in, broken promises out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any


@dataclass(frozen=True, slots=True)
class AcknowledgedTurn:
    """A call of the writer that returned. ``event_id`` and ``occurred_at`` (ms) are those of a settled turn."""

    conversation_id: str
    message_ids: tuple[str, ...]
    event_id: str | None = None
    occurred_at: int | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class StoredMessage:
    id: str
    at: datetime
    inbound: bool


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """``occurred_at`` in milliseconds; ``last_seq``: how many messages the conversation had when it was settled."""

    occurred_at: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class StoredStamp:
    through: int | None
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation as the store tells it; ``messages`` in thread order, ``settled_at`` in milliseconds.

    ``clean``: what each consumer whose outcome doesn't depend on windows stamps when it sees all of it in one run.
    """

    id: str
    settled_at: int | None
    messages: tuple[StoredMessage, ...]
    turns: tuple[StoredTurn, ...]
    stamps: Mapping[str, StoredStamp]
    clean: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def settled(self) -> tuple[StoredMessage, ...]:
        """The messages up to the newest settled turn."""
        return self.messages[: self.turns[-1].last_seq] if self.turns else ()


@dataclass(frozen=True, slots=True)
class Order:
    """A work order; ``message_id`` and ``category`` are its cause."""

    id: str
    conversation_id: str
    message_id: str
    category: str
    urgency: str


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request that reached the receiver. ``kind``: package or alert; ``id`` its idempotency key."""

    kind: str
    id: str
    content: str
    conversation_id: str
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """``attempted``: for each conversation, the messages of each single call that was ever planned.

    ``swept``: what only the sweep of the last drain brought to its consumers. ``dead_letters``: records that workers
    took five times and died each time; ``revived``: reactions of which the same was true, and which were retried.
    """

    acknowledged: tuple[AcknowledgedTurn, ...]
    attempted: Mapping[str, tuple[tuple[str, ...], ...]]
    threads: tuple[Thread, ...]
    consumers: tuple[str, ...]
    orders: tuple[Order, ...]
    clean_orders: tuple[Order, ...]
    heard: tuple[ReceivedRequest, ...]
    reactions: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    swept: tuple[str, ...] = ()
    dead_letters: int = 0
    revived: int = 0
    integrity: tuple[str, ...] = ("ok",)


def broken(outcome: Outcome) -> list[str]:
    """Every promise that does not hold, as ``promise: what was found``; empty where all is well."""
    return [f"{name}: {problem}" for name, check in CHECKS.items() for problem in check(outcome)]


def _file(outcome: Outcome) -> Iterator[str]:
    if outcome.integrity != ("ok",):
        yield f"integrity_check says {outcome.integrity[:3]}"


def _acknowledged(outcome: Outcome) -> Iterator[str]:
    """What was acknowledged is stored, its turn is there and reaches up to its messages."""
    threads = {thread.id: thread for thread in outcome.threads}
    for ack in outcome.acknowledged:
        thread = threads.get(ack.conversation_id)
        if thread is None:
            yield f"conversation {ack.conversation_id!r} is gone"
            continue
        place = {message.id: number for number, message in enumerate(thread.messages, 1)}
        if missing := [message_id for message_id in ack.message_ids if message_id not in place]:
            yield f"{ack.conversation_id!r} lost {missing}"
            continue
        if ack.event_id is None:
            continue
        turn = next((settled for settled in thread.turns if settled.occurred_at == ack.occurred_at), None)
        if turn is None:
            yield f"{ack.conversation_id!r} lost the turn {ack.event_id}"
        elif any(place[message_id] > turn.last_seq for message_id in ack.message_ids):
            yield f"{ack.event_id} does not reach up to its messages"


def _events(outcome: Outcome) -> Iterator[str]:
    """A keyed turn has one event, and no two of them share it."""
    by_turn = defaultdict(set)
    by_event = defaultdict(set)
    for ack in outcome.acknowledged:
        if ack.key is not None and ack.event_id is not None:
            by_turn[ack.conversation_id, ack.key].add(ack.event_id)
            by_event[ack.event_id].add((ack.conversation_id, ack.key))
    yield from (f"turn {turn} has the events {events}" for turn, events in by_turn.items() if len(events) > 1)
    yield from (f"event {event} stands for {turns}" for event, turns in by_event.items() if len(turns) > 1)


def _whole(outcome: Outcome) -> Iterator[str]:
    """The messages of one call are all there or none of them is."""
    stored = {thread.id: {message.id for message in thread.messages} for thread in outcome.threads}
    for conversation_id, calls in outcome.attempted.items():
        stored_ids = stored.get(conversation_id, set())
        for call in calls:
            stored_part = stored_ids.intersection(call)
            if stored_part and len(stored_part) < len(call):
                yield f"{conversation_id!r} has {sorted(stored_part)} of {list(call)}"
        if unknown := stored_ids - {message_id for call in calls for message_id in call}:
            yield f"{conversation_id!r} has messages that nobody sent: {sorted(unknown)}"


def _order(outcome: Outcome) -> Iterator[str]:
    """Messages stand in the order in which they were sent, turns are strictly later one after the other."""
    for thread in outcome.threads:
        sent = {message_id: number for number, message_id in enumerate(_sent(outcome, thread))}
        places = [sent[message.id] for message in thread.messages if message.id in sent]
        if any(later <= earlier for earlier, later in pairwise(places)):
            yield f"{thread.id!r} has its messages out of order: {[message.id for message in thread.messages]}"
        if any(later.at < earlier.at for earlier, later in pairwise(thread.messages)):
            yield f"{thread.id!r} has message times that step back"
        if any(later.occurred_at <= earlier.occurred_at for earlier, later in pairwise(thread.turns)):
            yield f"{thread.id!r} has turns that are not later than the one before"
        if any(later.last_seq < earlier.last_seq for earlier, later in pairwise(thread.turns)):
            yield f"{thread.id!r} has a turn that reaches less far than the one before"
        if thread.turns and thread.settled_at != thread.turns[-1].occurred_at:
            yield f"{thread.id!r} says settled at {thread.settled_at}, its last turn {thread.turns[-1].occurred_at}"


def _stamped(outcome: Outcome) -> Iterator[str]:
    """Every consumer has seen every conversation up to its newest settled turn."""
    for thread in outcome.threads:
        for consumer in outcome.consumers if thread.settled_at is not None else ():
            stamp = thread.stamps.get(consumer)
            if stamp is None or stamp.through != thread.settled_at:
                through = None if stamp is None else stamp.through
                yield f"{consumer} has seen {thread.id!r} through {through}, not {thread.settled_at}"


def _outcome(outcome: Outcome) -> Iterator[str]:
    """A consumer stamped what it stamps when nobody crashes: it saw each message once and in order."""
    for thread in outcome.threads:
        for consumer, clean in thread.clean.items():
            stamp = thread.stamps.get(consumer)
            stamped = {key: stamp.data.get(key) for key in clean} if stamp is not None else {}
            if stamp is not None and stamped != dict(clean):
                yield f"{consumer} stamped {stamped} on {thread.id!r} instead of {dict(clean)}"


def _ledger(outcome: Outcome) -> Iterator[str]:
    yield from (f"owed: {reaction}" for reaction in outcome.reactions)
    yield from (f"left over: {work}" for work in outcome.left)


def _path(outcome: Outcome) -> Iterator[str]:
    """The stream alone brings every turn to every consumer; the sweep is for dead letters."""
    if not outcome.dead_letters:
        yield from (f"only the sweep brought {reaction}" for reaction in outcome.swept)


def _work_orders(outcome: Outcome) -> Iterator[str]:
    """Each cause has one work order, and there are exactly those that a clean run would write."""
    for what, count in Counter(order.id for order in outcome.orders).items():
        if count > 1:
            yield f"{what} was written {count} times"
    causes = Counter((order.conversation_id, order.message_id, order.category) for order in outcome.orders)
    yield from (f"{count} for one cause: {cause}" for cause, count in causes.items() if count > 1)
    written, clean = set(outcome.orders), set(outcome.clean_orders)
    yield from (f"missing: {_describe(order)}" for order in clean - written)
    yield from (f"not asked for: {_describe(order)}" for order in written - clean)


def _webhooks(outcome: Outcome) -> Iterator[str]:
    """An id has one content; each settled inbound message stands in exactly one package, and nothing else does."""
    yield from _one_content(outcome, "package")
    packages = defaultdict(set)
    for heard in outcome.heard:
        if heard.kind == "package":
            for message_id in heard.message_ids:
                packages[heard.conversation_id, message_id].add(heard.id)
    for message, ids in packages.items():
        if len(ids) > 1:
            yield f"{message} was delivered under {sorted(ids)}"
    settled = {(thread.id, message.id) for thread in outcome.threads for message in thread.settled if message.inbound}
    yield from (f"{message} was never delivered" for message in sorted(settled - packages.keys()))
    yield from (f"{message} was delivered and never settled" for message in sorted(packages.keys() - settled))


def _alerts(outcome: Outcome) -> Iterator[str]:
    """A key has one content, and a message raises no two alerts of a kind."""
    yield from _one_content(outcome, "alert")
    keys = defaultdict(set)
    for heard in outcome.heard:
        if heard.kind == "alert":
            keys[heard.content].add(heard.id)
    yield from (f"{content} was raised as {sorted(ids)}" for content, ids in keys.items() if len(ids) > 1)


def _one_content(outcome: Outcome, kind: str) -> Iterator[str]:
    contents = defaultdict(set)
    for heard in outcome.heard:
        if heard.kind == kind:
            contents[heard.id].add(heard.content)
    yield from (f"{id_} had the contents {sorted(versions)}" for id_, versions in contents.items() if len(versions) > 1)


def _sent(outcome: Outcome, thread: Thread) -> list[str]:
    return [message_id for call in outcome.attempted.get(thread.id, ()) for message_id in call]


def _describe(order: Order) -> str:
    return f"{order.category} ({order.urgency}) for {order.message_id!r} of {order.conversation_id!r}"


CHECKS: dict[str, Callable[[Outcome], Iterator[str]]] = {
    "file": _file,
    "acknowledged": _acknowledged,
    "events": _events,
    "whole turns": _whole,
    "order": _order,
    "stamped": _stamped,
    "same outcome": _outcome,
    "ledger": _ledger,
    "path": _path,
    "work orders": _work_orders,
    "webhooks": _webhooks,
    "alerts": _alerts,
}
