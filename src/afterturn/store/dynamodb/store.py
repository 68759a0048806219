"""The store port on one DynamoDB table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from pydantic import JsonValue

from afterturn.aws.backoff import Backoff
from afterturn.aws.session import Access, open_client
from afterturn.aws.table import INDEXES
from afterturn.clock import Clock, system_clock
from afterturn.errors import InvalidRecord, NotFound
from afterturn.model import (
    Channel,
    Conversation,
    ConversationMeta,
    ConversationPatch,
    Message,
    SendProblem,
    SettledTurn,
    Stamp,
    Turn,
    WorkOrder,
    check_id,
)
from afterturn.store import invariants
from afterturn.store.dynamodb.layout import FixedLayouts, LayoutSource, RecencyLayouts, TableLayouts
from afterturn.store.dynamodb.reader import ConversationReader
from afterturn.store.dynamodb.requests import encodable
from afterturn.store.dynamodb.stamps import StampStore
from afterturn.store.dynamodb.state import Jobs, State
from afterturn.store.dynamodb.table import Table
from afterturn.store.dynamodb.writer import ConversationEditor, ConversationWriter
from afterturn.store.port import (
    ConsumerState,
    Failure,
    FailureKey,
    Job,
    LeasedJob,
    OptOut,
    OptOutKey,
    Range,
    ReactionWindow,
    RecencyKey,
    Registration,
    Settled,
    Slice,
    StateRecord,
    StateRecords,
    WaitingJob,
    WorkOrderKey,
)
from afterturn.store.state import TypedReads, dump_state

CLAIMS_KEPT = timedelta(days=400)
"""Only turns of the last day have effects (see ``effects_max_age``), so a claim has done its work long before."""


@asynccontextmanager
async def open_store(
    name: str, access: Access | None = None, *, layouts: RecencyLayouts | None = None
) -> AsyncIterator[DynamoStore]:
    """The store in the table ``name``, closed when the block ends.

    ``layouts``: the layouts of the recency index; None: read them from the table and follow their changes. Raises
    MissingExtra, and StoreError with advice if the table is missing, foreign or lacks an index, or if credentials or
    endpoint do not work.
    """
    async with open_client("dynamodb", access or Access()) as client:
        table = Table(client, name)
        layout_source = TableLayouts(table) if layouts is None else FixedLayouts(layouts)
        indexes = (*INDEXES, *(await layout_source.current()).indexes)
        await table.check({index.name: index for index in indexes}.values())
        yield DynamoStore(table, layout_source=layout_source)


class DynamoStore(TypedReads):
    """The store on a DynamoDB table. The port documents the methods, :mod:`keys` the items.

    The stream is not in the same database, so ``settle`` never publishes.
    """

    def __init__(
        self,
        table: Table,
        *,
        layouts: RecencyLayouts | None = None,
        layout_source: LayoutSource | None = None,
        clock: Clock = system_clock,
        claims_kept: timedelta = CLAIMS_KEPT,
    ) -> None:
        layout_source = layout_source or FixedLayouts(layouts or RecencyLayouts())
        self._writer = ConversationWriter(table, layout_source)
        self._stamps = StampStore(table, clock, claims_kept)
        self._state = State(table, clock)
        self._editor = ConversationEditor(table)
        self._jobs = Jobs(table, clock, claims_kept)
        self._reader = ConversationReader(table, layout_source)

    @classmethod
    def on(cls, client: Any, name: str, *, backoff: Backoff | None = None, **options: Any) -> DynamoStore:
        """The store on a table, with a client that the caller opens and closes."""
        return cls(Table(client, name, backoff), **options)

    async def save_conversation(self, meta: ConversationMeta, *, now: datetime) -> Conversation:
        return await self._writer.save_conversation(meta, now)

    async def save_messages(
        self, meta: ConversationMeta, messages: Sequence[Message], *, now: datetime, jobs: Sequence[Job] = ()
    ) -> int:
        return await self._writer.save_messages(meta, messages, now, invariants.jobs_to_add(jobs))

    async def settle(self, turn: Turn, *, now: datetime, emitter: str, jobs: Sequence[Job] = ()) -> Settled:
        return await self._writer.settle(turn, now, emitter, invariants.jobs_to_add(jobs))

    async def edit_message(self, conversation_id: str, provider_id: str, text: str, *, at: datetime) -> bool:
        text, at = invariants.edit_of(text, at)
        if not (_is_id(conversation_id) and _is_id(provider_id)):
            return False
        return await self._editor.edit_message(conversation_id, provider_id, text, at)

    async def meta(self, conversation_id: str) -> ConversationMeta | None:
        conversation = await self.conversation(conversation_id)
        if conversation is None:
            return None
        return ConversationMeta(**{name: getattr(conversation, name) for name in ConversationMeta.model_fields})

    async def window(self, conversation_id: str, consumer: str) -> ReactionWindow | None:
        return await self._stamps.window(conversation_id, consumer) if _is_id(conversation_id) else None

    async def stamp(
        self, conversation_id: str, consumer: str, stamp: Stamp, *, through: datetime, now: datetime
    ) -> bool:
        return _is_id(conversation_id) and await self._stamps.stamp(conversation_id, consumer, stamp, through, now)

    async def fail(self, conversation_id: str, consumer: str, *, through: datetime, error: str, now: datetime) -> None:
        if _is_id(conversation_id):
            await self._stamps.fail(conversation_id, consumer, through, error, now)

    async def request(self, conversation_id: str, consumers: Sequence[str], *, now: datetime) -> None:
        if _is_id(conversation_id):
            await self._stamps.request(conversation_id, consumers, now)

    async def claim(self, name: str, key: str, value: JsonValue = None) -> JsonValue:
        return await self._stamps.claim(encodable(name), encodable(key), value)

    async def claim_done(self, name: str, key: str) -> bool:
        return await self._stamps.claim_done(encodable(name), encodable(key))

    async def finish_claim(self, name: str, key: str) -> None:
        await self._stamps.finish_claim(encodable(name), encodable(key))

    async def register(self, registrations: Sequence[Registration]) -> None:
        await self._stamps.register(registrations)

    async def set_state(self, consumer: str, state: ConsumerState) -> None:
        await self._stamps.set_state(encodable(consumer), state)

    async def get_many(self, keys: Mapping[type[StateRecord], Collection[str]]) -> StateRecords:
        return await self._state.get_many({kind: [encodable(key) for key in some] for kind, some in keys.items()})

    async def put_all(self, records: Sequence[StateRecord]) -> Sequence[bool]:
        given = [(record, dump_state(record)) for record in records]
        return await asyncio.gather(*(self._state.put(record, dump) for record, dump in given))

    async def put_opt_out(self, opt_out: OptOut) -> bool:
        return await self._state.put_opt_out(opt_out)

    async def opt_out(self, channel: Channel, address: str) -> OptOut | None:
        return await self._state.opt_out(channel, encodable(address))

    async def opt_outs(self, *, after: OptOutKey | None = None, limit: int) -> tuple[OptOut, ...]:
        return await self._state.opt_outs(after, limit)

    async def add_jobs(self, jobs: Sequence[Job]) -> None:
        await asyncio.gather(*(self._jobs.add(*each) for each in invariants.jobs_to_add(jobs).values()))

    async def lease_jobs(self, kind: str, *, now: datetime, lease: timedelta, limit: int) -> Sequence[LeasedJob]:
        return await self._jobs.lease(encodable(kind), now, invariants.lease_end(now, lease), limit)

    async def complete(self, job: LeasedJob) -> bool:
        return await self._jobs.complete(job)

    async def retry_later(self, job: LeasedJob, *, until: datetime, attempts: int | None = None) -> bool:
        return await self._jobs.retry_later(job, until, attempts)

    async def waiting_jobs(self, kind: str, *, limit: int) -> Sequence[WaitingJob]:
        return await self._jobs.waiting(encodable(kind), limit)

    async def patch_conversation(
        self, conversation_id: str, patch: ConversationPatch, *, revision: int | None, now: datetime
    ) -> Conversation:
        if not _is_id(conversation_id):
            raise NotFound(f"no conversation {conversation_id!r}")
        return await self._editor.patch_conversation(conversation_id, patch, revision, now)

    async def set_send_problem(self, conversation_id: str, message_id: str, problem: SendProblem | None) -> None:
        if _is_id(conversation_id):
            await self._editor.set_send_problem(conversation_id, message_id, problem)

    async def close_work_order(self, conversation_id: str, order_id: str, *, now: datetime) -> WorkOrder | None:
        if not (_is_id(conversation_id) and _is_id(order_id)):
            return None
        return await self._editor.close_work_order(conversation_id, order_id, now)

    async def conversation(self, conversation_id: str) -> Conversation | None:
        return await self._reader.conversation(conversation_id) if _is_id(conversation_id) else None

    async def messages(self, conversation_id: str, *, limit: int | None = None) -> tuple[Message, ...]:
        return await self._reader.messages(conversation_id, limit) if _is_id(conversation_id) else ()

    async def turns(
        self, conversation_id: str, *, after: datetime | None = None, limit: int
    ) -> tuple[SettledTurn, ...]:
        return await self._reader.turns(conversation_id, after, limit) if _is_id(conversation_id) else ()

    async def recency(self, part: Range, *, before: RecencyKey | None = None, limit: int) -> Slice:
        return await self._reader.recency(part, before, limit)

    async def scan(self, *, after: str | None = None, limit: int) -> tuple[Conversation, ...]:
        return await self._reader.scan(after, limit)

    async def failures(self, *, after: FailureKey | None = None, limit: int) -> tuple[Failure, ...]:
        return await self._stamps.failures(after, limit)

    async def work_orders(
        self,
        *,
        conversation_id: str | None = None,
        open_only: bool = True,
        after: WorkOrderKey | None = None,
        limit: int,
    ) -> tuple[WorkOrder, ...]:
        if conversation_id is not None and not _is_id(conversation_id):
            return ()
        return await self._reader.work_orders(conversation_id, open_only, after, limit)

    async def registrations(self) -> Mapping[str, Registration]:
        return await self._stamps.registrations()

    async def checkpoint(self, name: str) -> datetime | None:
        return await self._stamps.checkpoint(encodable(name))

    async def save_checkpoint(self, name: str, at: datetime) -> None:
        await self._stamps.save_checkpoint(encodable(name), at)

    async def counts(self) -> Mapping[str, int]:
        return await self._reader.counts()


def _is_id(text: str) -> bool:
    """Whether this is a valid conversation id; raises InvalidRecord for text that cannot be encoded."""
    try:
        check_id(encodable(text))
    except InvalidRecord:
        raise
    except ValueError:
        return False
    return True
