"""Typed state, opt-outs and the job queue.

A state record is one item, written unless one of a higher version is stored. A job is two items. One makes it known,
and stays when the job is done. The other waits in the partition of its kind, in the order in which jobs are leased:
leasing it or handing it back moves it there, completing it deletes it. It holds its lease, and a change is conditional
on that. Reads are consistent, so a job that was written can be leased at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from afterturn.aws.table import TTL_ATTRIBUTE
from afterturn.clock import Clock, to_text
from afterturn.model import Channel
from afterturn.store.dynamodb import keys, rows
from afterturn.store.dynamodb.keys import Key
from afterturn.store.dynamodb.requests import (
    IS_NEW,
    IS_THERE,
    Condition,
    Plain,
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
from afterturn.store.state import OptOut, OptOutKey, StateRecord, StateRecords, Ties, load_state


class State:
    """``clock``: from it a record's expiry is counted; DynamoDB removes the item after that."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def put(self, record: StateRecord, dump: str) -> bool:
        """``dump``: its value as JSON."""
        item: Plain = {"kind": "state", "value": dump, "version": record.version}
        if record.kept_for is not None:
            item[TTL_ATTRIBUTE] = int((self._clock() + record.kept_for).timestamp()) + 1
        bound = record.version + 1 if record.ties is Ties.LAST else record.version
        return await self._put(keys.state(record.kind, record.key), item, below("version", value=bound))

    async def get_many(self, wanted: Mapping[type[StateRecord], Collection[str]]) -> StateRecords:
        kinds = {keys.state(kind.kind, key): (kind, key) for kind, some in wanted.items() for key in some}
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

    async def opt_outs(self, after: OptOutKey | None, limit: int) -> tuple[OptOut, ...]:
        above = None if after is None else keys.opt_out(after.channel, after.address)[1]
        found = self._table.items(Query(keys.OPT_OUTS, above=above), limit)
        return tuple([_opt_out(item) async for item in found])

    async def _put(self, key: Key, item: Plain, condition: Condition) -> bool:
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
                return stored.get("call") == call  # our own write, whose answer was lost
            return True

        return await self._table.until_done(unit)


def _opt_out(item: Plain) -> OptOut:
    return OptOut(**{name: item[name] for name in ("channel", "address", "at")}, opted_out=item["optedOut"])


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
