"""The preview of the newest message in a conversation's row."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from tests.contract.samples import at, message, meta, turn
from tests.contract.store.factory import StoreFactory, settle, settle_new

from afterturn.model import Attachment, Direction, Message, MessagePreview, Role, SendProblem
from afterturn.store.invariants import preview_text
from afterturn.store.pagination import newest
from afterturn.store.port import Store

PROBLEM = SendProblem(state="undeliverable", reason="opted-out")


def preview_of(message: Message) -> MessagePreview:
    return MessagePreview(
        message_id=message.id,
        direction=message.direction,
        role=message.role,
        at=message.at,
        text=preview_text(message.text),
        attachments=len(message.attachments),
    )


async def preview(store: Store, conversation_id: str = "c1") -> MessagePreview | None:
    """The same from the row by id and from the index."""
    conversation = await store.conversation(conversation_id)
    assert conversation is not None
    (listed,) = [one for one in await newest(store, 9) if one.id == conversation_id]
    assert listed.preview == conversation.preview
    return conversation.preview


class PreviewContract:
    """The row previews the newest message: the one that ``messages(limit=1)`` returns."""

    async def test_every_write_of_messages_leaves_the_newest_in_the_row(self, store: Store) -> None:
        await store.save_conversation(meta("c1"), now=at(0))
        assert await preview(store) is None
        first = message("m1", 1, text="Hello\n there", attachments=(Attachment(url="u"),))
        await store.save_messages(meta("c1"), [first], now=at(1))
        assert await preview(store) == MessagePreview(
            message_id="m1",
            direction=Direction.INBOUND,
            role=Role.CUSTOMER,
            at=at(1),
            text="Hello there",
            attachments=1,
        )
        answer = message("m2", 2, direction=Direction.OUTBOUND, role=Role.AGENT)
        await settle_new(store, "c1", answer, now=at(2))
        assert await preview(store) == preview_of(answer)
        await store.save_messages(meta("c1"), [message("m3", 3), message("m4", 3)], now=at(3))
        assert await preview(store) == preview_of(message("m4", 3))

    async def test_a_late_message_and_a_redelivery_replace_nothing(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", 5), message("m2", 9), now=at(9))
        await settle_new(store, "c1", message("m3", 7), now=at(10))
        await store.save_messages(meta("c1"), [message("m4", 8), message("m1", 5)], now=at(11))
        await settle(store, turn("c1", message("m2", 9, text="other")), at(12))
        assert await preview(store) == preview_of(message("m2", 9))
        (last,) = await store.messages("c1", limit=1)
        assert last.id == "m2"

    async def test_an_edit_changes_the_preview_of_its_message_only(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", 1, provider_id="p1"), message("m2", 2, provider_id="p2"), now=at(2))
        assert await store.edit_message("c1", "p1", "older", at=at(3))
        assert await preview(store) == preview_of(message("m2", 2))
        assert await store.edit_message("c1", "p2", "newer \n text", at=at(3))
        assert await preview(store) == preview_of(message("m2", 2, text="newer text"))
        await settle_new(store, "c1", message("m3", 4), now=at(4))
        assert await preview(store) == preview_of(message("m3", 4))

    async def test_a_send_problem_stays_with_its_message(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", 1, provider_id="p1"), now=at(1))
        shown = preview_of(message("m1", 1))
        await store.set_send_problem("c1", "m1", PROBLEM)
        assert await preview(store) == shown.model_copy(update={"send_problem": PROBLEM})
        await store.edit_message("c1", "p1", "edited", at=at(2))
        edited = shown.model_copy(update={"text": "edited"})
        assert await preview(store) == edited.model_copy(update={"send_problem": PROBLEM})
        await store.set_send_problem("c1", "m1", None)
        assert await preview(store) == edited
        await store.set_send_problem("c1", "m0", PROBLEM)
        await store.set_send_problem("c2", "m1", PROBLEM)
        assert await preview(store) == edited
        await store.set_send_problem("c1", "m1", PROBLEM)
        await settle_new(store, "c1", message("m2", 3), now=at(3))
        assert await preview(store) == preview_of(message("m2", 3))

    async def test_writers_at_once_leave_the_newest(self, factory: StoreFactory, store: Store) -> None:
        await settle_new(store, "c1", message("m0", 0, provider_id="p0"), now=at(0))
        async with factory.open() as other:
            await asyncio.gather(
                *(settle(store, turn("c1", message(f"a{n}", n)), at(50)) for n in (9, 3, 7)),
                *(settle(other, turn("c1", message(f"b{n}", n)), at(50)) for n in (8, 2)),
                other.edit_message("c1", "p0", "edited", at=at(50)),
            )
        assert await preview(store) == preview_of(message("a9", 9))

    async def test_the_name_of_the_first_participant_is_the_newest_one(self, store: Store) -> None:
        counter = itertools.count(1)

        async def name(given: str | None, *people: str, save: bool = False) -> str | None:
            count = next(counter)
            told: Any = {"participants": people, "contact_name": given}
            if save:
                await store.save_messages(meta("c1", **told), [message(f"m{count}", count)], now=at(count))
            else:
                await settle_new(store, "c1", message(f"m{count}", count), now=at(count), **told)
            found = await store.conversation("c1")
            assert found is not None
            return found.contact_name

        assert await name("Ada", "a1", save=True) == "Ada"
        assert await name(None, "a1") == "Ada"
        assert await name("Bob", "a2") == "Ada"
        assert await name("Ada L.", "a1", "a2") == "Ada L."
        assert await name("Nobody") == "Ada L."
        assert (await store.save_conversation(meta("c1"), now=at(99))).contact_name is None
