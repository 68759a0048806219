"""Words of messages over a SQLite file: what is found is what the messages say, however far the index has come."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.inbox.pages import ids, walk
from tests.contract.machines import fast_folder
from tests.contract.samples import at, message, meta
from tests.contract.store.shelf import settle_new

from afterturn.errors import InvalidQuery
from afterturn.inbox import Inbox, InboxQuery
from afterturn.inbox import search as inbox_search
from afterturn.model import Channel, Status
from afterturn.sqlite.database import Database
from afterturn.store.sqlite import SqliteSearch, SqliteStore, searching
from afterturn.store.sqlite.searching import LIMITS, SearchLimits
from afterturn.store.words import wanted
from afterturn.testing import ManualClock

NARROW = SearchLimits(
    postings=3, places=2, lagging=1, terms=2, caught_up=2, batch_messages=2, batch_bytes=40, read_at_once=2
)
"""So small that a handful of messages is a large fleet."""


@pytest.fixture(autouse=True, scope="module")
def whatever_the_budget() -> Iterator[None]:
    """So that a small budget does not keep the index out of these tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inbox_search, "FEW_ROWS", 0)
        yield


@dataclass(frozen=True)
class Desk:
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
def desk_at(path: Path, limits: SearchLimits = LIMITS) -> Iterator[Desk]:
    with Database.open(path, readers=1) as database:
        store, search = SqliteStore(database), SqliteSearch(database, limits)
        yield Desk(database, store, search, Inbox(store, ManualClock(at(1_000)), searcher=search))


@pytest.fixture
def desk() -> Iterator[Desk]:
    with fast_folder() as folder, desk_at(folder / "a.db") as opened:
        yield opened


WORD = st.sampled_from(["heat", "heating", "Café", "cafe", "key", "keys", "暖气", "坏", "暖气坏了", "ß", "ss", "don't"])
TEXT = st.lists(WORD, max_size=4).map(" ".join)
STEP = st.one_of(
    st.tuples(st.just("settle"), st.integers(0, 5), TEXT),
    st.tuples(st.just("settle"), st.integers(0, 5), TEXT),
    st.tuples(st.just("save"), st.integers(0, 5), TEXT),
    st.tuples(st.just("edit"), st.integers(0, 5), TEXT),
    st.tuples(st.just("index"), st.integers(0, 5), TEXT),
    st.tuples(st.just("reopen"), st.integers(0, 5), TEXT),
)


@given(
    st.lists(STEP, max_size=24),
    st.lists(TEXT, min_size=1, max_size=3),
    st.sampled_from([LIMITS, NARROW]),
    st.booleans(),
)
async def test_search_finds_what_a_look_at_every_message_finds_newest_first(
    steps: Sequence[tuple[str, int, str]], asked: Sequence[str], limits: SearchLimits, frugal: bool
) -> None:
    said: dict[str, list[str]] = {}
    order: list[str] = []
    with fast_folder() as folder:
        path = folder / "a.db"
        opened = desk_at(path, limits)
        desk = opened.__enter__()
        try:
            for second, (do, number, text) in enumerate(steps):
                name = f"c{number}"
                texts = said.setdefault(name, [])
                given_id = f"m{len(texts)}"
                new = message(given_id, second, text=text, provider_id=given_id)
                if do == "settle":
                    await settle_new(desk.store, name, new, now=at(second))
                    texts.append(text)
                    order = [name, *(one for one in order if one != name)]
                elif do == "save" and name in order:
                    await desk.store.save_messages(meta(name), [new], now=at(second))
                    texts.append(text)
                elif do == "edit" and texts:
                    place = second % len(texts)
                    await desk.store.edit_message(name, f"m{place}", text, at=at(1_000 + second))
                    texts[place] = text
                elif do == "index":
                    await desk.database.write(lambda c: searching.index(c, limits))
                elif do == "reopen":
                    opened.__exit__(None, None, None)
                    opened = desk_at(path, limits)
                    desk = opened.__enter__()
            for words in asked:
                looked_for = wanted(words)
                expected = [one for one in order if looked_for and any(map(looked_for.found_in, said[one]))]
                found = await desk.found(words, limit=2, budget=3 if frugal else 5_000)
                assert found == (expected if words else order)
        finally:
            opened.__exit__(None, None, None)


async def test_all_words_have_to_be_in_one_message(desk: Desk) -> None:
    await desk.say("apart", "the heating", "is broken")
    await desk.say("together", "the heating is broken")
    for _ in range(2):
        assert await desk.found("broken heating") == ["together"]
        await desk.index()


async def test_the_message_that_arrived_last_is_shown_around_what_was_found(desk: Desk) -> None:
    await desk.say("c1", "heating one", "x" * 80 + " my <b>HEATING</b> two " + "y" * 200, "none")
    await desk.index()
    page = await desk.inbox.page(InboxQuery(words="heat"))
    hit = page.rows[0].hit
    assert hit is not None
    assert hit.message.id == "m1"
    assert [(piece.text, piece.hit) for piece in hit.snippet][1:3] == [("my <b>", False), ("HEATING", True)]
    told = page.to_json()["rows"][0]["hit"]
    assert told["messageId"] == "m1"
    assert {"text": "HEATING", "hit": True} in told["snippet"]
    assert "hit" not in (await desk.inbox.page(InboxQuery())).to_json()["rows"][0]


async def test_an_edit_replaces_what_is_found(desk: Desk) -> None:
    for indexed in (False, True):
        name = f"c-{indexed}"
        await desk.say(name, "the boiler", now=1)
        if indexed:
            await desk.index()
        assert await desk.store.edit_message(name, "p0", "the lift", at=at(9))
        assert name not in await desk.found("boiler")
        assert name in await desk.found("lift")
        await desk.index()
        assert await desk.found("boiler") == []
        assert await desk.search.places(wanted("boiler")) == {}, "the index still names it"  # type: ignore[arg-type]
        assert name in await desk.found("lift")


async def test_filters_windows_and_properties_are_as_exact_as_without_words(desk: Desk) -> None:
    await desk.say("old", "key", now=1, property_id="oak")
    await desk.say("oak", "key", now=100, property_id="oak", channel=Channel.EMAIL)
    await desk.say("elm", "key", now=200, property_id="elm")
    await desk.say("test", "key", now=300, synthetic=True)
    await desk.say("shut", "key", now=400, status=Status.CLOSED)
    await desk.say("other", "lift", now=500, property_id="oak")
    for _ in range(2):
        assert await desk.found("key") == ["shut", "elm", "oak", "old"]
        assert await desk.found("key", properties=("oak",)) == ["oak", "old"]
        assert await desk.found("key", properties=("elm", "UNASSIGNED"), limit=1) == ["shut", "elm"]
        assert await desk.found("key", include_synthetic=True, status="open") == ["test", "elm", "oak", "old"]
        assert await desk.found("key", since=at(50), until=at(250)) == ["elm", "oak"]
        assert await desk.found("key", channels=("email",)) == ["oak"]
        assert await desk.found("lift", properties=("elm",)) == []
        await desk.index()
    await desk.store.save_conversation(meta("oak", property_id="elm"), now=at(600))
    assert await desk.found("key", properties=("oak",)) == ["old"]
    assert await desk.found("key", properties=("elm",)) == ["elm", "oak"]


async def test_pages_neither_skip_nor_repeat_while_messages_come(desk: Desk) -> None:
    for number in range(12):
        await desk.say(f"c{number:02}", "key", now=number)
    await desk.index()
    query = InboxQuery(words="key", limit=3)
    pages = [await desk.inbox.page(query)]
    second = 100
    while (cursor := pages[-1].next_cursor) is not None:
        second += 1
        await desk.say(f"new{second}", "key", now=second)
        await desk.say("c11", "me again", now=second)
        pages.append(await desk.inbox.page(query, cursor))
    shown = [name for page in pages for name in ids(page)]
    assert shown == [f"c{number:02}" for number in reversed(range(12))]


@pytest.mark.parametrize(
    "words",
    [
        *(
            '"',
            "*",
            "heat*",
            "NEAR(heating broken)",
            "heating NOT broken",
            "words:heating",
            "-heating",
            "^heating",
            "((",
        ),
        *("heating\0broken", "heat\ud800ing", "'; DROP TABLE messages; --", "{heating}", "+heating", "\\", "%", "_"),
        *("heating AND", "OR", "a" * 200, "\u202eheating", "暖\ufffd", "½", "\ufdfa", "heating" + "\u0301" * 100),
    ],
)
async def test_what_is_typed_is_never_syntax(desk: Desk, words: str) -> None:
    said = "the heating and near, it is not broken: or so"
    await desk.say("c1", said)
    for _ in range(2):
        looked_for = wanted(InboxQuery(words=words).words or "")
        expected = ["c1"] if looked_for is not None and looked_for.found_in(said) else []
        assert await desk.found(words) == expected
        await desk.index()


async def test_without_fts5_the_same_is_found(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.say("indexed", "the heating")
    await desk.index()
    monkeypatch.setattr(searching, "has_fts5", lambda _: False)
    await desk.say("later", "my heating", now=1)
    assert await desk.store.edit_message("indexed", "p0", "heating, edited", at=at(2))
    assert not await desk.search.catch_up(limit=10)
    assert await desk.found("heat") == ["later", "indexed"]
    monkeypatch.undo()
    await desk.index()
    assert await desk.found("heat") == ["later", "indexed"]
    assert await desk.found("edited") == ["indexed"]


async def test_a_damaged_index_costs_time_and_hides_nothing(desk: Desk) -> None:
    await desk.say("c1", "the heating")
    await desk.index()
    await desk.database.write(lambda c: c.execute("DROP TABLE message_words_data").rowcount)
    assert await desk.found("heat") == ["c1"]


async def test_a_request_for_few_rows_asks_no_index(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look for arrivals: what lies above the newest row of a page, mostly nothing."""
    await desk.say("c1", "the heating")
    monkeypatch.setattr(inbox_search, "FEW_ROWS", 200)
    monkeypatch.setattr(SqliteSearch, "places", None)
    assert await desk.found("heat", budget=200) == ["c1"]
    with pytest.raises(TypeError):
        await desk.found("heat", budget=201)


async def test_a_store_that_cannot_look_says_so(desk: Desk) -> None:
    with pytest.raises(InvalidQuery, match="embedded profile"):
        await Inbox(desk.store, ManualClock(at(0))).page(InboxQuery(words="heat"))


class TestWhatASearchReads:
    """Rows, not time: they stay the same, whatever else is in the file."""

    async def _fill(self, desk: Desk, others: int) -> None:
        for number in range(others):
            await desk.say(f"x{number}", "nothing of the kind", now=1)
        for number in range(5):
            await desk.say(f"c{number}", "a leak", now=2)
        await desk.index()

    async def _rows(self, desk: Desk, monkeypatch: pytest.MonkeyPatch, words: str, **asked: object) -> int:
        """Rows that SQLite handed out for a first page."""
        counted = Counted()
        read = desk.database.read

        async def counting(unit):  # type: ignore[no-untyped-def]
            return await read(lambda connection: unit(counted.of(connection)))

        with monkeypatch.context() as patched:
            patched.setattr(desk.database, "read", counting)
            await desk.inbox.page(InboxQuery.model_validate({"words": words, "limit": 3, **asked}))
        return counted.rows

    async def test_a_rare_word_costs_the_same_in_a_larger_fleet(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await self._fill(desk, 20)
        small = await self._rows(desk, monkeypatch, "leak")
        for number in range(200):
            await desk.say(f"y{number}", "nothing of the kind", now=3)
        await desk.index()
        assert await self._rows(desk, monkeypatch, "leak") == small < 60

    async def test_a_frequent_word_costs_a_bounded_number_of_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        limits = replace(LIMITS, postings=10, places=10)
        with fast_folder() as folder, desk_at(folder / "a.db", limits) as desk:
            await self._fill(desk, 30)
            small = await self._rows(desk, monkeypatch, "nothing", budget=20)
            for number in range(200):
                await desk.say(f"y{number}", "nothing of the kind", "lift", now=3)
            await desk.index()
            assert await self._rows(desk, monkeypatch, "nothing", budget=20) <= small + 3
            apart = await self._rows(desk, monkeypatch, "nothing lift", budget=20)
            assert apart < 20 * 2 + 40
            page = await desk.inbox.page(InboxQuery(words="nothing lift", budget=20))
            assert (page.rows, page.scanned, page.complete) == ((), 20, False)

    async def test_a_page_reads_so_many_messages_and_leads_on(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(inbox_search, "MESSAGES_A_PAGE", 4)
        for number in range(8):
            await desk.say(f"c{number}", *["x"] * 3, "leak" if number == 1 else "y", now=number)
        page = await desk.inbox.page(InboxQuery(words="leak"))
        assert (ids(page), page.complete, page.scanned) == ([], False, 1)
        assert await desk.found("leak") == ["c1"]

    async def test_the_index_is_asked_by_keys(self, desk: Desk) -> None:
        await self._fill(desk, 5)
        plans = {
            "SELECT id FROM conversations WHERE searched_seq < message_count LIMIT 9": "conversations_unsearched",
            "SELECT id FROM (SELECT value AS name FROM json_each('[]')) CROSS JOIN conversations "
            "ON conversations.id = name ORDER BY recency DESC": "PRIMARY KEY",
        }
        for sql, expected in plans.items():
            plan = await desk.database.read(lambda c, sql=sql: c.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall())  # type: ignore[misc]
            assert any(expected in row[3] for row in plan), plan


class Counted:
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
    def __init__(self, cursor: sqlite3.Cursor, counted: Counted) -> None:
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
