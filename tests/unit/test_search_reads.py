"""What a search for words reads: rows, not time; they stay the same, whatever else is in the file."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest
from tests.contract.inbox.pages import ids
from tests.contract.machines import fast_folder
from tests.unit.search_fixture import SearchRig, index_always_used, rig, rig_at

from afterturn.inbox import InboxQuery
from afterturn.inbox import search as inbox_search
from afterturn.store.sqlite import SqliteSearch
from afterturn.store.sqlite.full_text import LIMITS

__all__ = ["index_always_used", "rig"]


class TestWhatASearchReads:
    """Rows, not time: they stay the same, whatever else is in the file."""

    async def _fill(self, rig: SearchRig, others: int) -> None:
        for number in range(others):
            await rig.say(f"x{number}", "nothing of the kind", now=1)
        for number in range(5):
            await rig.say(f"c{number}", "a leak", now=2)
        await rig.index()

    async def _rows(self, rig: SearchRig, monkeypatch: pytest.MonkeyPatch, words: str, **asked: object) -> int:
        """Rows that SQLite handed out for a first page."""
        counted = CountingDatabase()
        read = rig.database.read

        async def counting(unit):  # type: ignore[no-untyped-def]
            return await read(lambda connection: unit(counted.of(connection)))

        with monkeypatch.context() as patched:
            patched.setattr(rig.database, "read", counting)
            await rig.inbox.page(InboxQuery.model_validate({"words": words, "limit": 3, **asked}))
        return counted.rows

    async def test_a_rare_word_costs_the_same_in_a_larger_fleet(
        self, rig: SearchRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await self._fill(rig, 20)
        small = await self._rows(rig, monkeypatch, "leak")
        for number in range(200):
            await rig.say(f"y{number}", "nothing of the kind", now=3)
        await rig.index()
        assert await self._rows(rig, monkeypatch, "leak") == small < 60

    @pytest.mark.parametrize(("postings", "candidates"), [(10, 5_000), (100_000, 10)])
    async def test_a_frequent_word_costs_a_bounded_number_of_rows(
        self, monkeypatch: pytest.MonkeyPatch, postings: int, candidates: int
    ) -> None:
        limits = replace(LIMITS, postings=postings, candidates=candidates)
        with fast_folder() as folder, rig_at(folder / "a.db", limits) as rig:
            await self._fill(rig, 30)
            small = await self._rows(rig, monkeypatch, "nothing", budget=20)
            for number in range(200):
                await rig.say(f"y{number}", "nothing of the kind", "lift", now=3)
            await rig.index()
            assert await self._rows(rig, monkeypatch, "nothing", budget=20) <= small + 3
            apart = await self._rows(rig, monkeypatch, "nothing lift", budget=20)
            assert apart < 20 * 2 + 40
            page = await rig.inbox.page(InboxQuery(words="nothing lift", budget=20))
            told = (20, False) if postings < candidates else (0, True)  # a counted intersection is known to be empty
            assert (page.rows, page.scanned, page.complete) == ((), *told)

    async def test_a_page_reads_so_many_messages_and_leads_on(
        self, rig: SearchRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(inbox_search, "MAX_MESSAGES_READ", 4)
        for number in range(8):
            await rig.say(f"c{number}", *["x"] * 3, "leak" if number == 1 else "y", now=number)
        page = await rig.inbox.page(InboxQuery(words="leak"))
        assert (ids(page), page.complete, page.scanned) == ([], False, 1)
        assert await rig.found("leak") == ["c1"]
        assert (await rig.inbox.page(InboxQuery(words="leak", limit=1))).scanned == 1

    async def test_many_properties_are_each_asked_for_their_own(
        self, rig: SearchRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(40):
            await rig.say(f"c{number}", "a leak", now=number, property_id=f"p{number % 20}")
        await rig.index()
        asked: list[int] = []
        among = rig.search.recency_of

        async def counting(part, ids, **more):  # type: ignore[no-untyped-def]
            asked.append(len(ids))
            return await among(part, ids, **more)

        monkeypatch.setattr(SqliteSearch, "recency_of", staticmethod(counting))
        page = await rig.inbox.page(InboxQuery(words="leak", properties=tuple(f"p{one}" for one in range(30))))
        assert ids(page) == [f"c{number}" for number in reversed(range(40))]
        assert sum(asked) <= 2 * 40

    async def test_long_messages_count_more(self, rig: SearchRig, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(inbox_search, "MAX_MESSAGES_READ", 50)
        for number in range(8):
            await rig.say(f"c{number}", "leak" if number == 0 else "x" * 50_000, now=number)
        page = await rig.inbox.page(InboxQuery(words="leak"))
        assert (page.scanned, page.complete) == (2, False)
        assert await rig.found("leak") == ["c0"]

    async def test_the_index_is_asked_by_keys(self, rig: SearchRig) -> None:
        await self._fill(rig, 5)
        plans = {
            "SELECT id FROM conversations WHERE searched_seq < message_count LIMIT 9": "conversations_unsearched",
            "SELECT id FROM (SELECT value AS name FROM json_each('[]')) CROSS JOIN conversations "
            "ON conversations.id = name ORDER BY recency DESC": "PRIMARY KEY",
        }
        for sql, expected in plans.items():
            plan = await rig.database.read(lambda c, sql=sql: c.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall())  # type: ignore[misc]
            assert any(expected in row[3] for row in plan), plan


class CountingDatabase:
    """Counts rows that go out of a connection."""

    def __init__(self) -> None:
        self.rows = 0

    def of(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        counted = self

        class Counting:
            def execute(self, *given: object) -> _Rows:
                return _Rows(connection.execute(*given), counted)  # type: ignore[arg-type]

        return Counting()  # type: ignore[return-value]


class _Rows:
    def __init__(self, cursor: sqlite3.Cursor, counted: CountingDatabase) -> None:
        self._cursor, self._counted = cursor, counted

    def __iter__(self) -> _Rows:
        return self

    def __next__(self) -> object:
        row = next(self._cursor)
        self._counted.rows += 1
        return row

    def fetchone(self) -> object:
        return next(self, None)

    def fetchall(self) -> list[object]:
        return list(self)
