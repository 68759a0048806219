"""The keeping half of the store contract: notes."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.contract.store.factory import StoreFactory

from afterturn.errors import InvalidInput, InvalidRecord
from afterturn.store.port import MAX_VALUE_BYTES, Note, Store


class NoteContract:
    """What notes promise."""

    async def test_a_note_is_read_back_as_it_was_written(self, store: Store) -> None:
        values: dict[str, Any] = {
            "text": 'é 🏠 " \\ \x00',
            "": {"a": [1, 2.5, -(10**30), True, None, {"": ""}]},
            "null": None,
            "a#b": False,
            "a\x00b": [],
            "k" * 3000: "long key",
        }
        for key, value in values.items():
            assert await store.note("mail", key, value)
        assert await store.noted("mail", [*values, "unknown", "text"]) == values
        assert await store.noted("other", list(values)) == {}
        assert await store.noted("mail", []) == {}

    async def test_notes_of_several_names_are_read_in_one_look(self, store: Store) -> None:
        await store.note("mail", "k", 1)
        await store.note("mail", "other", 2)
        await store.note("person", "k", {"a": None})
        wanted = {"mail": ["k", "k", "unknown"], "person": ["k"], "moved": ["k"], "none": []}
        assert await store.notes(wanted) == {"mail": {"k": 1}, "person": {"k": {"a": None}}, "moved": {}, "none": {}}
        assert await store.notes({}) == {}

    async def test_several_notes_written_in_one_go_are_as_if_written_one_by_one(self, store: Store) -> None:
        await store.note("mail", "ranked", 1, rank=5)
        notes = [
            Note("mail", "k", 1),
            Note("mail", "k2", 2),
            Note("mail", "ranked", 2, rank=4),
            Note("person", "k", "x", rank=1, replace=True, kept=timedelta(days=1)),
        ]
        assert list(await store.note_all(notes)) == [True, True, False, True]
        assert list(await store.note_all(notes)) == [False, False, False, True]
        assert await store.noted("mail", ["k", "k2", "ranked"]) == {"k": 1, "k2": 2, "ranked": 1}
        assert await store.noted("person", ["k"]) == {"k": "x"}
        assert list(await store.note_all([])) == []

    async def test_of_one_rank_the_first_note_stays(self, store: Store) -> None:
        """So writing one takes something once."""
        assert await store.note("once", "k", 1)
        assert not await store.note("once", "k", 2)
        assert not await store.note("once", "k", 1)
        assert await store.note("once", "other", 2)
        assert await store.noted("once", ["k", "other"]) == {"k": 1, "other": 2}

    async def test_only_one_of_many_takes_something(self, factory: StoreFactory) -> None:
        async with factory.open() as one, factory.open() as two:
            taken = await asyncio.gather(*((one, two)[n % 2].note("once", "k", n) for n in range(10)))
            assert sum(taken) == 1
            assert await one.noted("once", ["k"]) == {"k": taken.index(True)}

    async def test_a_note_never_goes_back_in_rank(self, store: Store) -> None:
        """F49: delivered, then a late sent; failed, then a late sent."""
        told = [("queued", 1), ("delivered", 3), ("sent", 2), ("delivered", 3), ("queued", 1)]
        written = [await store.note("delivery", "SM1", state, rank=rank) for state, rank in told]
        assert written == [True, True, False, False, False]
        assert await store.noted("delivery", ["SM1"]) == {"SM1": "delivered"}

    async def test_racing_notes_leave_the_highest_rank(self, factory: StoreFactory) -> None:
        async with factory.open() as one, factory.open() as two:
            ranks = (5, 3, 9, 1, 7, -2, 8)
            await asyncio.gather(
                *((one, two)[n % 2].note("delivery", "SM1", rank, rank=rank) for n, rank in enumerate(ranks))
            )
            assert await two.noted("delivery", ["SM1"]) == {"SM1": 9}

    async def test_a_note_may_replace_one_of_its_rank_and_none_above(self, store: Store) -> None:
        assert await store.note("rule", "p", "first")
        assert await store.note("rule", "p", "second", replace=True)
        assert await store.note("rule", "p", "third", rank=1)
        assert not await store.note("rule", "p", "fourth", replace=True)
        assert await store.note("rule", "new", "fifth", replace=True)
        assert await store.noted("rule", ["p", "new"]) == {"p": "third", "new": "fifth"}

    async def test_a_note_that_is_kept_for_a_time_is_there_until_then(self, store: Store) -> None:
        assert await store.note("idempotency", "k", 1, kept=timedelta(days=1))
        assert not await store.note("idempotency", "k", 2, kept=timedelta(days=1))
        assert await store.noted("idempotency", ["k"]) == {"k": 1}

    async def test_notes_outlive_the_process(self, factory: StoreFactory) -> None:
        async with factory.open() as store:
            await store.note("mail", "k", {"n": 1}, rank=2)
        async with factory.open() as store:
            assert await store.noted("mail", ["k"]) == {"k": {"n": 1}}
            assert not await store.note("mail", "k", {"n": 2}, rank=2)

    async def test_notes_and_claims_never_meet(self, store: Store) -> None:
        await store.claim("n", "k", "claim")
        assert await store.note("n", "k", "note")
        assert await store.claim("n", "k", "other") == "claim"

    @pytest.mark.parametrize("value", ["x" * MAX_VALUE_BYTES, float("nan"), [float("inf")], {"a": "\ud83d"}])
    async def test_what_no_note_can_hold_is_refused_and_nothing_is_written(self, store: Store, value: Any) -> None:
        with pytest.raises(InvalidRecord, match="value"):
            await store.note("mail", "k", value)
        assert await store.note("mail", "k", "x" * (MAX_VALUE_BYTES - 2))

    async def test_a_key_that_cannot_be_encoded_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidInput):
            await store.note("mail", "\ud83d", 1)
        with pytest.raises(InvalidInput):
            await store.noted("mail", ["\ud83d"])
