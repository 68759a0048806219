"""The job queue.

A job is two items. One makes it known, and stays when it is done. The other waits in the partition of its kind, in
the order in which jobs can be taken, and is moved there by whoever takes it or puts it off; done, it is removed. It
bears the lease of its taker, and what changes it holds only if that is still so. Reads are consistent: what was written
can be taken at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from afterturn.aws.table import TTL_ATTRIBUTE
from afterturn.clock import Clock, to_text
from afterturn.store.dynamodb import keys, rows
from afterturn.store.dynamodb.attributes import Plain
from afterturn.store.dynamodb.keys import Key
from afterturn.store.dynamodb.requests import (
    IS_NEW,
    IS_THERE,
    Condition,
    Query,
    WriteAction,
    all_of,
    delete,
    equals,
    put,
    unchanged,
    update,
)
from afterturn.store.dynamodb.table import Table, WriteConflict
from afterturn.store.jobs import Job, LeasedJob, WaitingJob

_PAGE = 25
"""Rows looked at for one request, or as many as are wanted: those that others took meanwhile are passed over."""


class Jobs:
    """``done_kept``: after that time DynamoDB may forget that a job was done."""

    def __init__(self, table: Table, clock: Clock, done_kept: timedelta) -> None:
        self._table = table
        self._clock = clock
        self._done_kept = done_kept

    async def add(self, job: Job, dump: str) -> None:
        """``dump``: its value as JSON."""
        await self._table.write(put(keys.job_kind(job.kind), {"kind": "job kind", "name": job.kind}))
        known, call = keys.job(job.kind, job.key), uuid.uuid4().hex
        waiting = keys.waiting_job(job.kind, job.due_at, job.key)
        actions = [put(known, {"kind": "job", "call": call}, IS_NEW), put(waiting, rows.job_item(job, dump))]
        await self._carry_out(actions, shown_at=known, by=("call", call))

    async def lease(self, kind: str, now: datetime, until: datetime, limit: int) -> Sequence[LeasedJob]:
        lease = uuid.uuid4().hex
        due = Query(keys.waiting_jobs(kind), below=to_text(now) + "$")
        taken: list[LeasedJob] = []
        start: Any = None
        while len(taken) < limit:
            found, start = await self._table.query(due, max(limit, _PAGE), start)
            for item in found:
                if len(taken) < limit and await self._take(item, until, lease):
                    fields = rows.job_fields(item)
                    taken.append(LeasedJob(**fields, attempts=item["attempts"] + 1, until=until, lease=lease))
            if start is None:
                break
        return taken

    async def complete(self, taken: LeasedJob) -> bool:
        known = keys.job(taken.kind, taken.key)
        forgotten = self._clock() + self._done_kept
        attributes = {"done": True, "lease": taken.lease, TTL_ATTRIBUTE: int(forgotten.timestamp())}
        return await self._carry_out(
            [delete(_place(taken), equals("lease", value=taken.lease)), update(known, attributes, IS_THERE)],
            shown_at=known,
            by=("lease", taken.lease),
        )

    async def retry_later(self, taken: LeasedJob, until: datetime, attempts: int | None) -> bool:
        item = await self._table.get(_place(taken))
        if item is None or item.get("lease") != taken.lease:
            return False
        call = uuid.uuid4().hex
        after = {name: value for name, value in item.items() if name not in ("PK", "SK", "lease")} | {"call": call}
        if attempts is not None:
            after["attempts"] = attempts
        return await self._move(item, until, after, equals("lease", value=taken.lease), by=("call", call))

    async def waiting(self, kind: str, limit: int) -> Sequence[WaitingJob]:
        return [
            WaitingJob(**rows.job_fields(item), visible_at=item["SK"].partition("#")[0], attempts=item["attempts"])
            async for item in self._table.items(Query(keys.waiting_jobs(kind)), limit)
        ]

    async def _take(self, item: Plain, until: datetime, lease: str) -> bool:
        after = {name: value for name, value in item.items() if name not in ("PK", "SK", "call")}
        after |= {"lease": lease, "attempts": item["attempts"] + 1}
        is_same = all_of(equals("attempts", value=item["attempts"]), unchanged("lease", value=item.get("lease")))
        return await self._move(item, until, after, is_same, by=("lease", lease))

    async def _move(
        self, item: Plain, visible_at: datetime, after: Plain, condition: Condition, by: tuple[str, str]
    ) -> bool:
        before = item["PK"], item["SK"]
        place = keys.waiting_job(item["job"], visible_at, item["key"])
        actions = [put(place, after, condition)] if place == before else [delete(before, condition), put(place, after)]
        return await self._carry_out(actions, shown_at=place, by=by)

    async def _carry_out(self, actions: Sequence[WriteAction], *, shown_at: Key, by: tuple[str, str]) -> bool:
        """False where somebody else came first. ``shown_at``, ``by``: the item and the attribute that tell our own
        write, whose answer was lost, from somebody else's."""

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


def _place(taken: LeasedJob) -> Key:
    return keys.waiting_job(taken.kind, taken.until, taken.key)
