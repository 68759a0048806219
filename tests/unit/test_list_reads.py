"""What a page of a list costs: a seek to its place and its own rows, however much there is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pytest
from tests.contract.machines import fast_folder
from tests.contract.samples import T0

from afterturn.sqlite.database import Database
from afterturn.store.port import FailureKey, WorkOrderKey
from afterturn.store.sqlite import SqliteStore

T = TypeVar("T")


class RecordingDatabase:
    """A database that takes down what its reads ask."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.asked: list[str] = []

    async def read(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        def traced(connection: sqlite3.Connection) -> T:
            connection.set_trace_callback(self.asked.append)
            try:
                return unit(connection)
            finally:
                connection.set_trace_callback(None)

        return await self._database.read(traced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


@pytest.mark.parametrize("after", [None, "w5"])
@pytest.mark.parametrize("asked", ["open orders", "all orders", "failures"])
async def test_a_page_seeks_its_place_and_sorts_nothing(after: str | None, asked: str) -> None:
    with fast_folder() as folder, Database.open(folder / "afterturn.db") as database:
        watched = RecordingDatabase(database)
        store = SqliteStore(cast("Database", watched))
        place = None if after is None else WorkOrderKey(1, T0, after)
        if asked == "failures":
            await store.failures(after=None if after is None else FailureKey("topics", after), limit=5)
        else:
            await store.work_orders(open_only=asked == "open orders", after=place, limit=5)
        (sql,) = watched.asked
        steps = await database.read(lambda c: [row[3] for row in c.execute(f"EXPLAIN QUERY PLAN {sql}")])
    assert len(steps) == 1
    assert "TEMP B-TREE" not in steps[0]
    assert "USING" in steps[0]
    assert steps[0].startswith("SCAN" if after is None else "SEARCH")
