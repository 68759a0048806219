"""What has to be known of a message from one delivery to the next is there before the message is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.channels.test_intake import THEIRS, House, house, mail, sms

from afterturn.channels.ingest import ABOUT, OPTED_OUT, ROUTE, Ingest
from afterturn.channels.threads import THREAD
from afterturn.channels.types import SuppressReason
from afterturn.errors import StoreError
from afterturn.model import ConversationMeta, Message, Turn
from afterturn.store.port import Note

__all__ = ["house"]


@dataclass
class Witness:
    """A writer that looks, before it saves anything, at what is noted."""

    house: House
    seen: dict[str, list[str]] = field(default_factory=dict)

    async def save_messages(self, meta: ConversationMeta, messages: Sequence[Message], **more: Any) -> int:
        await self._look(meta, messages)
        return await self.house.backbone.save_messages(meta, messages, **more)

    async def settle(self, turn: Turn, **more: Any) -> object:
        await self._look(turn.conversation, turn.messages)
        return await self.house.backbone.settle(turn, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.house.backbone, name)

    async def _look(self, meta: ConversationMeta, messages: Sequence[Message]) -> None:
        for one in messages:
            keys = {ROUTE: meta.id, ABOUT: f"{meta.id} {one.id}", OPTED_OUT: THEIRS, THREAD: one.id}
            noted = self.house.backbone.store.noted
            self.seen[one.id] = sorted([name for name, key in keys.items() if await noted(name, [key])])


@pytest.mark.parametrize("answering", [True, False])
async def test_what_has_to_be_known_of_a_message_is_noted_before_it_is_kept(house: House, *, answering: bool) -> None:
    """Whoever dies in between is called again, and whoever answers at once finds the way back."""
    witness = Witness(house)
    intake = Ingest(witness, house.backbone.store, house.clock, directory=house.directory, answering=answering)
    await intake.take(sms(1, "STOP", suppress=SuppressReason.OPT_OUT, extra={"opt": "out"}))
    await intake.take(sms(2))
    await intake.take(mail("three", extra={"subject": "Hi"}))
    assert witness.seen == {
        "SM1": [ABOUT, OPTED_OUT, ROUTE],
        "SM2": [OPTED_OUT, ROUTE],
        "three": [ABOUT, OPTED_OUT, ROUTE, THREAD],
    }


class Forgetful:
    """A store that cannot note things of one name."""

    def __init__(self, house: House, name: str) -> None:
        self._store = house.backbone.store
        self._name = name

    async def note(self, name: str, key: str, value: Any, **more: Any) -> bool:
        if name == self._name:
            raise StoreError("the disk is full")
        return await self._store.note(name, key, value, **more)

    async def note_all(self, notes: Sequence[Note]) -> Sequence[bool]:
        if any(one.name == self._name for one in notes):
            raise StoreError("the disk is full")
        return await self._store.note_all(notes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.parametrize("name", [ROUTE, ABOUT, OPTED_OUT])
async def test_what_cannot_be_noted_keeps_its_message_out_until_it_comes_again(house: House, name: str) -> None:
    stop = sms(1, "STOP", suppress=SuppressReason.OPT_OUT, extra={"opt": "out"})
    forgetful = Forgetful(house, name)
    with pytest.raises(StoreError, match="the disk is full"):
        await Ingest(house.backbone, forgetful, house.clock).take(stop)
    assert (await house.backbone.store.counts())["conversations"] == 0
    await house.intake.take(stop)
    assert await house.texts() == ["STOP"]
    assert await house.backbone.store.noted(name, [THEIRS, f"sms:{THEIRS}", f"sms:{THEIRS} SM1"])
