"""The store contract on a SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from tests.contract.samples import T0
from tests.contract.store.edits import EditContract
from tests.contract.store.factory import StoreFactory
from tests.contract.store.jobs import AddingContract, TakingContract
from tests.contract.store.patches import PatchContract, PatchedIndexContract
from tests.contract.store.previews import PreviewContract
from tests.contract.store.reads import ReadContract, RecencyContract
from tests.contract.store.reply_locks import AskingContract
from tests.contract.store.stamps import StampContract, WindowContract
from tests.contract.store.state import Expiring, FirstWins, OptOutContract, StateContract
from tests.contract.store.turns import SavingContract, SettleContract
from tests.contract.store.work_orders import CloseContract

from afterturn.sqlite.database import Database
from afterturn.store.port import Store
from afterturn.store.sqlite import SqliteStore


class SqliteFactory:
    """One file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        with Database.open(self.path) as database:
            yield SqliteStore(database)


@pytest.fixture
def factory(tmp_path: Path) -> StoreFactory:
    return SqliteFactory(tmp_path / "afterturn.db")


@pytest.fixture
async def store(factory: StoreFactory) -> AsyncIterator[Store]:
    async with factory.open() as opened:
        yield opened


class TestSqliteSettle(SettleContract):
    pass


class TestSqliteSaving(SavingContract):
    pass


class TestSqliteWindow(WindowContract):
    pass


class TestSqliteStamp(StampContract):
    pass


class TestSqliteState(StateContract):
    async def test_an_expired_record_is_deleted(self, tmp_path: Path) -> None:
        """When the next record that can expire is written; otherwise a file would keep all of them."""
        now = T0
        with Database.open(tmp_path / "a.db") as database:
            store = SqliteStore(database, clock=lambda: now)
            await store.put_all([Expiring(key="old"), FirstWins(key="kept")])
            now = T0 + timedelta(hours=23)
            await store.put(Expiring(key="young"))
            assert set(await store.get_all(Expiring, ["old", "young"])) == {"old", "young"}
            now = T0 + timedelta(hours=25)
            await store.put(Expiring(key="next"))
            assert set(await store.get_all(Expiring, ["old", "young"])) == {"young"}
            assert await store.get(FirstWins, "kept") is not None


class TestSqliteOptOuts(OptOutContract):
    pass


class TestSqliteJobsAdded(AddingContract):
    pass


class TestSqliteJobsTaken(TakingContract):
    pass


class TestSqliteEdits(EditContract):
    pass


class TestSqlitePreview(PreviewContract):
    pass


class TestSqlitePatch(PatchContract):
    pass


class TestSqlitePatchedIndex(PatchedIndexContract):
    pass


class TestSqliteClose(CloseContract):
    pass


class TestSqliteRecency(RecencyContract):
    pass


class TestSqliteRead(ReadContract):
    pass


class TestSqliteAsking(AskingContract):
    pass
