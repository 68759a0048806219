"""Windows, stamps, failures, claims, registrations and checkpoints.

Each stamp is an attribute of the conversation item, written only if it is unchanged since it was read; its ``rev``
counts its writes. A failure also has an item of its own, so that a list reads failures only. That item is written and
deleted in the transaction of the stamp.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from pydantic import JsonValue

from afterturn.aws.table import TTL_ATTRIBUTE
from afterturn.clock import Clock, from_text, to_text
from afterturn.errors import InvalidRecord, NotFound
from afterturn.model import Stamp, Status, StoredStamp, WorkOrder
from afterturn.store import invariants
from afterturn.store.dynamodb import keys, rows
from afterturn.store.dynamodb.keys import Key
from afterturn.store.dynamodb.requests import (
    IS_NEW,
    IS_THERE,
    MAX_ITEM_BYTES,
    MAX_TRANSACTION_ITEMS,
    Attributes,
    Condition,
    Query,
    WriteAction,
    all_of,
    all_starting,
    delete,
    equals,
    item_bytes,
    missing,
    put,
    update,
)
from afterturn.store.dynamodb.table import Table, WriteConflict
from afterturn.store.invariants import to_dump
from afterturn.store.port import ConsumerState, Failure, FailureKey, ReactionWindow, Registration

_MAX_WORK_ORDERS = MAX_TRANSACTION_ITEMS - 2
"""A stamp's transaction also holds the conversation and a failure."""


class StampStore:
    """The part of the store that reactions use. ``_claims_kept``: the time to live of claims."""

    _table: Table
    _clock: Clock
    _claims_kept: timedelta

    async def window(self, conversation_id: str, consumer: str) -> ReactionWindow | None:
        item = await self._table.get(keys.meta(conversation_id))
        if item is None:
            return None
        conversation = rows.conversation(item)
        stamp = conversation.reactions.get(consumer)
        if conversation.settled_at is None or not invariants.stamp_moves_forward(stamp, conversation.settled_at):
            return None
        seen, oldest = await self._unseen(conversation_id, stamp.through if stamp else None, conversation.settled_at)
        if oldest is None:
            return ReactionWindow(conversation=conversation, messages=(), through=conversation.settled_at)
        settled = item.get("settledCount") or 0
        partition = keys.conversation(conversation_id)
        query = Query(
            partition,
            within=(keys.MESSAGES + to_text(oldest), all_starting(keys.MESSAGES)[1]),
            only=lambda terms: f"{terms.name('seq')} BETWEEN {terms.value(seen + 1)} AND {terms.value(settled)}",
        )
        messages = [rows.message(row) async for row in self._table.items(query)]
        return ReactionWindow(conversation=conversation, messages=tuple(messages), through=conversation.settled_at)

    async def stamp(
        self, conversation_id: str, consumer: str, stamp: Stamp, *, through: datetime, now: datetime
    ) -> bool:
        """Writes nothing for an unknown conversation."""
        data = to_dump(stamp.model_dump(mode="json")["data"])
        written = rows.stamp_item(StoredStamp.model_construct(through=through, at=now), data, 0)
        size = item_bytes({rows.STAMP + consumer: written})
        if size > MAX_ITEM_BYTES:
            raise InvalidRecord("data", f"has {size} bytes; DynamoDB holds at most {MAX_ITEM_BYTES} an item")
        orders = _merge_orders(stamp.work_orders)
        if len(orders) > _MAX_WORK_ORDERS:
            raise InvalidRecord("workOrders", f"are {len(orders)}; one transaction holds at most {_MAX_WORK_ORDERS}")
        sent: Attributes = {}

        async def unit() -> bool:
            nonlocal sent
            items = await self._table.get_many([keys.meta(conversation_id), *orders])
            item = items.get(keys.meta(conversation_id))
            if item is None:
                return False
            before = item.get(rows.STAMP + consumer)
            if sent and before == sent:
                return True  # our own write, whose response was lost
            if not invariants.stamp_moves_forward(rows.stamp(before) if before else None, through):
                return False
            sent = {name: value for name, value in written.items() if value is not None}
            sent["rev"] = _revision(before) + 1
            actions = [_write_stamp(conversation_id, consumer, before, sent)]
            if before and before.get("failedThrough"):
                actions.append(delete(keys.failure(consumer, conversation_id)))
            written_orders = [_write_order(key, order, items.get(key)) for key, order in orders.items()]
            await self._table.commit([*actions, *(action for action in written_orders if action is not None)])
            return True

        return await self._table.until_done(unit)

    async def fail(self, conversation_id: str, consumer: str, *, through: datetime, error: str, now: datetime) -> None:
        async def unit() -> None:
            item = await self._table.get(keys.meta(conversation_id), ["PK", rows.STAMP + consumer])
            if item is None:
                return
            before = item.get(rows.STAMP + consumer)
            if not invariants.stamp_moves_forward(rows.stamp(before) if before else None, through):
                return
            failed = {"failedThrough": to_text(through), "error": error, "rev": _revision(before) + 1}
            mark = {
                "kind": "failure",
                "consumer": consumer,
                "conversationId": conversation_id,
                "failedThrough": to_text(through),
                "error": error,
            }
            await self._table.transact(
                [
                    _write_stamp(conversation_id, consumer, before, (before or _empty_stamp(now)) | failed),
                    put(keys.failure(consumer, conversation_id), mark),
                ]
            )

        await self._table.until_done(unit)

    async def request(self, conversation_id: str, consumers: Sequence[str], *, now: datetime) -> None:
        """Writes nothing for an unknown conversation."""
        names = list(dict.fromkeys(consumers))

        async def unit() -> None:
            item = await self._table.get(keys.meta(conversation_id), ["PK", *(rows.STAMP + name for name in names)])
            if item is None:
                return
            sets: Attributes = {}
            conditions: list[Condition] = [IS_THERE]
            lifted: list[WriteAction] = []
            for name in names:
                before = item.get(rows.STAMP + name)
                if before and not before.get("failedThrough"):
                    continue
                conditions.append(_unchanged(name, before))
                after = (before or _empty_stamp(now)) | {"rev": _revision(before) + 1}
                sets[rows.STAMP + name] = {k: v for k, v in after.items() if k not in ("failedThrough", "error")}
                if before:
                    lifted.append(delete(keys.failure(name, conversation_id)))
            if sets:
                await self._table.commit([update(keys.meta(conversation_id), sets, all_of(*conditions)), *lifted])

        await self._table.until_done(unit)

    async def failures(self, *, after: FailureKey | None = None, limit: int) -> tuple[Failure, ...]:
        above = None if after is None else keys.failure(after.consumer, after.conversation_id)[1]
        items = self._table.items(Query(keys.FAILURES, above=above), limit)
        return tuple(
            [
                Failure(item["conversationId"], item["consumer"], from_text(item["failedThrough"]), item["error"])
                async for item in items
            ]
        )

    async def claim(self, name: str, key: str, value: JsonValue = None) -> JsonValue:
        until = self._clock() + self._claims_kept
        item = {"kind": "claim", "value": to_dump(value), TTL_ATTRIBUTE: int(until.timestamp())}
        if (size := item_bytes(item)) > MAX_ITEM_BYTES - 4096:
            raise InvalidRecord("value", f"of the claim has {size} bytes; DynamoDB holds {MAX_ITEM_BYTES} an item")

        async def unit() -> JsonValue:
            try:
                await self._table.write(put(keys.claim(name, key), item, IS_NEW))
            except WriteConflict as conflict:
                taken = conflict.item or await self._table.get(keys.claim(name, key))
                if taken is None:
                    raise
                first: JsonValue = json.loads(taken["value"])
                return first
            return value

        return await self._table.until_done(unit)

    async def claim_done(self, name: str, key: str) -> bool:
        item = await self._table.get(keys.claim(name, key), ["done"])
        return bool(item and item.get("done"))

    async def finish_claim(self, name: str, key: str) -> None:
        await self._write_if_there(update(keys.claim(name, key), {"done": True}, IS_THERE))

    async def register(self, registrations: Sequence[Registration]) -> None:
        async def unit() -> None:
            known = await self.registrations()
            merged = dict(known)
            for registration in registrations:
                merged[registration.name] = _merge_registration(merged.get(registration.name), registration)
            changed = [
                _register(registration, known.get(name))
                for name, registration in merged.items()
                if registration != known.get(name)
            ]
            if changed:
                await self._table.commit(changed)

        await self._table.until_done(unit)

    async def registrations(self) -> Mapping[str, Registration]:
        stored = [_registration(item) async for item in self._table.items(Query(keys.REGISTRATIONS))]
        return {
            registration.name: registration
            for registration in sorted(stored, key=lambda registration: (registration.registered_at, registration.name))
        }

    async def set_state(self, consumer: str, state: ConsumerState) -> None:
        if not await self._write_if_there(update(keys.registration(consumer), {"state": state.value}, IS_THERE)):
            raise NotFound(f"no consumer {consumer!r} was ever registered")

    async def checkpoint(self, name: str) -> datetime | None:
        item = await self._table.get(keys.checkpoint(name))
        return None if item is None else from_text(item["at"])

    async def save_checkpoint(self, name: str, at: datetime) -> None:
        await self._table.write(put(keys.checkpoint(name), {"kind": "checkpoint", "at": to_text(at)}))

    async def _unseen(
        self, conversation_id: str, through: datetime | None, settled_at: datetime
    ) -> tuple[int, datetime | None]:
        """The number of messages that the consumer has seen, and the oldest time of the others."""
        after = keys.TURNS if through is None else keys.turn(conversation_id, through)[1] + "$"
        query = Query(
            keys.conversation(conversation_id),
            within=(after, keys.turn(conversation_id, settled_at)[1]),
            names=("firstSeq", "oldestAt"),
        )
        turns = [turn async for turn in self._table.items(query)]
        times = [at for turn in turns if (at := rows.time_or_none(turn.get("oldestAt"))) is not None]
        return min((turn["firstSeq"] for turn in turns), default=0), min(times, default=None)

    async def _write_if_there(self, action: WriteAction) -> bool:
        async def unit() -> bool:
            try:
                await self._table.write(action)
            except WriteConflict as conflict:
                if conflict.is_condition:
                    return False
                raise
            return True

        return await self._table.until_done(unit)


def _revision(stamp: Attributes | None) -> int:
    return (stamp or {}).get("rev") or 0


def _empty_stamp(now: datetime) -> Attributes:
    return {"at": to_text(now), "data": "{}"}


def _unchanged(consumer: str, before: Attributes | None) -> Condition:
    if before is None:
        return missing(rows.STAMP + consumer)
    return equals(rows.STAMP + consumer, "rev", value=_revision(before))


def _write_stamp(conversation_id: str, consumer: str, before: Attributes | None, after: Attributes) -> WriteAction:
    return update(
        keys.meta(conversation_id), {rows.STAMP + consumer: after}, all_of(IS_THERE, _unchanged(consumer, before))
    )


def _merge_orders(orders: Sequence[WorkOrder]) -> dict[Key, WorkOrder]:
    """One for each id: the most urgent."""
    merged: dict[Key, WorkOrder] = {}
    for order in orders:
        key = keys.work_order(order.conversation_id, order.id)
        known = merged.get(key)
        if known is None:
            merged[key] = order
        elif order.urgency.rank < known.urgency.rank:
            merged[key] = known.model_copy(update={"urgency": order.urgency})
    return merged


def _write_order(key: Key, order: WorkOrder, stored: Attributes | None) -> WriteAction | None:
    """Insert a new work order; a stored one that is open can only become more urgent."""
    if stored is None:
        return put(key, rows.work_order_item(order), IS_NEW)
    known = rows.work_order(stored)
    if known.urgency.rank <= order.urgency.rank or known.status is not Status.OPEN:
        return None
    after = known.model_copy(update={"urgency": order.urgency})
    is_same = [equals("urgency", value=known.urgency.value), equals("status", value=known.status.value)]
    return update(key, rows.urgency_attributes(after), all_of(*is_same))


def _merge_registration(known: Registration | None, new: Registration) -> Registration:
    if known is None:
        return new
    return Registration(known.name, known.registered_at, known.state, new.max_wait)


def _register(merged: Registration, known: Registration | None) -> WriteAction:
    """A new registration, or a change of ``max_wait``; a known consumer keeps its time and state."""
    key = keys.registration(merged.name)
    millis = merged.max_wait // timedelta(milliseconds=1)
    if known is not None:
        return update(key, {"maxWaitMs": millis}, IS_THERE)
    item = {
        "kind": "registration",
        "name": merged.name,
        "registeredAt": to_text(merged.registered_at),
        "state": merged.state.value,
        "maxWaitMs": millis,
    }
    return put(key, item, IS_NEW)


def _registration(item: Attributes) -> Registration:
    return Registration(
        name=item["name"],
        registered_at=from_text(item["registeredAt"]),
        state=ConsumerState(item["state"]),
        max_wait=timedelta(milliseconds=item["maxWaitMs"]),
    )
