"""The keeping half of the store: notes. Each is one item, written where no note of its rank or above stands there."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from afterturn.aws.table import TTL_ATTRIBUTE
from afterturn.clock import Clock
from afterturn.store.dynamodb import keys
from afterturn.store.dynamodb.requests import IS_NEW, any_of, below, put
from afterturn.store.dynamodb.table import Table, WriteConflict
from afterturn.store.kept import Note


class Noting:
    """``clock``: tells until when a note is kept; DynamoDB removes it after that."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def note(self, given: Note, dump: str) -> bool:
        """``dump``: its value as JSON."""
        place = keys.note(given.name, given.key)
        call = uuid.uuid4().hex
        item = {"kind": "note", "value": dump, "rank": given.rank, "call": call}
        if given.kept is not None:
            item[TTL_ATTRIBUTE] = int((self._clock() + given.kept).timestamp()) + 1
        is_lower = below("rank", value=given.rank + 1 if given.replace else given.rank)

        async def unit() -> bool:
            try:
                await self._table.write(put(place, item, any_of(IS_NEW, is_lower)))
            except WriteConflict as conflict:
                if not conflict.is_condition:
                    raise
                standing = conflict.item or await self._table.get(place)
                if standing is None:
                    raise
                return standing.get("call") == call  # our own write, whose answer was lost
            return True

        return await self._table.until_done(unit)

    async def noted(self, name: str, wanted: Sequence[str]) -> Mapping[str, JsonValue]:
        return (await self.notes({name: wanted}))[name]

    async def notes(self, wanted: Mapping[str, Sequence[str]]) -> Mapping[str, Mapping[str, JsonValue]]:
        places = {keys.note(name, key): (name, key) for name, some in wanted.items() for key in some}
        found: dict[str, dict[str, JsonValue]] = {name: {} for name in wanted}
        for place, item in (await self._table.get_many(places)).items():
            name, key = places[place]
            found[name][key] = json.loads(item["value"])
        return found
