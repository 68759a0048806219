"""Edits of messages that are stored."""

from __future__ import annotations

import asyncio
from itertools import permutations

import pytest
from tests.contract.samples import T0, at, message, meta
from tests.contract.store.factory import StoreFactory, settle_new

from afterturn.errors import InvalidInput, InvalidRecord
from afterturn.model import MAX_TEXT_BYTES, Attachment, Message
from afterturn.store.port import Store


async def edit(store: Store, text: str, second: float, provider_id: str = "tg:10") -> bool:
    return await store.edit_message("c1", provider_id, text, at=at(second))


async def only_message(store: Store) -> Message:
    (found,) = await store.messages("c1")
    return found


class EditContract:
    """F8: an edit changes the stored message, and nothing else."""

    async def test_an_edit_changes_text_and_mark_and_nothing_else(self, store: Store) -> None:
        given = message("m1", 1, provider_id="tg:10", text="stop it", attachments=(Attachment(url="u"),))
        await settle_new(store, "c1", given, message("m2", 2, provider_id="tg:11"), property_id="p1", now=at(2))
        before, turns = await store.conversation("c1"), await store.turns("c1", limit=9)
        assert await edit(store, "go on", 3)
        edited = given.model_copy(update={"text": "go on", "edited_at": at(3)})
        assert await store.messages("c1") == (edited, message("m2", 2, provider_id="tg:11"))
        assert await store.conversation("c1") == before
        assert await store.turns("c1", limit=9) == turns

    async def test_the_same_text_again_is_no_edit(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", provider_id="tg:10", text="stop it"), now=T0)
        assert not await edit(store, "stop it", 3)
        assert await only_message(store) == message("m1", provider_id="tg:10", text="stop it")
        assert await edit(store, "go on", 2)
        assert not await edit(store, "go on", 9)
        assert (await only_message(store)).edited_at == at(2)

    async def test_an_edit_that_is_not_newer_changes_nothing(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", provider_id="tg:10"), now=T0)
        assert await edit(store, "second", 20)
        assert not await edit(store, "first", 10)
        assert not await edit(store, "other", 20)
        assert (await only_message(store)).text == "second"
        assert await edit(store, "third", 20.000_001)

    async def test_edits_in_any_order_leave_the_newest(self, store: Store) -> None:
        for number, order in enumerate(permutations((1, 2, 3, 4))):
            provider_id = f"tg:{number}"
            await store.save_messages(meta("c1"), [message(f"m{number}", number, provider_id=provider_id)], now=at(99))
            done = [await edit(store, f"text {second}", second, provider_id) for second in order]
            assert done == [second == max(order[: place + 1]) for place, second in enumerate(order)]
        assert {(one.text, one.edited_at) for one in await store.messages("c1")} == {("text 4", at(4))}

    async def test_racing_edits_leave_the_newest(self, factory: StoreFactory) -> None:
        async with factory.open() as one, factory.open() as two:
            await settle_new(one, "c1", message("m1", provider_id="tg:10"), now=T0)
            seconds = (5, 3, 9, 1, 7, 2, 8)
            await asyncio.gather(*(edit((one, two)[n % 2], f"text {s}", s) for n, s in enumerate(seconds)))
            found = await only_message(two)
            assert (found.text, found.edited_at) == ("text 9", at(9))

    async def test_a_message_that_is_not_there_is_not_edited(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", provider_id="tg:10"), message("m2"), now=T0)
        for conversation_id, provider_id in [("c1", "tg:99"), ("c2", "tg:10"), ("c1", "m2"), ("x" * 300, "tg:10")]:
            assert not await store.edit_message(conversation_id, provider_id, "new", at=at(1))
        assert not await edit(store, "new", 1, "x" * 300)
        assert await store.conversation("c2") is None

    async def test_a_redelivery_after_an_edit_does_not_bring_the_old_text_back(self, store: Store) -> None:
        given = message("m1", provider_id="tg:10", text="old")
        await settle_new(store, "c1", given, now=T0)
        await edit(store, "new", 1)
        assert not (await store.save_messages(meta("c1"), [given], now=at(2)))
        assert (await only_message(store)).text == "new"

    async def test_what_is_not_yet_settled_is_edited_too(self, store: Store) -> None:
        """And the window of its turn has the new text."""
        await store.save_messages(meta("c1"), [message("m1", provider_id="tg:10")], now=T0)
        assert await edit(store, "new", 1)
        await settle_new(store, "c1", message("m2"), now=at(2))
        window = await store.window("c1", "topics")
        assert window is not None
        assert [(one.text, one.edited_at) for one in window.messages] == [("new", at(1)), ("text of m2", None)]

    async def test_an_edited_message_may_be_brought_as_such(self, store: Store) -> None:
        """As an import has it; an older edit than that one changes nothing."""
        given = message("m1", provider_id="tg:10", edited_at=at(5))
        await settle_new(store, "c1", given, now=at(9))
        assert await only_message(store) == given
        assert not await edit(store, "older", 4)
        assert await edit(store, "newer", 6)

    async def test_the_limits_of_text_hold_for_edits(self, store: Store) -> None:
        """F19: and it is cleaned as every text is."""
        await settle_new(store, "c1", message("m1", provider_id="tg:10", text="old"), now=T0)
        for text in ("x" * (MAX_TEXT_BYTES + 1), "\ud83d"):
            with pytest.raises(InvalidRecord, match="text"):
                await edit(store, text, 1)
        with pytest.raises(InvalidRecord, match="at"):
            await store.edit_message("c1", "tg:10", "new", at=at(1).replace(tzinfo=None))
        with pytest.raises(InvalidInput):
            await edit(store, "new", 1, "\ud83d")
        assert (await only_message(store)).text == "old"
        assert await edit(store, "a\x00b", 1)
        assert (await only_message(store)).text == "a\ufffdb"
        assert not await edit(store, "a\x00b", 2)
        assert await edit(store, "", 3)
        assert await edit(store, "é" * (MAX_TEXT_BYTES // 2), 4)
