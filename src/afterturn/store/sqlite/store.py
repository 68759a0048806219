"""The store on a SQLite file: each method is one unit of work."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from pydantic import JsonValue

from afterturn.clock import Clock, from_text, system_clock, to_text
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
)
from afterturn.sqlite.database import Database
from afterturn.store import invariants
from afterturn.store.jobs import Job, LeasedJob, WaitingJob
from afterturn.store.port import (
    ConsumerState,
    Failure,
    FailureKey,
    Range,
    ReactionWindow,
    RecencyKey,
    Registration,
    Settled,
    Slice,
    WorkOrderKey,
)
from afterturn.store.sqlite import rows, stamps, state, writer
from afterturn.store.sqlite.state import add_job
from afterturn.store.sqlite.writer import Outbox
from afterturn.store.state import OptOut, OptOutKey, StateRecord, StateRecords, TypedReads, dump_state


class SqliteStore(TypedReads):
    """The store on a SQLite file. The port documents the methods.

    ``outbox``: publishes the event of a turn in its transaction, if the stream is in the same file.
    ``clock``: tells which state records have expired.
    """

    def __init__(self, database: Database, outbox: Outbox | None = None, clock: Clock = system_clock) -> None:
        self._database = database
        self._outbox = outbox
        self._clock = clock

    async def save_conversation(self, meta: ConversationMeta, *, now: datetime) -> Conversation:
        return await self._database.write(lambda c: writer.save_conversation(c, meta, now))

    async def save_messages(
        self, meta: ConversationMeta, messages: Sequence[Message], *, now: datetime, jobs: Sequence[Job] = ()
    ) -> int:
        to_add = invariants.jobs_to_add(jobs).values()
        return await self._database.write(lambda c: writer.save_messages(c, meta, messages, now, to_add))

    async def settle(self, turn: Turn, *, now: datetime, emitter: str, jobs: Sequence[Job] = ()) -> Settled:
        to_add = invariants.jobs_to_add(jobs).values() if jobs else ()
        return await self._database.write(lambda c: writer.settle(c, turn, now, emitter, self._outbox, to_add))

    async def edit_message(self, conversation_id: str, provider_id: str, text: str, *, at: datetime) -> bool:
        text, at = invariants.edit_of(text, at)
        return await self._database.write(lambda c: writer.edit_message(c, conversation_id, provider_id, text, at))

    async def meta(self, conversation_id: str) -> ConversationMeta | None:
        return await self._database.read(lambda c: writer.meta(c, conversation_id))

    async def window(self, conversation_id: str, consumer: str) -> ReactionWindow | None:
        return await self._database.read(lambda c: stamps.window(c, conversation_id, consumer))

    async def stamp(
        self, conversation_id: str, consumer: str, stamp: Stamp, *, through: datetime, now: datetime
    ) -> bool:
        return await self._database.write(lambda c: stamps.stamp(c, conversation_id, consumer, stamp, through, now))

    async def fail(self, conversation_id: str, consumer: str, *, through: datetime, error: str, now: datetime) -> None:
        await self._database.write(lambda c: stamps.fail(c, conversation_id, consumer, through, error, now))

    async def request(self, conversation_id: str, consumers: Sequence[str], *, now: datetime) -> None:
        await self._database.write(lambda c: stamps.request(c, conversation_id, consumers, now))

    async def claim(self, name: str, key: str, value: JsonValue = None) -> JsonValue:
        return await self._database.write(lambda c: stamps.claim(c, name, key, value))

    async def claim_done(self, name: str, key: str) -> bool:
        return await self._database.read(lambda c: stamps.claim_done(c, name, key))

    async def finish_claim(self, name: str, key: str) -> None:
        await self._database.write(lambda c: stamps.finish_claim(c, name, key))

    async def register(self, registrations: Sequence[Registration]) -> None:
        await self._database.write(lambda c: stamps.register(c, registrations))

    async def set_state(self, consumer: str, state: ConsumerState) -> None:
        await self._database.write(lambda c: stamps.set_state(c, consumer, state))

    async def get_many(self, keys: Mapping[type[StateRecord], Collection[str]]) -> StateRecords:
        return await self._database.read(lambda c: state.get_many(c, keys))

    async def put_all(self, records: Sequence[StateRecord]) -> Sequence[bool]:
        dumped = [(record, dump_state(record)) for record in records]
        now = self._clock()
        return await self._database.write(lambda c: [state.put(c, record, dump, now) for record, dump in dumped])

    async def put_opt_out(self, opt_out: OptOut) -> bool:
        return await self._database.write(lambda c: state.put_opt_out(c, opt_out))

    async def opt_out(self, channel: Channel, address: str) -> OptOut | None:
        return await self._database.read(lambda c: state.opt_out(c, channel, address))

    async def opt_outs(self, *, after: OptOutKey | None = None, limit: int) -> tuple[OptOut, ...]:
        return await self._database.read(lambda c: state.opt_outs(c, after, limit))

    async def add_jobs(self, jobs: Sequence[Job]) -> None:
        to_add = invariants.jobs_to_add(jobs).values()

        def unit(connection: sqlite3.Connection) -> None:
            for job, dump in to_add:
                add_job(connection, job, dump)

        await self._database.write(unit)

    async def lease_jobs(self, kind: str, *, now: datetime, lease: timedelta, limit: int) -> Sequence[LeasedJob]:
        until, name = invariants.lease_end(now, lease), uuid.uuid4().hex
        return await self._database.write(lambda c: state.lease(c, kind, now, until, name, limit))

    async def complete(self, job: LeasedJob) -> bool:
        return await self._database.write(lambda c: state.complete(c, job.kind, job.key, job.lease))

    async def retry_later(self, job: LeasedJob, *, until: datetime, attempts: int | None = None) -> bool:
        return await self._database.write(lambda c: state.retry_later(c, job, until, attempts))

    async def waiting_jobs(self, kind: str, *, limit: int) -> Sequence[WaitingJob]:
        return await self._database.read(lambda c: state.waiting(c, kind, limit))

    async def patch_conversation(
        self, conversation_id: str, patch: ConversationPatch, *, revision: int | None, now: datetime
    ) -> Conversation:
        return await self._database.write(lambda c: writer.patch_conversation(c, conversation_id, patch, revision, now))

    async def set_send_problem(self, conversation_id: str, message_id: str, problem: SendProblem | None) -> None:
        await self._database.write(lambda c: writer.set_send_problem(c, conversation_id, message_id, problem))

    async def close_work_order(self, conversation_id: str, order_id: str, *, now: datetime) -> WorkOrder | None:
        return await self._database.write(lambda c: writer.close_work_order(c, conversation_id, order_id, now))

    async def conversation(self, conversation_id: str) -> Conversation | None:
        return await self._database.read(lambda c: writer.find(c, conversation_id))

    async def messages(self, conversation_id: str, *, limit: int | None = None) -> tuple[Message, ...]:
        def unit(connection: sqlite3.Connection) -> tuple[Message, ...]:
            newest_first = connection.execute(
                f"SELECT {rows.MESSAGE} FROM messages WHERE conversation_id = ? ORDER BY at DESC, seq DESC LIMIT ?",
                (conversation_id, -1 if limit is None else limit),
            ).fetchall()
            return tuple(rows.message(row) for row in reversed(newest_first))

        return await self._database.read(unit)

    async def turns(
        self, conversation_id: str, *, after: datetime | None = None, limit: int
    ) -> tuple[SettledTurn, ...]:
        def unit(connection: sqlite3.Connection) -> tuple[SettledTurn, ...]:
            cursor = connection.execute(
                f"SELECT {rows.TURN} FROM turns t JOIN conversations c ON c.id = t.conversation_id "
                "WHERE t.conversation_id = ? AND occurred_at > ? ORDER BY occurred_at LIMIT ?",
                (conversation_id, rows.text_or_none(after) or "", limit),
            )
            return tuple(rows.turn(row) for row in cursor)

        return await self._database.read(unit)

    async def recency(self, part: Range, *, before: RecencyKey | None = None, limit: int) -> Slice:
        where, values = rows.recency_conditions(part, before)

        def unit(connection: sqlite3.Connection) -> Slice:
            fetched = connection.execute(
                f"SELECT {rows.CONVERSATION} FROM conversations WHERE {where} ORDER BY recency DESC, id DESC LIMIT ?",
                (*values, limit),
            ).fetchall()
            return Slice(rows=rows.conversations(connection, fetched), exhausted=len(fetched) < limit)

        return await self._database.read(unit)

    async def scan(self, *, after: str | None = None, limit: int) -> tuple[Conversation, ...]:
        def unit(connection: sqlite3.Connection) -> tuple[Conversation, ...]:
            fetched = connection.execute(
                f"SELECT {rows.CONVERSATION} FROM conversations WHERE id > ? ORDER BY id LIMIT ?",
                (after or "", limit),
            ).fetchall()
            return rows.conversations(connection, fetched)

        return await self._database.read(unit)

    async def failures(self, *, after: FailureKey | None = None, limit: int) -> tuple[Failure, ...]:
        beyond = "" if after is None else "AND (consumer, conversation_id) > (?, ?) "
        values = () if after is None else (after.consumer, after.conversation_id)

        def unit(connection: sqlite3.Connection) -> tuple[Failure, ...]:
            cursor = connection.execute(
                "SELECT conversation_id, consumer, failed_through, error FROM stamps WHERE failed_through IS NOT NULL "
                f"{beyond}ORDER BY consumer, conversation_id LIMIT ?",
                (*values, limit),
            )
            return tuple(Failure(row[0], row[1], from_text(row[2]), row[3]) for row in cursor)

        return await self._database.read(unit)

    async def work_orders(
        self,
        *,
        conversation_id: str | None = None,
        open_only: bool = True,
        after: WorkOrderKey | None = None,
        limit: int,
    ) -> tuple[WorkOrder, ...]:
        where = "status = 'open'" if open_only else "1"
        values: list[object] = []
        if conversation_id is not None:
            where += " AND conversation_id = ?"
            values.append(conversation_id)
        if after is not None:
            where += " AND (urgency_rank, opened_at, id) > (?, ?, ?)"
            values += [after.rank, to_text(after.opened_at), after.order_id]

        def unit(connection: sqlite3.Connection) -> tuple[WorkOrder, ...]:
            cursor = connection.execute(
                f"SELECT {rows.WORK_ORDER} FROM work_orders WHERE {where} ORDER BY urgency_rank, opened_at, id LIMIT ?",
                (*values, limit),
            )
            return tuple(rows.work_order(row) for row in cursor)

        return await self._database.read(unit)

    async def registrations(self) -> Mapping[str, Registration]:
        return await self._database.read(stamps.registrations)

    async def checkpoint(self, name: str) -> datetime | None:
        def unit(connection: sqlite3.Connection) -> datetime | None:
            row = connection.execute("SELECT at FROM checkpoints WHERE name = ?", (name,)).fetchone()
            return None if row is None else from_text(row[0])

        return await self._database.read(unit)

    async def save_checkpoint(self, name: str, at: datetime) -> None:
        await self._database.write(
            lambda c: (
                c.execute(
                    "INSERT INTO checkpoints (name, at) VALUES (?,?) ON CONFLICT (name) DO UPDATE SET at=excluded.at",
                    (name, to_text(at)),
                ).rowcount
            )
        )

    async def counts(self) -> Mapping[str, int]:
        def unit(connection: sqlite3.Connection) -> dict[str, int]:
            return {
                name: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for name, table in {
                    "conversations": "conversations",
                    "messages": "messages",
                    "turns": "turns",
                    "stamps": "stamps WHERE through IS NOT NULL",
                    "openWorkOrders": "work_orders WHERE status = 'open'",
                    "jobs": "jobs WHERE done = 0",
                }.items()
            }

        return await self._database.read(unit)
