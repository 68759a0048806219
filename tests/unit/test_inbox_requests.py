"""How often the inbox asks the store: each time is a request, where the store is beyond a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, cast

import pytest
from tests.contract.inbox.pages import fill, ids, register
from tests.contract.machines import fast_folder
from tests.contract.samples import at

from afterturn.errors import InvalidQuery
from afterturn.inbox import Inbox, InboxQuery
from afterturn.sqlite.database import Database
from afterturn.store.port import Store
from afterturn.store.sqlite import SqliteStore
from afterturn.testing import ManualClock

KEPT = timedelta(seconds=20)


class CountingStore:
    """A store that counts what it is asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        return getattr(self._store, name)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    with fast_folder() as folder, Database.open(folder / "afterturn.db") as database:
        yield SqliteStore(database)


@pytest.mark.parametrize("rows", [0, 2, 3, 4, 9])
async def test_a_page_and_whether_there_is_a_next_one_take_one_read_of_the_index(store: Store, rows: int) -> None:
    names = [f"c{number}" for number in range(rows)]
    await fill(store, names)
    counted = CountingStore(store)
    page = await Inbox(cast("Store", counted), ManualClock(at(1_000))).page(InboxQuery(limit=3))
    assert ids(page) == names[::-1][:3]
    assert (page.next_cursor is not None) is (rows > 3)
    assert counted.asked["recency"] == 1


async def test_registrations_are_read_once_in_a_while_where_they_are_kept(store: Store) -> None:
    await register(store, "topics")
    counted, clock = CountingStore(store), ManualClock(at(1_000))
    inbox = Inbox(cast("Store", counted), clock, registrations_kept=KEPT)
    for _ in range(3):
        await inbox.page(InboxQuery(owed=("topics",)))
    assert counted.asked["registrations"] == 1
    clock.set(clock() + KEPT)
    await inbox.page(InboxQuery())
    assert counted.asked["registrations"] == 2


async def test_registrations_are_read_for_every_page_where_nothing_is_said(store: Store) -> None:
    counted = CountingStore(store)
    inbox = Inbox(cast("Store", counted), ManualClock(at(1_000)))
    for _ in range(3):
        await inbox.page(InboxQuery())
    assert counted.asked["registrations"] == 3


async def test_a_consumer_that_was_registered_since_is_not_refused(store: Store) -> None:
    await register(store, "topics")
    inbox = Inbox(store, ManualClock(at(1_000)), registrations_kept=KEPT)
    with pytest.raises(InvalidQuery, match="no consumer 'grade' is registered"):
        await inbox.page(InboxQuery(owed=("grade",)))
    await register(store, "grade")
    assert (await inbox.page(InboxQuery(owed=("grade",)))).rows == ()


async def test_a_clock_that_steps_back_does_not_keep_registrations_longer(store: Store) -> None:
    counted, clock = CountingStore(store), ManualClock(at(1_000))
    inbox = Inbox(cast("Store", counted), clock, registrations_kept=KEPT)
    await inbox.page(InboxQuery())
    clock.set(at(500))
    await inbox.page(InboxQuery())
    assert counted.asked["registrations"] == 2
