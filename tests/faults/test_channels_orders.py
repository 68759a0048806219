"""Deliveries in any order, twice, and at the same time: they end as if each had come once, in its turn."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.faults.channels_rig import ChannelApp, opened, yes
from tests.unit.channels.channels import NOW
from tests.unit.channels.provider_calls import (
    DESK,
    THEIRS,
    Call,
    mail_call,
    mime,
    retell_call,
    said,
    sms,
    status,
    twilio_voice,
    web_call,
)
from tests.unit.channels.telegram.test_send import GROUP, SUPERGROUP

from afterturn.channels.responder import ReplyRequest

EXAMPLES = 6 if settings().derandomize else 300
"""Each is a store of its own; AFTERTURN_TEST_EXAMPLES=search asks for more."""

SECOND = timedelta(seconds=1)
CHAT = 279058397
ROOT, REPLY = "root@tenants.example", "reply@tenants.example"


def answering(number: int, body: str, name: str, *after: str) -> Call:
    known = " ".join(f"<{one}>" for one in after)
    raw = mime(body, name=name, References=known or None, In_Reply_To=f"<{after[-1]}>" if after else None)
    return mail_call(raw, number, at=NOW - timedelta(minutes=1) + number * SECOND)


SCRIPT: dict[str, Call] = {
    "text": sms(1, "One"),
    "another": sms(2, "Two"),
    "delivered": status(9, "delivered"),
    "sent": status(9, "sent"),
    "chat": said(1, 1, "Uno"),
    "edit": said(2, 1, "Uno!", kind="edited_message", at=NOW - 9 * SECOND),
    "edit again": said(3, 1, "Uno!!", kind="edited_message", at=NOW - 5 * SECOND),
    "group": said(4, 1, "Alpha", chat=GROUP),
    "moved to": said(5, 2, "", chat=GROUP, migrate_to_chat_id=SUPERGROUP),
    "moved from": said(6, 1, "", chat=SUPERGROUP, migrate_from_chat_id=GROUP),
    "supergroup": said(7, 2, "Beta", chat=SUPERGROUP),
    "mail": answering(1, "First", ROOT),
    "reply": answering(2, "Second", REPLY, ROOT),
    "reply to it": answering(3, "Third", "third@tenants.example", ROOT, REPLY),
    "ended": twilio_voice("completed"),
    "spoken": twilio_voice("completed", TranscriptionText="I called", TranscriptionSid="TR1"),
    "call": retell_call({"event": "call_ended", "call": {"call_id": "c-1", "transcript": "User: Me, too"}}),
    "page": web_call("v-1", 1, "On the page"),
}

EXPECTED = sorted(
    [
        ["One", "Two"],
        ["Uno!!"],
        ["Alpha", "Beta"],
        ["First", "Second", "Third"],
        ["I called"],
        ["Me, too"],
        ["On the page"],
    ]
)

deliveries = st.tuples(st.permutations([*SCRIPT]), st.lists(st.sampled_from([*SCRIPT]), max_size=8)).flatmap(
    lambda drawn: st.tuples(
        st.permutations([*drawn[0], *drawn[1]]), st.lists(st.integers(1, 6), min_size=26, max_size=26)
    )
)


async def deliver(channel_app: ChannelApp, names: Sequence[str], sizes: Sequence[int], *, working: bool) -> None:
    """In groups of these sizes, each at the same time."""
    left, place = [*names], 0
    while left:
        group, left = left[: sizes[place]], left[sizes[place] :]
        place += 1
        await asyncio.gather(
            *(channel_app.hear(SCRIPT[name]) for name in group), *([channel_app.work()] if working else [])
        )
    await channel_app.work(wait=timedelta(minutes=4))
    await channel_app.work(wait=timedelta(minutes=4))


async def inbound(channel_app: ChannelApp) -> list[list[str]]:
    """What was said, by conversation."""
    found = []
    for name in channel_app.conversations():
        messages = await channel_app.backbone.store.messages(name)
        found.append(sorted(one.text for one in messages if one.direction == "inbound"))
    return sorted(one for one in found if one)


async def check_people(drawn: tuple[Sequence[str], Sequence[int]], folder: Path) -> None:
    async with opened(folder) as channel_app:
        await deliver(channel_app, *drawn, working=False)
        assert await inbound(channel_app) == EXPECTED
        noted = channel_app.rows("SELECT value FROM state WHERE kind = 'delivery-status'")
        assert [json.loads(value)["state"] for (value,) in noted] == ["delivered"]
        assert Counter(event["eventId"] for event in channel_app.events()).most_common(1)[0][1] == 1


@settings(max_examples=EXAMPLES)
@given(drawn=deliveries)
def test_whatever_comes_in_whatever_order_ends_the_same(drawn: tuple[Sequence[str], Sequence[int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check_people(drawn, Path(folder)))


async def check_machine(drawn: tuple[Sequence[str], Sequence[int]], folder: Path) -> None:
    seen: set[str] = set()

    async def answer(asked: ReplyRequest) -> str:
        seen.update(one.id for one in asked.messages)
        await asyncio.sleep(0)
        return f"Answer to {len(asked.messages)}"

    async with opened(folder, responder=answer) as channel_app:
        channel_app.telegram.moved[GROUP] = SUPERGROUP
        await deliver(channel_app, *drawn, working=True)
        said_to_us = {
            message_id
            for (message_id,) in channel_app.rows(
                "SELECT m.id FROM messages m JOIN conversations c ON c.id = m.conversation_id "
                "WHERE m.direction = 'inbound' AND c.channel != 'voice' AND c.synthetic = 0"
            )
        }
        assert said_to_us <= seen
        for name in channel_app.conversations():
            messages = await channel_app.backbone.store.messages(name)
            answers = sum(one.direction == "outbound" for one in messages)
            assert answers <= len(messages) - answers
        sent: dict[str, Any] = {
            THEIRS: [one for one in channel_app.twilio.sent if one["To"] == THEIRS],
            "chat": [one for one in channel_app.telegram.sent if one["chat_id"] == CHAT],
            "group": [one for one in channel_app.telegram.sent if one["chat_id"] == SUPERGROUP],
            "mail": [raw for part, raw in channel_app.mailer.sent if part.account == DESK],
        }
        assert {name: 1 <= len(one) <= 3 for name, one in sent.items()} == dict.fromkeys(sent, True)
        assert len(sent["chat"]) == 1
        assert channel_app.rows("SELECT count(*) FROM jobs WHERE done = 0") == [(0,)]


@settings(max_examples=EXAMPLES)
@given(drawn=deliveries)
def test_and_each_is_seen_by_who_answers_and_none_is_answered_twice(drawn: tuple[Sequence[str], Sequence[int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check_machine(drawn, Path(folder)))


GROUP_CALLS = ("group", "moved to", "moved from", "supergroup")


@pytest.mark.parametrize("together", [2, 4])
@pytest.mark.parametrize("first", GROUP_CALLS)
async def test_a_group_that_moves_while_its_messages_come_in_is_one_conversation(
    tmp_path: Path, first: str, together: int
) -> None:
    """F34: the move is told twice while somebody writes on either side of it."""
    others = [name for name in GROUP_CALLS if name != first]
    for number, rest in enumerate(([*others], [*reversed(others)])):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with opened(folder) as channel_app:
            await deliver(channel_app, [first, *rest], [together] * 4, working=False)
            assert await inbound(channel_app) == [["Alpha", "Beta"]]


@pytest.mark.parametrize(
    "order", [("supergroup", "moved to"), ("supergroup", "moved from", "moved to"), ("moved to", "supergroup")], ids=str
)
async def test_f34_a_message_before_the_move_is_known_is_answered_once_at_the_new_address(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    async with opened(tmp_path, responder=yes) as channel_app:
        await channel_app.hear(SCRIPT["group"])
        await channel_app.work()
        channel_app.clock.advance(timedelta(seconds=5))
        channel_app.telegram.moved[GROUP] = SUPERGROUP
        await channel_app.hear(*(SCRIPT[name] for name in order))
        await channel_app.work(wait=timedelta(minutes=5))
        [conversation] = channel_app.conversations()
        assert await channel_app.texts(conversation) == ["Alpha", "Re: Alpha", "Beta", "Re: Beta"]
        assert [call.json()["chat_id"] for call in channel_app.telegram.calls] == [GROUP, SUPERGROUP]
