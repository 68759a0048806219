"""A store, its search and an inbox over both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.contract.inbox.pages import ids, walk
from tests.contract.machines import fast_folder
from tests.contract.samples import at, message
from tests.contract.store.factory import settle_new

from afterturn.inbox import Inbox, InboxQuery
from afterturn.inbox import search as inbox_search
from afterturn.sqlite.database import Database
from afterturn.store.sqlite import SqliteSearch, SqliteStore
from afterturn.store.sqlite.full_text import LIMITS, SearchLimits
from afterturn.testing import ManualClock


@pytest.fixture(autouse=True, scope="module")
def index_always_used() -> Iterator[None]:
    """So that a small budget does not keep the index out of these tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inbox_search, "MIN_BUDGET_FOR_INDEX", 0)
        yield


@dataclass(frozen=True)
class SearchRig:
    """A store, its search, and an inbox over both."""

    database: Database
    store: SqliteStore
    search: SqliteSearch
    inbox: Inbox

    async def found(self, words: str, **asked: object) -> list[str]:
        """Every page of it."""
        pages = await walk(self.inbox, InboxQuery.model_validate({"words": words, **asked}))
        assert all(page.complete or page.next_cursor for page in pages)
        return [name for page in pages for name in ids(page)]

    async def say(self, name: str, *texts: str, now: float = 0, **about: object) -> None:
        known = await self.store.messages(name)
        said = [
            message(f"m{len(known) + place}", now, text=text, provider_id=f"p{len(known) + place}")
            for place, text in enumerate(texts)
        ]
        await settle_new(self.store, name, *said, now=at(now), **about)

    async def index(self) -> None:
        """All of it."""
        assert not await self.search.catch_up(limit=1_000_000)


@contextmanager
def rig_at(path: Path, limits: SearchLimits = LIMITS) -> Iterator[SearchRig]:
    with Database.open(path, readers=1) as database:
        store, search = SqliteStore(database), SqliteSearch(database, limits)
        yield SearchRig(database, store, search, Inbox(store, ManualClock(at(1_000)), searcher=search))


@pytest.fixture
def rig() -> Iterator[SearchRig]:
    with fast_folder() as folder, rig_at(folder / "a.db") as opened:
        yield opened
