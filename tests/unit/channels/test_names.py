"""Whoever writes by a channel that tells names is shown by theirs, and is found by their address alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.unit.channels.channels import json_request
from tests.unit.channels.test_ingest import NOW, ChannelRig, rig, sms

from afterturn.channels.state import ContactName
from afterturn.channels.telegram.webhook import parse

__all__ = ["rig"]


async def say(rig: ChannelRig, number: int, sender: dict[str, Any], at: timedelta = timedelta(0)) -> None:
    chat = {"id": 7, "type": "private"}
    message = {"message_id": number, "date": 1772366405, "chat": chat, "text": "Hi", **sender}
    [one] = parse(json_request({"update_id": number, "message": message}), now=NOW + at, bot="1")
    await rig.ingest.handle(one)


async def shown(rig: ChannelRig, *people: str) -> dict[str, str]:
    known = await rig.backbone.store.get_all(ContactName, people)
    return {person: name.text for person, name in known.items()}


async def test_somebody_on_telegram_is_shown_by_name_and_stays_the_same_address(rig: ChannelRig) -> None:
    await say(rig, 1, {"from": {"id": 77, "first_name": "Ada", "last_name": "Lovelace", "username": "ada"}})
    assert await shown(rig, "user77", "user78", "user77") == {"user77": "Ada Lovelace (@ada)"}
    found = await rig.backbone.store.conversation("telegram:7")
    assert found is not None
    assert (found.participants, found.contact_name) == (("user77",), "Ada Lovelace (@ada)")


async def test_the_newest_name_is_shown_whatever_comes_late(rig: ChannelRig) -> None:
    await say(rig, 1, {"from": {"id": 77, "first_name": "Ada King"}}, timedelta(seconds=9))
    await say(rig, 2, {"from": {"id": 77, "first_name": "Ada"}}, timedelta(seconds=5))
    assert await shown(rig, "user77") == {"user77": "Ada King"}


async def test_a_group_that_speaks_is_shown_by_its_title(rig: ChannelRig) -> None:
    bot = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
    await say(rig, 1, {"from": bot, "sender_chat": {"id": -100, "title": "ChannelRig 12"}})
    assert await shown(rig, "chat-100") == {"chat-100": "ChannelRig 12"}


async def test_who_bears_no_name_has_none_and_ours_are_not_told_as_theirs(rig: ChannelRig) -> None:
    await rig.ingest.handle(sms(1))
    await say(rig, 1, {"from": {"id": 77}})
    await rig.ingest.handle(replace(sms(2), extra={"name": "We", "direction": "outbound"}))
    assert await shown(rig, "user77", "+15158226442") == {}
    assert await shown(rig) == {}
