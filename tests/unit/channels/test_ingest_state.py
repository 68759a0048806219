"""What has to be known of a message from one delivery to the next is there before the message is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.channels.test_ingest import THEIRS, ChannelRig, mail, rig, sms

from afterturn.channels.ingest import Ingest
from afterturn.channels.state import MessageDetails, Route, ThreadEntry, message_key
from afterturn.channels.types import SuppressReason
from afterturn.errors import StoreError
from afterturn.model import Channel, ConversationMeta, Message, Turn
from afterturn.store.state import OptOut, StateRecord

__all__ = ["rig"]


@dataclass
class Witness:
    """A writer that looks, before it saves anything, at what is noted."""

    rig: ChannelRig
    seen: dict[str, list[str]] = field(default_factory=dict)

    async def save_messages(self, meta: ConversationMeta, messages: Sequence[Message], **more: Any) -> int:
        await self._look(meta, messages)
        return await self.rig.backbone.save_messages(meta, messages, **more)

    async def settle(self, turn: Turn, **more: Any) -> object:
        await self._look(turn.conversation, turn.messages)
        return await self.rig.backbone.settle(turn, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rig.backbone, name)

    async def _look(self, meta: ConversationMeta, messages: Sequence[Message]) -> None:
        store = self.rig.backbone.store
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


@pytest.mark.parametrize("answers_automatically", [True, False])
async def test_what_later_deliveries_need_is_remembered_before_the_message(
    rig: ChannelRig, *, answers_automatically: bool
) -> None:
    """A process that dies in between gets the message again; an immediate reply finds its route."""
    witness = Witness(rig)
    ingest = Ingest(witness, rig.backbone.store, rig.clock, directory=rig.directory, auto_reply=answers_automatically)
    await ingest.handle(sms(1, "STOP", suppress=SuppressReason.OPT_OUT, extra={"opt": "out"}))
    await ingest.handle(sms(2))
    await ingest.handle(mail("three", extra={"subject": "Hi"}))
    assert witness.seen == {
        "SM1": ["message-details", "route", "opt-out"],
        "SM2": ["route", "opt-out"],
        "three": ["message-details", "route", "thread", "opt-out"],
    }


class Forgetful:
    """A store that cannot write records of one kind, or opt-outs."""

    def __init__(self, rig: ChannelRig, kind: str) -> None:
        self._store = rig.backbone.store
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
async def test_a_message_is_stored_only_after_what_belongs_to_it(rig: ChannelRig, kind: str) -> None:
    stop = sms(1, "STOP", suppress=SuppressReason.OPT_OUT, extra={"opt": "out"})
    with pytest.raises(StoreError, match="the disk is full"):
        await Ingest(rig.backbone, Forgetful(rig, kind), rig.clock).handle(stop)
    assert (await rig.backbone.store.counts())["conversations"] == 0
    await rig.ingest.handle(stop)
    assert await rig.texts() == ["STOP"]
    store = rig.backbone.store
    assert await store.get(Route, f"sms:{THEIRS}") is not None
    assert await store.get(MessageDetails, f"sms:{THEIRS} SM1") is not None
    assert await store.opt_out(Channel.SMS, THEIRS) is not None
