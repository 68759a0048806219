"""The reading half of the store contract."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest
from tests.contract.samples import T0, at, message, meta, work_order
from tests.contract.store.factory import settle_new

from afterturn.clock import parse_time
from afterturn.errors import InvalidInput
from afterturn.model import Conversation, Stamp
from afterturn.store.pagination import all_conversations, iterate, key_of, newest, of_property
from afterturn.store.port import Range, RecencyKey, Store


def ids(rows: Sequence[Conversation]) -> list[str]:
    return [row.id for row in rows]


async def pages(store: Store, part: Range, limit: int) -> list[list[str]]:
    """The recency index of a part, slice by slice."""
    found: list[list[str]] = []
    before: RecencyKey | None = None
    while True:
        one = await store.recency(part, before=before, limit=limit)
        if one.rows:
            found.append(ids(one.rows))
            before = key_of(one.rows[-1])
        if one.exhausted:
            return found


class RecencyContract:
    """The recency index: order, ranges, slices."""

    async def test_rows_come_newest_first(self, store: Store) -> None:
        for name, second in (("a", 10), ("b", 30), ("c", 20)):
            await settle_new(store, name, message("m", second), now=at(60))
        assert ids((await store.recency(Range(), limit=10)).rows) == ["b", "c", "a"]

    async def test_fractions_of_seconds_sort_as_time(self, store: Store) -> None:
        """F7: trimmed fractions with Z would break lexical order."""
        told = ["12:00:05", "12:00:05.5", "12:00:05.123", "12:00:05.123456", "12:00:04.999"]
        for text in told:
            given = parse_time(f"2026-03-01T{text}Z")
            await settle_new(store, text, message("m", (given - T0).total_seconds()), now=at(60))
        assert ids((await store.recency(Range(), limit=10)).rows) == [
            "12:00:05.5",
            "12:00:05.123456",
            "12:00:05.123",
            "12:00:05",
            "12:00:04.999",
        ]

    async def test_offsets_are_compared_as_instants(self, store: Store) -> None:
        """F37: and a time without an offset is refused before it gets here."""
        for text in ("12:30:00+00:00", "13:00:00+02:00", "11:45:00-01:00"):
            given = parse_time(f"2026-03-01T{text}")
            await settle_new(store, text, message("m", (given - T0).total_seconds()), now=at(7200))
        assert ids((await store.recency(Range(), limit=10)).rows) == [
            "11:45:00-01:00",
            "12:30:00+00:00",
            "13:00:00+02:00",
        ]
        since = parse_time("2026-03-01T12:00:00Z")
        assert ids((await store.recency(Range(since=since), limit=10)).rows) == ["11:45:00-01:00", "12:30:00+00:00"]
        with pytest.raises(InvalidInput):
            message_at_naive()

    async def test_equal_times_have_a_fixed_order_over_slices(self, store: Store) -> None:
        """F25: none is skipped, repeated, or met again."""
        names = [f"c{number}" for number in range(10)]
        for name in names:
            await settle_new(store, name, message("m"), now=T0)
        found = await pages(store, Range(), limit=3)
        assert found == [["c9", "c8", "c7"], ["c6", "c5", "c4"], ["c3", "c2", "c1"], ["c0"]]

    async def test_a_slice_follows_its_key_whether_or_not_that_row_is_still_there(self, store: Store) -> None:
        """F25's second half: the row of the key has moved away."""
        for number in range(10):
            await settle_new(store, f"c{number}", message("m"), now=T0)
        await settle_new(store, "c7", message("m2", 5), now=at(5))
        rest = await store.recency(Range(), before=RecencyKey(T0, "c7"), limit=100)
        assert ids(rest.rows) == ["c6", "c5", "c4", "c3", "c2", "c1", "c0"]

    async def test_an_exactly_full_slice_is_followed_by_an_empty_one(self, store: Store) -> None:
        """F44: `exhausted` is the only word for the end, and it does come."""
        for number in range(6):
            await settle_new(store, f"c{number}", message("m", number), now=at(60))
        assert await pages(store, Range(), limit=3) == [["c5", "c4", "c3"], ["c2", "c1", "c0"]]
        last = await store.recency(Range(), before=RecencyKey(at(0), "c0"), limit=3)
        assert (last.rows, last.exhausted) == ((), True)

    async def test_ranges_are_half_open(self, store: Store) -> None:
        for second in range(5):
            await settle_new(store, f"c{second}", message("m", second), now=at(60))
        assert ids((await store.recency(Range(since=at(1), until=at(3)), limit=10)).rows) == ["c2", "c1"]
        assert ids((await store.recency(Range(until=at(1)), limit=10)).rows) == ["c0"]
        assert ids((await store.recency(Range(since=at(4)), limit=10)).rows) == ["c4"]

    async def test_a_property_sees_its_own(self, store: Store) -> None:
        for second, owner in enumerate(("p1", "p2", None, "p1", "p1:", None)):
            await settle_new(store, f"c{second}", message("m", second), property_id=owner, now=at(60))
        one = Range(of_property=True, property_id="p1")
        assert ids((await store.recency(one, limit=10)).rows) == ["c3", "c0"]
        assert ids((await store.recency(Range(of_property=True), limit=10)).rows) == ["c5", "c2"]
        assert ids([row async for row in of_property(store, "p2")]) == ["c1"]
        await store.save_conversation(meta("c2", property_id="p1"), now=at(99))
        assert ids([row async for row in of_property(store, "p1")]) == ["c3", "c2", "c0"]
        assert ids([row async for row in of_property(store, None)]) == ["c5"]

    async def test_rows_carry_their_stamps(self, store: Store) -> None:
        await settle_new(store, "c1", message("m"), now=T0)
        await store.stamp("c1", "topics", Stamp(data={"topics": ["tour"]}), through=T0, now=T0)
        for row in (*(await store.recency(Range(), limit=1)).rows, *(await store.scan(limit=1))):
            assert row == await store.conversation("c1")
            assert row.reactions["topics"].data == {"topics": ["tour"]}

    async def test_a_conversation_without_messages_has_its_place(self, store: Store) -> None:
        """F41: nothing is silently absent from the index."""
        await store.save_conversation(meta("old", created_at=at(-10)), now=T0)
        await store.save_messages(meta("half"), [message("m", -5)], now=T0)
        await settle_new(store, "voice", now=T0)
        assert ids((await store.recency(Range(), limit=10)).rows) == ["voice", "half", "old"]


class ReadContract:
    """Messages, turns, whole parts, counts."""

    async def test_the_newest_messages_come_in_thread_order(self, store: Store) -> None:
        await settle_new(store, "c1", *(message(f"m{n}", second) for n, second in enumerate((5, 1, 3, 3))), now=at(9))
        assert [m.id for m in await store.messages("c1")] == ["m1", "m2", "m3", "m0"]
        assert [m.id for m in await store.messages("c1", limit=2)] == ["m3", "m0"]
        assert await store.messages("unknown") == ()

    async def test_turns_come_oldest_first_after_a_time(self, store: Store) -> None:
        for second in range(5):
            await settle_new(store, "c1", now=at(second))
        assert [one.occurred_at for one in await store.turns("c1", after=at(1), limit=2)] == [at(2), at(3)]
        assert await store.turns("c1", after=at(4), limit=2) == ()
        assert await store.turns("unknown", limit=2) == ()

    async def test_a_scan_meets_every_conversation_once(self, store: Store) -> None:
        names = sorted(["c#1", "c:2", "C3", "ü", "🏠", "c4", "c40"])
        for name in names:
            await settle_new(store, name, now=T0)
        seen: list[str] = []
        after: str | None = None
        while batch := await store.scan(after=after, limit=2):
            seen += ids(batch)
            after = batch[-1].id
        assert sorted(seen) == names
        assert len(set(seen)) == len(seen)

    async def test_the_bounded_read_gives_exactly_the_newest(self, store: Store) -> None:
        """The three reads of ADR-0049 go on over as many slices as it takes."""
        for number in range(502):
            await store.save_conversation(meta(f"c{number:04}", created_at=at(number)), now=at(9999))
        names = [f"c{number:04}" for number in reversed(range(502))]
        assert ids([row async for row in iterate(store, Range())]) == names
        assert ids([row async for row in all_conversations(store)]) == sorted(names)
        for limit in (0, 1, 499, 500, 501, 2000):
            assert ids(await newest(store, limit)) == names[:limit]

    async def test_counts_count(self, store: Store) -> None:
        assert set((await store.counts()).values()) == {0}
        await settle_new(store, "c1", message("m1"), message("m2"), now=T0)
        await settle_new(store, "c1", now=at(1))
        await store.stamp("c1", "maintenance", Stamp(work_orders=(work_order("w1"),)), through=T0, now=T0)
        await store.request("c1", ["topics"], now=T0)
        assert await store.counts() == {
            "conversations": 1,
            "messages": 2,
            "turns": 2,
            "stamps": 1,
            "openWorkOrders": 1,
            "jobs": 0,
        }

    @pytest.mark.parametrize("strange", ["a\x00b", "x" * 300, ""])
    async def test_an_id_that_no_conversation_can_have_is_unknown(self, store: Store, strange: str) -> None:
        assert await store.conversation(strange) is None
        assert await store.messages(strange) == ()
        assert await store.window(strange, "topics") is None

    async def test_a_text_that_cannot_be_encoded_is_refused(self, store: Store) -> None:
        """F19: records refuse it when they are made; where a bare text is given, the store does."""
        with pytest.raises(InvalidInput):
            await store.conversation("\ud83d")
        await settle_new(store, "c1", now=T0)
        with pytest.raises(InvalidInput):
            await store.claim("alert", "k", {"text": "\ud83d"})
        assert await store.claim("alert", "k", "mine") == "mine"


def message_at_naive() -> None:
    from afterturn.model import Message, parse

    parse(
        Message,
        {"id": "m", "direction": "inbound", "role": "customer", "text": "", "at": datetime(2026, 3, 1, 12, 40)},  # noqa: DTZ001
    )
