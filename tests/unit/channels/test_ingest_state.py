"""What has to be known of a message from one delivery to the next is there before the message is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.channels.test_ingest import THEIRS, House, house, mail, sms

from afterturn.channels.ingest import Ingest
from afterturn.channels.state import MessageDetails, Route, ThreadEntry, message_key
from afterturn.channels.types import SuppressReason
from afterturn.errors import StoreError
from afterturn.model import Channel, ConversationMeta, Message, Turn
from afterturn.store.port import OptOut, StateRecord

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
        store = self.house.backbone.store
        for message in messages:
            keys: dict[type[StateRecord], list[str]] = {
                Route: [meta.id],
                MessageDetails: [message_key(meta.id, message.id)],
                ThreadEntry: [message.id],
            }
            known = await store.get_many(keys)
            self.seen[message.id] = sorted(kind.kind for kind in keys if known.all(kind))
            if await store.opt_out(Channel.SMS, THEIRS) is not None:
                self.seen[message.id].append("opt-out")


@pytest.mark.parametrize("answering", [True, False])
async def test_what_later_deliveries_need_is_remembered_before_the_message(house: House, *, answering: bool) -> None:
    """A process that dies in between gets the message again; an immediate reply finds its route."""
    witness = Witness(house)
    intake = Ingest(witness, house.backbone.store, house.clock, directory=house.directory, auto_reply=answering)
    await intake.handle(sms(1, "STOP", suppress=SuppressReason.OPT_OUT, extra={"opt": "out"}))
    await intake.handle(sms(2))
    await intake.handle(mail("three", extra={"subject": "Hi"}))
    assert witness.seen == {
        "SM1": ["message-details", "route", "opt-out"],
        "SM2": ["route", "opt-out"],
        "three": ["message-details", "route", "thread", "opt-out"],
    }


class Forgetful:
    """A store that cannot write records of one kind, or opt-outs."""

    def __init__(self, house: House, kind: str) -> None:
        self._store = house.backbone.store
        self._kind = kind

    async def put_all(self, records: Sequence[StateRecord]) -> Sequence[bool]:
        if any(record.kind == self._kind for record in records):
            raise StoreError("the disk is full")
        return await self._store.put_all(records)

    async def put_opt_out(self, opt_out: OptOut) -> bool:
        if self._kind == "opt-out":
            raise StoreError("the disk is full")
        return await self._store.put_opt_out(opt_out)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.parametrize("kind", [Route.kind, MessageDetails.kind, "opt-out"])
async def test_a_message_is_stored_only_after_what_belongs_to_it(house: House, kind: str) -> None:
    stop = sms(1, "STOP", suppress=SuppressReason.OPT_OUT, extra={"opt": "out"})
    with pytest.raises(StoreError, match="the disk is full"):
        await Ingest(house.backbone, Forgetful(house, kind), house.clock).handle(stop)
    assert (await house.backbone.store.counts())["conversations"] == 0
    await house.intake.handle(stop)
    assert await house.texts() == ["STOP"]
    store = house.backbone.store
    assert await store.get(Route, f"sms:{THEIRS}") is not None
    assert await store.get(MessageDetails, f"sms:{THEIRS} SM1") is not None
    assert await store.opt_out(Channel.SMS, THEIRS) is not None
