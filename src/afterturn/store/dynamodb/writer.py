"""Writes and changes of conversations, messages and work orders: read, plan, write in one transaction.

After a conflict, all of that is repeated.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from weakref import WeakValueDictionary

from afterturn.aws.table import PROPERTY_RECENCY
from afterturn.clock import to_text
from afterturn.errors import InvalidRecord, NotFound
from afterturn.event import TurnSettled, event_of
from afterturn.model import (
    MAX_TURN_MESSAGES,
    Conversation,
    ConversationMeta,
    ConversationPatch,
    Message,
    SendProblem,
    Status,
    Turn,
    WorkOrder,
)
from afterturn.store import invariants
from afterturn.store.dynamodb import keys, rows
from afterturn.store.dynamodb.keys import Key
from afterturn.store.dynamodb.layout import LayoutSource, RecencyLayouts, month_of
from afterturn.store.dynamodb.plans import (
    ConversationHead,
    JobsToAdd,
    RepeatedTurn,
    WriteContext,
    WritePlan,
    plan_create,
    plan_save,
    plan_settle,
    replace_meta,
)
from afterturn.store.dynamodb.requests import (
    IS_THERE,
    MAX_ITEM_BYTES,
    Attributes,
    Query,
    all_of,
    all_starting,
    equals,
    item_bytes,
    put,
    unchanged,
    update,
)
from afterturn.store.dynamodb.table import Table, WriteConflict
from afterturn.store.jobs import Job
from afterturn.store.port import Settled

_MAX_SAVED_BYTES = 3_000_000


@dataclass(slots=True)
class _Attempts:
    """One call of settle. ``call``: its id, stored with the turn. ``sent``: the events of its attempts; ``settled``:
    the one that was written although its response was lost.
    """

    call: str
    sent: list[TurnSettled] = field(default_factory=list)
    settled: TurnSettled | None = None


class ConversationWriter:
    """The writing part of the store.

    ``remember``: the number of heads cached in memory. A cached head saves the read before a settle. A stale one
    costs a refused transaction and a read, never more: every write is conditional on the revision that it was planned
    with.
    """

    def __init__(self, table: Table, layout_source: LayoutSource, remember: int = 4096) -> None:
        self._table = table
        self._layout_source = layout_source
        self._heads: OrderedDict[str, ConversationHead] = OrderedDict()
        self._remember = remember
        self._months: set[str] = set()
        self._kinds: set[str] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def save_conversation(self, meta: ConversationMeta, *, now: datetime) -> Conversation:
        async with self._alone(meta.id):
            return await self._table.until_done(lambda: self._save_conversation(meta, now))

    async def save_messages(
        self, meta: ConversationMeta, messages: Sequence[Message], *, now: datetime, jobs: Sequence[Job] = ()
    ) -> int:
        """One transaction for each 30 messages or 3 MB. A crash between two leaves the first ones saved, without
        jobs.
        """
        added, to_add = 0, invariants.jobs_to_add(jobs)
        await self._note_kinds(to_add)
        async with self._alone(meta.id):
            *earlier, last = _parts(messages)
            for part in earlier:
                added += await self._table.until_done(partial(self._save, meta, part, now, {}))
            return added + await self._table.until_done(partial(self._save, meta, last, now, to_add))

    async def settle(self, turn: Turn, *, now: datetime, emitter: str, jobs: Sequence[Job] = ()) -> Settled:
        attempts, to_add = _Attempts(call=uuid.uuid4().hex), invariants.jobs_to_add(jobs)
        await self._note_kinds(to_add)
        async with self._alone(turn.conversation.id):
            return await self._table.until_done(lambda: self._settle(turn, now, emitter, attempts, to_add))

    async def edit_message(self, conversation_id: str, provider_id: str, text: str, *, at: datetime) -> bool:
        """Searches the thread from its end: edits are rare and mostly of recent messages."""
        text, at = invariants.edit_of(text, at)
        changes = {"text": text, "editedAt": to_text(at)}
        is_sent = False

        async def unit() -> bool:
            nonlocal is_sent
            known = await self._table.get(keys.known_provider(conversation_id, provider_id))
            item = None if known is None else await self._message(conversation_id, known["seq"])
            if item is None:
                return False
            if is_sent and all(item.get(name) == value for name, value in changes.items()):
                return True  # our own write, whose response was lost
            if not invariants.edit_changes(item["text"], rows.time_or_none(item.get("editedAt")), text, at):
                return False
            if (size := item_bytes(item | changes)) > MAX_ITEM_BYTES:
                problem = f"makes a message of {size} bytes with its attachments; DynamoDB holds {MAX_ITEM_BYTES}"
                raise InvalidRecord("text", problem)
            is_sent = True
            is_same = all_of(IS_THERE, unchanged("editedAt", value=item.get("editedAt")))
            edit = update((item["PK"], item["SK"]), changes, is_same)
            # A message that the row does not preview now never will be: a preview gives way to newer messages only.
            meta = await self._table.get(keys.meta(conversation_id), ["preview"])
            preview = (meta or {}).get("preview")
            if preview is None or preview["messageId"] != item["id"]:
                await self._table.write(edit)
            else:
                changed = {"preview": preview | {"text": invariants.preview_text(text)}}
                is_previewed = equals("preview", value=preview)
                await self._table.transact([edit, update(keys.meta(conversation_id), changed, is_previewed)])
            return True

        return await self._table.until_done(unit)

    async def set_send_problem(self, conversation_id: str, message_id: str, problem: SendProblem | None) -> None:
        async def unit() -> None:
            meta = await self._table.get(keys.meta(conversation_id), ["preview"])
            preview = (meta or {}).get("preview")
            if preview is None or preview["messageId"] != message_id:
                return
            changed = {name: value for name, value in preview.items() if name != "sendProblem"}
            if problem is not None:
                changed["sendProblem"] = problem.to_json()
            if changed != preview:
                is_same = equals("preview", value=preview)
                await self._table.write(update(keys.meta(conversation_id), {"preview": changed}, is_same))

        await self._table.until_done(unit)

    async def patch_conversation(
        self, conversation_id: str, patch: ConversationPatch, *, revision: int | None, now: datetime
    ) -> Conversation:
        """Also raises ``rev``, so a concurrent turn is planned again."""
        call = uuid.uuid4().hex

        async def unit() -> Conversation:
            item = await self._table.get(keys.meta(conversation_id))
            if item is None:
                raise NotFound(f"no conversation {conversation_id!r}")
            if item.get("patchedBy") == call:
                return rows.conversation(item)  # our own write, whose response was lost
            stored = item.get("revision") or 0
            invariants.check_revision(conversation_id, stored, revision)
            changes = _patch_attributes(patch, item.get("messageCount") or 0)
            attributes = {"revision": stored + 1, "patchedAt": to_text(now), "patchedBy": call}
            is_same = all_of(IS_THERE, unchanged("rev", value=item.get("rev")))
            written = update(keys.meta(conversation_id), changes | attributes, is_same, adds={"rev": 1})
            return rows.conversation(await self._table.write(written))

        return await self._table.until_done(unit)

    async def close_work_order(self, conversation_id: str, order_id: str, *, now: datetime) -> WorkOrder | None:
        """Moves the work order from the open to the closed partition of its index."""
        key = keys.work_order(conversation_id, order_id)

        async def unit() -> WorkOrder | None:
            item = await self._table.get(key)
            if item is None:
                return None
            stored = rows.work_order(item)
            if stored.status is Status.CLOSED:
                return stored
            closed = stored.model_copy(update={"status": Status.CLOSED})
            changes = rows.urgency_attributes(closed) | {"status": closed.status.value, "closedAt": to_text(now)}
            is_same = [equals(name, value=item[name]) for name in ("urgency", "status")]
            return rows.work_order(await self._table.write(update(key, changes, all_of(*is_same))))

        return await self._table.until_done(unit)

    async def _save_conversation(self, meta: ConversationMeta, now: datetime) -> Conversation:
        """One write if the guess whether the conversation exists is right; else two."""
        layouts = await self._layout_source.current()
        is_known = self._heads.pop(meta.id, None) is not None
        for replacing in (is_known, not is_known):
            plan = None if replacing else plan_create(meta, layouts, now=now)
            try:
                if plan is None:
                    item = await self._table.write(replace_meta(meta))
                else:
                    await self._note_month(plan, layouts)
                    await self._table.write(plan.actions[0])
                    item = dict(plan.actions[0].item)
            except WriteConflict as conflict:
                if not conflict.is_condition or replacing is not is_known:
                    raise
            else:
                self._keep(meta.id, ConversationHead.of(item))
                return rows.conversation(item)
        raise AssertionError("the second write returns or raises")

    async def _save(self, meta: ConversationMeta, messages: Sequence[Message], now: datetime, jobs: JobsToAdd) -> int:
        layouts = await self._layout_source.current()
        known = await self._read(meta.id, messages, jobs=jobs)
        plan = plan_save(meta, messages, known, layouts, now=now, jobs=jobs)
        if plan is None:
            return 0
        await self._carry_out(meta.id, plan, layouts)
        return plan.added

    async def _settle(self, turn: Turn, now: datetime, emitter: str, attempts: _Attempts, jobs: JobsToAdd) -> Settled:
        conversation_id = turn.conversation.id
        layouts = await self._layout_source.current()
        cached = self._heads.get(conversation_id)
        if cached is not None:
            known = WriteContext(cached)  # assume that everything is new; if not, the transaction fails
        else:
            known = await self._read(conversation_id, turn.messages, turn.key, attempts, jobs)
        if attempts.settled is not None:
            return Settled(attempts.settled, new=True, published=False)
        plan = plan_settle(turn, known, layouts, now=now, emitter=emitter, call=attempts.call, jobs=jobs)
        if isinstance(plan, RepeatedTurn):
            return await self._settled_before(conversation_id, plan, known.head)
        assert plan.event is not None
        attempts.sent.append(plan.event)
        await self._carry_out(conversation_id, plan, layouts)
        return Settled(plan.event, new=True, published=False)

    async def _carry_out(self, conversation_id: str, plan: WritePlan, layouts: RecencyLayouts) -> None:
        self._heads.pop(conversation_id, None)
        await self._note_month(plan, layouts)
        await self._table.transact(plan.actions)
        self._keep(conversation_id, plan.head)

    async def _read(
        self,
        conversation_id: str,
        messages: Sequence[Message],
        key: str | None = None,
        attempts: _Attempts | None = None,
        jobs: JobsToAdd | None = None,
    ) -> WriteContext:
        """The head, and which messages, key and jobs are stored: one consistent read of up to some 65 small items.

        Also finds out whether an earlier attempt of this call was written although its response was lost.
        """
        meta = keys.meta(conversation_id)
        by_id = {entry.id: keys.known_message(conversation_id, entry.id) for entry in messages}
        by_provider = {
            entry.provider_id: keys.known_provider(conversation_id, entry.provider_id)
            for entry in messages
            if entry.provider_id is not None
        }
        item_keys: list[Key] = [meta, *by_id.values(), *by_provider.values()]
        under_key = None if key is None else keys.known_turn(conversation_id, key)
        if under_key is not None:
            item_keys.append(under_key)
        sent = (
            {}
            if attempts is None
            else {keys.turn(conversation_id, entry.occurred_at): entry for entry in attempts.sent}
        )
        by_job = {keys.job(*job_key): job_key for job_key in jobs or ()}
        items = await self._table.get_many([*item_keys, *sent, *by_job])
        for turn, event in sent.items():
            if attempts is not None and items.get(turn, {}).get("call") == attempts.call:
                attempts.settled = event
        return WriteContext(
            head=ConversationHead.of(items[meta]) if meta in items else None,
            by_id={name: items[entry] for name, entry in by_id.items() if entry in items},
            by_provider={name: items[entry] for name, entry in by_provider.items() if entry in items},
            settled_under_key=rows.time_or_none(items[under_key]["turn"]) if under_key and under_key in items else None,
            jobs=[job_key for entry, job_key in by_job.items() if entry in items],
        )

    async def _settled_before(
        self, conversation_id: str, repeat: RepeatedTurn, head: ConversationHead | None
    ) -> Settled:
        property_id = None if head is None else head.property_id
        if repeat.occurred_at is not None:
            item = await self._table.get(keys.turn(conversation_id, repeat.occurred_at))
        else:
            item = await self._turn_reaching(conversation_id, repeat.seq)
        assert item is not None, "a turn is written with what is known of it"
        return Settled(event_of(rows.turn(item, conversation_id, property_id)), new=False, published=False)

    async def _turn_reaching(self, conversation_id: str, seq: int) -> dict[str, object] | None:
        """The turn that settled a message saved before it. Rare, so it reads all turns."""
        query = Query(keys.conversation(conversation_id), within=all_starting(keys.TURNS))
        async for item in self._table.items(query):
            if item["lastSeq"] >= seq:
                return item
        return None

    async def _message(self, conversation_id: str, seq: int) -> Attributes | None:
        query = Query(
            keys.conversation(conversation_id),
            within=all_starting(keys.MESSAGES),
            newest_first=True,
            only=equals("seq", value=seq),
        )
        async for item in self._table.items(query):
            return item
        return None

    async def _note_month(self, plan: WritePlan, layouts: RecencyLayouts) -> None:
        """Record a month before its first row is written, so readers of that layout miss none."""
        if plan.row_at is None or not layouts.monthly:
            return
        month = month_of(plan.row_at)
        if month not in self._months:
            await self._table.write(put(keys.month(month), {"kind": "recency month"}))
            self._months.add(month)

    async def _note_kinds(self, jobs: JobsToAdd) -> None:
        """Record a kind before its first job is written, so counts miss none."""
        for kind in {kind for kind, _ in jobs} - self._kinds:
            await self._table.write(put(keys.job_kind(kind), {"kind": "job kind", "name": kind}))
            self._kinds.add(kind)

    def _keep(self, conversation_id: str, head: ConversationHead) -> None:
        self._heads[conversation_id] = head
        self._heads.move_to_end(conversation_id)
        while len(self._heads) > self._remember:
            self._heads.popitem(last=False)

    @asynccontextmanager
    async def _alone(self, conversation_id: str) -> AsyncIterator[None]:
        """One writer at a time for each conversation in this process: concurrent ones would only conflict."""
        lock = self._locks.setdefault(conversation_id, asyncio.Lock())
        async with lock:
            yield


def _parts(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages in parts that each fit a transaction; one empty part if there are none."""
    parts: list[list[Message]] = [[]]
    size = 0
    for message in messages:
        message_size = len(message.text.encode()) + 1000
        if len(parts[-1]) == MAX_TURN_MESSAGES or (parts[-1] and size + message_size > _MAX_SAVED_BYTES):
            parts.append([])
            size = 0
        parts[-1].append(message)
        size += message_size
    return parts


def _patch_attributes(patch: ConversationPatch, message_count: int) -> Attributes:
    """The attributes that a patch writes. The row can move in the property index, not in the recency index."""
    changes = patch.changes
    sets: Attributes = {}
    if "assignee" in changes:
        sets["assignee"] = patch.assignee
    if "property_id" in changes:
        sets |= {"propertyId": patch.property_id, "propertyPinned": True}
        sets[PROPERTY_RECENCY.pk] = keys.of_property(patch.property_id)
    if "status" in changes:
        is_closed = patch.status is Status.CLOSED
        sets |= {"status": patch.status.value, "closedSeq": message_count if is_closed else None}
    return sets
