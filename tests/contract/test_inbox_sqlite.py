"""The inbox over a SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.contract.inbox.machine import InboxMachine
from tests.contract.inbox.pages import FilterContract, PageContract, clock, inbox
from tests.contract.machines import fast_folder, long_runs

from afterturn.sqlite.database import Database
from afterturn.store.port import Store
from afterturn.store.sqlite import SqliteStore

__all__ = ["clock", "inbox"]


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    with fast_folder() as folder, Database.open(folder / "afterturn.db") as database:
        yield SqliteStore(database)


class TestSqlitePages(PageContract):
    pass


class TestSqliteFilters(FilterContract):
    pass


class SqliteInboxMachine(InboxMachine):
    def open_store(self) -> Store:
        self.database = Database.open(self.folder / "afterturn.db", readers=1)
        return SqliteStore(self.database)

    def close(self) -> None:
        if hasattr(self, "database"):
            self.database.close()


TestSqliteInboxMachine = SqliteInboxMachine.TestCase
TestSqliteInboxMachine.settings = long_runs(60, 50)
