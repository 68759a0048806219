"""Typed state, opt-outs and the job queue.

A state record is one item, written unless one of a higher version is stored. A job is two items. One makes it known,
and stays when the job is done. The other waits in the partition of its kind, in the order in which jobs are leased:
leasing it or handing it back moves it there, completing it deletes it. It holds its lease, and a change is conditional
on that. Reads are consistent, so a job that was written can be leased at once.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from afterturn.aws.table import TTL_ATTRIBUTE
from afterturn.clock import Clock, to_text
from afterturn.model import Channel
from afterturn.store import invariants
from afterturn.store.dynamodb import keys, rows
from afterturn.store.dynamodb.keys import Key
from afterturn.store.dynamodb.requests import (
    IS_NEW,
    IS_THERE,
    Attributes,
    Condition,
    Query,
    WriteAction,
    all_of,
    any_of,
    below,
    delete,
    equals,
    put,
    unchanged,
    update,
)
from afterturn.store.dynamodb.table import Table, WriteConflict
from afterturn.store.jobs import Job, LeasedJob, WaitingJob
from afterturn.store.state import OptOut, OptOutKey, StateRecord, StateRecords, Ties, TypedReads, dump_state, load_state


class StateTable(TypedReads):
    """The part of the store that keeps typed state and opt-outs. DynamoDB removes an item after its record expires."""

    _table: Table
    _clock: Clock

    async def put_all(self, records: Sequence[StateRecord]) -> Sequence[bool]:
        dumps = [dump_state(record) for record in records]  # an invalid record is refused before any is written
        return await asyncio.gather(*map(self._put_record, records, dumps))

    async def _put_record(self, record: StateRecord, dump: str) -> bool:
        item: Attributes = {"kind": "state", "value": dump, "version": record.version}
        if record.kept_for is not None:
            item[TTL_ATTRIBUTE] = int((self._clock() + record.kept_for).timestamp()) + 1
        bound = record.version + 1 if record.ties is Ties.LAST else record.version
        return await self._put(keys.state(record.kind, record.key), item, below("version", value=bound))

    async def get_many(self, keys_by_kind: Mapping[type[StateRecord], Collection[str]]) -> StateRecords:
        kinds = {keys.state(kind.kind, key): (kind, key) for kind, names in keys_by_kind.items() for key in names}
        items = await self._table.get_many(kinds)
        return StateRecords(load_state(*kinds[key], item["version"], item["value"]) for key, item in items.items())

    async def put_opt_out(self, opt_out: OptOut) -> bool:
        item = {"kind": "opt-out", **opt_out.to_json()}
        # Fixed width: the text that is longer by one character sorts right behind the time itself.
        is_older = below("at", value=to_text(opt_out.at) + "!")
        return await self._put(keys.opt_out(opt_out.channel, opt_out.address), item, is_older)

    async def opt_out(self, channel: Channel, address: str) -> OptOut | None:
        item = await self._table.get(keys.opt_out(channel, address))
        return None if item is None else _opt_out(item)

    async def opt_outs(self, *, after: OptOutKey | None = None, limit: int) -> tuple[OptOut, ...]:
        above = None if after is None else keys.opt_out(after.channel, after.address)[1]
        items = self._table.items(Query(keys.OPT_OUTS, above=above), limit)
        return tuple([_opt_out(item) async for item in items])

    async def _put(self, key: Key, item: Attributes, condition: Condition) -> bool:
        call = uuid.uuid4().hex

        async def unit() -> bool:
            try:
                await self._table.write(put(key, {**item, "call": call}, any_of(IS_NEW, condition)))
            except WriteConflict as conflict:
                if not conflict.is_condition:
                    raise
                stored = conflict.item or await self._table.get(key)
                if stored is None:
                    raise
                return stored.get("call") == call  # our own write, whose response was lost
            return True

        return await self._table.until_done(unit)


def _opt_out(item: Attributes) -> OptOut:
    return OptOut(**{name: item[name] for name in ("channel", "address", "at")}, opted_out=item["optedOut"])


_PAGE = 25
"""Rows read at once, or more if more are requested: those that others leased meanwhile are skipped."""


class JobTable:
    """The part of the store that keeps jobs. ``_claims_kept``: how long a job is remembered after it was done."""

    _table: Table
    _clock: Clock
    _claims_kept: timedelta

    async def add_jobs(self, jobs: Sequence[Job]) -> None:
        await asyncio.gather(*(self._add_job(job, dump) for job, dump in invariants.jobs_to_add(jobs).values()))

    async def _add_job(self, job: Job, dump: str) -> None:
        await self._table.write(put(keys.job_kind(job.kind), {"kind": "job kind", "name": job.kind}))
        known, call = keys.job(job.kind, job.key), uuid.uuid4().hex
        waiting = keys.waiting_job(job.kind, job.due_at, job.key)
        actions = [put(known, {"kind": "job", "call": call}, IS_NEW), put(waiting, rows.job_item(job, dump))]
        await self._transact(actions, shown_at=known, by=("call", call))

    async def lease_jobs(self, kind: str, *, now: datetime, lease: timedelta, limit: int) -> Sequence[LeasedJob]:
        until, lease_id = invariants.lease_end(now, lease), uuid.uuid4().hex
        due = Query(keys.waiting_jobs(kind), below=to_text(now) + "$")
        leased: list[LeasedJob] = []
        start: Any = None
        while len(leased) < limit:
            items, start = await self._table.query(due, max(limit, _PAGE), start)
            for item in items:
                if len(leased) < limit and await self._lease(item, until, lease_id):
                    fields = rows.job_fields(item)
                    leased.append(LeasedJob(**fields, attempts=item["attempts"] + 1, until=until, lease=lease_id))
            if start is None:
                break
        return leased

    async def complete(self, job: LeasedJob) -> bool:
        known = keys.job(job.kind, job.key)
        forgotten = self._clock() + self._claims_kept
        attributes = {"done": True, "lease": job.lease, TTL_ATTRIBUTE: int(forgotten.timestamp())}
        return await self._transact(
            [delete(_waiting(job), equals("lease", value=job.lease)), update(known, attributes, IS_THERE)],
            shown_at=known,
            by=("lease", job.lease),
        )

    async def retry_later(self, job: LeasedJob, *, until: datetime, attempts: int | None = None) -> bool:
        item = await self._table.get(_waiting(job))
        if item is None or item.get("lease") != job.lease:
            return False
        call = uuid.uuid4().hex
        after = {name: value for name, value in item.items() if name not in ("PK", "SK", "lease")} | {"call": call}
        if attempts is not None:
            after["attempts"] = attempts
        return await self._move(item, until, after, equals("lease", value=job.lease), by=("call", call))

    async def waiting_jobs(self, kind: str, *, limit: int) -> Sequence[WaitingJob]:
        return [
            WaitingJob(**rows.job_fields(item), visible_at=item["SK"].partition("#")[0], attempts=item["attempts"])
            async for item in self._table.items(Query(keys.waiting_jobs(kind)), limit)
        ]

    async def _lease(self, item: Attributes, until: datetime, lease: str) -> bool:
        after = {name: value for name, value in item.items() if name not in ("PK", "SK", "call")}
        after |= {"lease": lease, "attempts": item["attempts"] + 1}
        is_same = all_of(equals("attempts", value=item["attempts"]), unchanged("lease", value=item.get("lease")))
        return await self._move(item, until, after, is_same, by=("lease", lease))

    async def _move(
        self, item: Attributes, visible_at: datetime, after: Attributes, condition: Condition, by: tuple[str, str]
    ) -> bool:
        before = item["PK"], item["SK"]
        key = keys.waiting_job(item["job"], visible_at, item["key"])
        actions = [put(key, after, condition)] if key == before else [delete(before, condition), put(key, after)]
        return await self._transact(actions, shown_at=key, by=by)

    async def _transact(self, actions: Sequence[WriteAction], *, shown_at: Key, by: tuple[str, str]) -> bool:
        """False if somebody else came first. ``shown_at``, ``by``: the item and the attribute that distinguish our own
        write, whose response was lost, from somebody else's."""

        async def unit() -> bool:
            try:
                await self._table.transact(actions)
            except WriteConflict as conflict:
                name, value = by
                if ((await self._table.get(shown_at)) or {}).get(name) == value:
                    return True
                if conflict.is_condition:
                    return False
                raise
            return True

        return await self._table.until_done(unit)


def _waiting(job: LeasedJob) -> Key:
    return keys.waiting_job(job.kind, job.until, job.key)
