"""What the inbox promises over any store. An adapter supplies the fixture ``store``."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest
from tests.contract.samples import T0, at, message, meta
from tests.contract.store.factory import settle_new

from afterturn.errors import InvalidCursor, InvalidQuery
from afterturn.inbox import Inbox, InboxPage, InboxQuery
from afterturn.model import Stamp
from afterturn.reactions.state import ReactionState
from afterturn.store.port import ConsumerState, Registration, Slice, Store
from afterturn.testing import ManualClock

ALL = InboxQuery()


def ids(page: InboxPage) -> list[str]:
    return [row.conversation.id for row in page.rows]


async def walk(inbox: Inbox, query: InboxQuery) -> list[InboxPage]:
    """Every page to the end."""
    pages = [await inbox.page(query)]
    while pages[-1].next_cursor is not None:
        pages.append(await inbox.page(query, pages[-1].next_cursor))
        assert len(pages) < 500
    return pages


async def fill(store: Store, names: Sequence[str], **about: object) -> None:
    """Conversations, the last name newest, a second apart."""
    for second, name in enumerate(names):
        await settle_new(store, name, message("m", second), now=at(second), **about)


class _AfterFirstRead:
    """A reader beside which something happens once its first slice was read."""

    def __init__(self, store: Store, happens: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._happens: Callable[[], Awaitable[None]] | None = happens

    async def recency(self, *args: Any, **kwargs: Any) -> Slice:
        found = await self._store.recency(*args, **kwargs)
        if self._happens is not None:
            happens, self._happens = self._happens, None
            await happens()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def register(store: Store, *names: str, state: ConsumerState = ConsumerState.LIVE) -> None:
    await store.register([Registration(name, T0, state, timedelta(minutes=5)) for name in names])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(at(1_000))


@pytest.fixture
def inbox(store: Store, clock: ManualClock) -> Inbox:
    return Inbox(store, clock)


class PageContract:
    """Pages: exact, in order, with an honest end."""

    walks: Sequence[int] = (1, 2, 5, 7, 40)
    """Limits of the walks beside writers; fewer where a request takes its time."""

    async def test_rows_between_pages_are_not_lost(self, store: Store, inbox: Inbox) -> None:
        """F2: 12 conversations, 3 a page, all but c10 asked for; the cursor is that of the last row handed out."""
        for number in range(1, 13):
            kind = "noise" if number == 10 else "tour"
            await settle_new(store, f"c{number:02}", message("m", number), type=kind, now=at(60))
        pages = await walk(inbox, InboxQuery(types=("tour",), limit=3))
        assert [ids(page) for page in pages] == [
            ["c12", "c11", "c09"],
            ["c08", "c07", "c06"],
            ["c05", "c04", "c03"],
            ["c02", "c01"],
        ]

    async def test_a_page_that_is_full_before_its_last_read_is_does_not_end_the_list(
        self, store: Store, inbox: Inbox
    ) -> None:
        """F2's kind: rows that were read past the end of a page come with the next one. A property for each case."""
        for matching, others in itertools.product((3, 4, 6), (1, 3, 8)):
            property_id = f"{matching}-{others}"
            names = [f"{property_id}-tour-{number}" for number in range(matching)]
            await fill(store, names, type="tour", property_id=property_id)
            for number in range(others):
                about = {"type": "noise", "property_id": property_id}
                newer = message("m", 100 + number)
                await settle_new(store, f"{property_id}-noise-{number}", newer, now=at(200), **about)
            pages = await walk(inbox, InboxQuery(properties=(property_id,), types=("tour",), limit=3))
            assert [name for page in pages for name in ids(page)] == names[::-1], property_id
            assert all(page.complete for page in pages)

    async def test_equal_times_are_walked_once_each(self, store: Store, inbox: Inbox) -> None:
        """F25: ten with the same time, 3 a page: ten in a fixed order, 4 pages."""
        for number in range(10):
            await settle_new(store, f"c{number}", message("m"), now=T0)
        pages = await walk(inbox, InboxQuery(limit=3))
        assert [ids(page) for page in pages] == [["c9", "c8", "c7"], ["c6", "c5", "c4"], ["c3", "c2", "c1"], ["c0"]]

    async def test_the_row_of_a_cursor_may_go_away(self, store: Store, inbox: Inbox) -> None:
        """F25: the other 7 still follow page 1."""
        for number in range(10):
            await settle_new(store, f"c{number}", message("m"), now=T0)
        query = InboxQuery(limit=3)
        first = await inbox.page(query)
        await settle_new(store, "c7", message("m2", 9), now=at(9))
        rest = await inbox.page(InboxQuery(limit=500), first.next_cursor)
        assert ids(rest) == ["c6", "c5", "c4", "c3", "c2", "c1", "c0"]

    async def test_conversations_that_jump_to_the_top_neither_repeat_nor_make_gaps(
        self, store: Store, inbox: Inbox
    ) -> None:
        """F28: page 1 is c9, c8, c7; then c3 and c8 get messages."""
        await fill(store, [f"c{number}" for number in range(1, 10)])
        query = InboxQuery(limit=3)
        first = await inbox.page(query)
        for second, name in ((100, "c3"), (101, "c8")):
            await settle_new(store, name, message("m2", second), now=at(second))
        second_page = await inbox.page(query, first.next_cursor)
        third = await inbox.page(query, second_page.next_cursor)
        assert [ids(page) for page in (first, second_page, third)] == [
            ["c9", "c8", "c7"],
            ["c6", "c5", "c4"],
            ["c2", "c1"],
        ]
        assert third.next_cursor is None
        assert ids(await inbox.page(query)) == ["c8", "c3", "c9"]

    async def test_rare_rows_are_found_however_deep(self, store: Store, inbox: Inbox) -> None:
        """F44: ten conversations, only the two oldest are asked for: an empty read is not the end."""
        await fill(store, ["c0", "c1"], type="tour")
        for number in range(2, 10):
            await settle_new(store, f"c{number}", message("m", number), type="noise", now=at(60))
        page = await inbox.page(InboxQuery(types=("tour",), limit=2))
        assert (ids(page), page.complete, page.next_cursor) == (["c1", "c0"], True, None)

    async def test_an_exactly_full_last_page_is_the_last(self, store: Store, inbox: Inbox) -> None:
        """F44: ten rows, 5 a page: no third page, no endless "more"."""
        await fill(store, [f"c{number}" for number in range(10)])
        pages = await walk(inbox, InboxQuery(limit=5))
        assert [len(page.rows) for page in pages] == [5, 5]
        assert all(page.complete for page in pages)

    async def test_an_empty_inbox_is_complete(self, inbox: Inbox) -> None:
        page = await inbox.page(ALL)
        assert (page.rows, page.next_cursor, page.complete, page.scanned) == ((), None, True, 0)

    async def test_a_spent_budget_is_said_and_nothing_is_lost(self, store: Store, inbox: Inbox) -> None:
        """`complete` is false where there may be more, with a cursor to go on from; never beyond the budget."""
        for number in range(20):
            kind = "tour" if number % 6 == 0 else "noise"
            await settle_new(store, f"c{number:02}", message("m", number), type=kind, now=at(60))
        for budget, limit in itertools.product((1, 2, 3, 7, 19, 20, 21, 5_000), (1, 3, 50)):
            pages = await walk(inbox, InboxQuery(types=("tour",), limit=limit, budget=budget))
            assert [name for page in pages for name in ids(page)] == ["c18", "c12", "c06", "c00"], (budget, limit)
            for page in pages:
                assert page.scanned <= budget
                assert page.complete or (page.next_cursor is not None and page.scanned == budget)
            assert pages[-1].complete

    async def test_several_properties_are_merged_in_order(self, store: Store, inbox: Inbox) -> None:
        for second in range(30):
            owner = ("p1", "p2", None, "p3")[second % 4]
            await settle_new(store, f"c{second:02}", message("m", second), property_id=owner, now=at(60))
        query = InboxQuery(properties=("p1", "UNASSIGNED", "p3", "p1", "p9"), limit=4)
        found = [name for page in await walk(inbox, query) for name in ids(page)]
        assert found == [f"c{second:02}" for second in reversed(range(30)) if second % 4 != 1]

    async def test_a_conversation_shows_under_the_property_that_it_belongs_to_now(
        self, store: Store, inbox: Inbox
    ) -> None:
        await settle_new(store, "c1", message("m"), now=T0)
        assert ids(await inbox.page(InboxQuery(properties=("UNASSIGNED",)))) == ["c1"]
        await settle_new(store, "c1", message("m2", 1), property_id="p1", now=at(1))
        assert ids(await inbox.page(InboxQuery(properties=("UNASSIGNED",)))) == []
        assert ids(await inbox.page(InboxQuery(properties=("p1",)))) == ["c1"]

    async def test_a_row_that_changes_its_property_between_two_reads_comes_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The parts of a merge are read one after the other; a person sees no row twice."""
        await settle_new(store, "c1", message("m"), property_id="p1", now=T0)

        async def move() -> None:
            await store.save_conversation(meta("c1", property_id="p2"), now=at(1))
            await settle_new(store, "c1", message("m2", 2), now=at(2))

        inbox = Inbox(cast("Store", _AfterFirstRead(store, move)), clock)
        assert ids(await inbox.page(InboxQuery(properties=("p1", "p2")))) == ["c1"]

    async def test_the_window_is_counted_from_the_first_page(
        self, store: Store, inbox: Inbox, clock: ManualClock
    ) -> None:
        """Time that passes while a person pages takes no rows away."""
        await fill(store, [f"c{number}" for number in range(6)])
        clock.set(at(86_400))
        query = InboxQuery(window="24h", limit=3)
        first = await inbox.page(query)
        clock.advance(timedelta(days=30))
        rest = await inbox.page(query, first.next_cursor)
        assert ids(first) + ids(rest) == ["c5", "c4", "c3", "c2", "c1", "c0"]
        assert ids(await inbox.page(query)) == []

    async def test_windows_are_half_open_and_exact(self, store: Store, inbox: Inbox, clock: ManualClock) -> None:
        await fill(store, [f"c{number}" for number in range(5)])
        assert ids(await inbox.page(InboxQuery(since=at(1), until=at(3)))) == ["c2", "c1"]
        clock.set(at(86_402))
        assert ids(await inbox.page(InboxQuery(window="24h"))) == ["c4", "c3", "c2"]
        assert len((await inbox.page(InboxQuery(window="all"))).rows) == 5

    async def test_a_cursor_of_another_query_is_refused(self, store: Store, inbox: Inbox) -> None:
        """And limit and budget may change from page to page."""
        await fill(store, [f"c{number}" for number in range(6)])
        first = await inbox.page(InboxQuery(limit=2))
        assert ids(await inbox.page(InboxQuery(limit=3, budget=3), first.next_cursor)) == ["c3", "c2", "c1"]
        for other in (InboxQuery(types=("general",)), InboxQuery(properties=("p1",)), InboxQuery(window="7d")):
            with pytest.raises(InvalidCursor):
                await inbox.page(other, first.next_cursor)

    async def test_pages_are_exact_while_others_write(self, store: Store, inbox: Inbox) -> None:
        """Seeded writers move, add, re-attribute: every untouched row comes once, in order, on every walk."""
        chance = random.Random(28)
        still = [f"s{number:02}" for number in range(0, 60, 2)]
        busy = [f"s{number:02}" for number in range(1, 60, 2)]
        for second in range(60):
            owner = ("p1", "p2")[second // 30]
            await settle_new(store, f"s{second:02}", message("m", second), property_id=owner, now=at(60))
        done = asyncio.Event()

        seconds = itertools.count(100)

        async def write() -> None:
            while not done.is_set():
                second = next(seconds)
                name = chance.choice(busy)
                await settle_new(store, name, message(f"m{second}", second), now=at(second))
                await store.save_conversation(meta(name, property_id=chance.choice(["p1", "p2", None])), now=at(second))
                await settle_new(store, f"new{second}", message("m", second), property_id="p1", now=at(second))

        writers = [asyncio.create_task(write()) for _ in range(2)]
        for limit in self.walks:
            query = InboxQuery(properties=("p1", "p2"), limit=limit)
            pages = await walk(inbox, query)
            assert [name for page in pages for name in ids(page) if name in still] == still[::-1]
            for page in pages:
                assert len(set(ids(page))) == len(ids(page))
        done.set()
        await asyncio.gather(*writers)


class FilterContract:
    """What a row is, and which rows are asked for."""

    async def test_every_filter_gives_exactly_its_rows(self, store: Store, inbox: Inbox) -> None:
        await register(store, "topics", "grade")
        told: dict[str, dict[str, object]] = {
            "plain": {},
            "mail": {"channel": "email"},
            "tour": {"type": "tour"},
            "closed": {"status": "closed"},
            "ann": {"participants": ("+1555", "ann@x")},
            "fake": {"synthetic": True},
            "test": {"gauntlet": True},
        }
        for second, (name, about) in enumerate(told.items()):
            await settle_new(store, name, message("m", second), now=at(second), **about)
        await store.stamp("tour", "topics", Stamp(data={"topics": ["visit", "rent"]}), through=at(2), now=at(9))
        await store.stamp("mail", "topics", Stamp(data={"topics": "visit"}), through=at(1), now=at(9))
        await store.stamp("ann", "grade", Stamp(data={"grade": "C"}), through=at(4), now=at(9))
        await store.fail("plain", "grade", through=at(0), error="E", now=at(9))
        for asked, expected in (
            ({}, ["ann", "closed", "tour", "mail", "plain"]),
            ({"include_synthetic": True}, ["test", "fake", "ann", "closed", "tour", "mail", "plain"]),
            ({"channels": ("email", "voice")}, ["mail"]),
            ({"types": ("tour",)}, ["tour"]),
            ({"status": "closed"}, ["closed"]),
            ({"participant": "ann@x"}, ["ann"]),
            ({"participant": "ann"}, []),
            ({"topics": ("rent", "other")}, ["tour"]),
            ({"topics": ("vis",)}, []),
            ({"grades": ("A", "C")}, ["ann"]),
            ({"failed": ("grade",)}, ["plain"]),
            ({"failed": ("topics",)}, []),
            ({"failed": ("any",)}, ["plain"]),
            ({"owed": ("grade",)}, ["closed", "tour", "mail"]),
            ({"owed": ("topics",), "channels": ("sms",)}, ["ann", "closed", "plain"]),
        ):
            assert ids(await inbox.page(InboxQuery.model_validate(asked))) == expected, asked

    async def test_an_unknown_consumer_is_refused_by_name(self, store: Store, inbox: Inbox) -> None:
        await register(store, "topics")
        for asked in ({"owed": ("topic",)}, {"failed": ("topics", "topic")}):
            with pytest.raises(InvalidQuery, match="'topic'"):
                await inbox.page(InboxQuery.model_validate(asked))

    async def test_a_row_carries_the_state_of_each_live_reaction(self, store: Store, inbox: Inbox) -> None:
        await register(store, "topics", "grade", "maintenance")
        await register(store, "dark", state=ConsumerState.SHADOW)
        await settle_new(store, "c1", message("m"), now=T0)
        await store.stamp("c1", "topics", Stamp(data={"topics": ["rent"]}), through=T0, now=T0)
        await store.stamp("c1", "dark", Stamp(data={"secret": 1}), through=T0, now=T0)
        await store.fail("c1", "grade", through=T0, error="E", now=T0)
        row = await inbox.row("c1")
        assert row is not None
        assert row.states == {
            "topics": ReactionState.FRESH,
            "grade": ReactionState.FAILED,
            "maintenance": ReactionState.OWED,
        }
        assert row.stamp("topics") == {"topics": ["rent"]}
        assert row.stamp("dark") == {}
        assert "dark" not in row.to_json()["reactions"]
        await store.set_state("dark", ConsumerState.LIVE)
        row = await inbox.row("c1")
        assert row is not None
        assert row.stamp("dark") == {"secret": 1}
        assert await inbox.row("unknown") is None
