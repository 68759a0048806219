"""Typed state and opt-outs. Each record is one item, written unless one of a higher version is stored."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping

from afterturn.aws.table import TTL_ATTRIBUTE
from afterturn.clock import Clock, to_text
from afterturn.model import Channel
from afterturn.store.dynamodb import keys
from afterturn.store.dynamodb.attributes import Plain
from afterturn.store.dynamodb.keys import Key
from afterturn.store.dynamodb.requests import IS_NEW, Condition, Query, any_of, below, put
from afterturn.store.dynamodb.table import Table, WriteConflict
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
