"""Known faults of texts (F8, F26, F34, F43, F49), each sent as it happened, over HTTP, into a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from pathlib import Path

import pytest
from tests.faults.channels_calls import (
    CHAT,
    LOGIN,
    OURS,
    THEIRS,
    Call,
    said,
    sms,
    status,
    telegram_call,
    twilio_call,
    twilio_signature,
)
from tests.faults.channels_rig import Desk, opened, yes
from tests.unit.channels.channels import NOW
from tests.unit.channels.telegram.test_send import GROUP, SUPERGROUP

from afterturn.channels.state import DeliveryStatus


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with opened(tmp_path) as desk:
        yield desk


@pytest.fixture
async def answered(tmp_path: Path) -> AsyncIterator[Desk]:
    async with opened(tmp_path, responder=yes) as desk:
        yield desk


MEMBER = telegram_call({"update_id": 4, "my_chat_member": {"chat": {"id": CHAT, "type": "private"}, "date": 1}})


async def test_f8_an_edit_is_no_second_message_and_no_turn(desk: Desk) -> None:
    later = NOW + timedelta(seconds=30)
    await desk.hear(
        said(1, 10, "stop it"),
        said(2, 10, "stop it", kind="edited_message"),
        said(3, 10, "go on", kind="edited_message", at=later),
        MEMBER,
    )
    [message] = await desk.backbone.store.messages(f"telegram:{CHAT}")
    assert (message.text, message.edited_at is not None) == ("go on", True)
    assert (await desk.turns(f"telegram:{CHAT}"), len(desk.events())) == (1, 1)


async def test_f8_and_nothing_answers_one(answered: Desk) -> None:
    await answered.hear(said(1, 10, "stop it"))
    await answered.work()
    edit = said(3, 10, "go on", kind="edited_message", at=NOW + timedelta(seconds=30))
    await answered.hear(said(2, 10, "stop it", kind="edited_message"), edit, MEMBER)
    await answered.work(wait=timedelta(minutes=5))
    assert [one["text"] for one in answered.telegram.sent] == ["Re: stop it"]
    assert await answered.texts(f"telegram:{CHAT}") == ["go on", "Re: stop it"]
    assert (await answered.turns(f"telegram:{CHAT}"), len(answered.events())) == (1, 1)


MMS = [
    ("Body", ""),
    ("FromCity", ""),
    ("NumMedia", "3"),
    *((f"MediaUrl{n}", f"https://api.twilio.com/{n}") for n in range(3)),
    ("MessageSid", "MM1"),
    ("From", THEIRS),
    ("To", OURS),
]


async def test_f26_a_picture_message_signed_with_blanks_behind_a_proxy_comes_in_whole_and_once(desk: Desk) -> None:
    call = twilio_call(MMS, query="b=2&a=hello+world")
    await desk.hear(call, call)
    [message] = await desk.backbone.store.messages(f"sms:{THEIRS}")
    assert message.text == ""
    assert [file.url for file in message.attachments] == [f"https://api.twilio.com/{n}" for n in range(3)]
    assert (await desk.turns(f"sms:{THEIRS}"), len(desk.events())) == (1, 1)


@pytest.mark.parametrize(
    "signed",
    [
        twilio_signature("/hooks/twilio?b=2&a=hello+world", [pair for pair in MMS if pair[1]]),
        twilio_signature("/hooks/twilio?a=hello+world&b=2", MMS),
        twilio_signature("/hooks/twilio?b=2&a=hello%20world", MMS),
        twilio_signature("/hooks/twilio", MMS),
    ],
    ids=["blanks dropped", "query sorted", "plus rebuilt", "query dropped"],
)
async def test_f26_what_was_signed_otherwise_is_refused(desk: Desk, signed: str) -> None:
    call = twilio_call(MMS, query="b=2&a=hello+world")
    await desk.hear(replace(call, headers={**call.headers, "x-twilio-signature": signed}), status=401)
    assert await desk.count("messages") == 0


TO = said(2, 2, "", chat=GROUP, migrate_to_chat_id=SUPERGROUP)
FROM = said(3, 3, "", chat=SUPERGROUP, migrate_from_chat_id=GROUP)
EARLY = said(4, 4, "Is anybody there?", chat=SUPERGROUP)
BEFORE = said(1, 1, "Hello", chat=GROUP)


@pytest.mark.parametrize("order", [*permutations([TO, FROM, EARLY]), (EARLY, TO), (EARLY, FROM), (TO, EARLY), (FROM,)])
async def test_f34_a_group_that_moved_is_one_conversation_and_is_written_to_where_it_is(
    desk: Desk, order: tuple[Call, ...]
) -> None:
    await desk.hear(BEFORE, *order)
    [conversation] = desk.conversations()
    expected = ["Hello", "Is anybody there?"] if EARLY in order else ["Hello"]
    assert await desk.texts(conversation) == expected
    assert await desk.turns(conversation) == len(expected)
    desk.telegram.moved[GROUP] = SUPERGROUP
    path = f"/api/v1/conversations/{conversation}/replies"
    reply = await desk.front.post(path, json={"text": "At nine."}, headers={**LOGIN, "idempotency-key": "k-1"})
    assert reply.status_code == 201
    await desk.work()
    # Not even tried at the old address.
    assert [call.json()["chat_id"] for call in desk.telegram.calls] == [SUPERGROUP]
    await desk.hear(*order, BEFORE)
    assert (desk.conversations(), await desk.turns(conversation)) == ([conversation], len(expected) + 1)


@pytest.mark.parametrize("order", [(EARLY, TO), (EARLY, FROM, TO), (TO, EARLY)])
async def test_f34_who_writes_before_the_move_is_known_is_answered_once_in_the_one_conversation(
    answered: Desk, order: tuple[Call, ...]
) -> None:
    await answered.hear(BEFORE)
    await answered.work()
    answered.clock.advance(timedelta(seconds=5))
    answered.telegram.moved[GROUP] = SUPERGROUP
    await answered.hear(*order)
    await answered.work(wait=timedelta(minutes=5))
    [conversation] = answered.conversations()
    assert await answered.texts(conversation) == ["Hello", "Re: Hello", "Is anybody there?", "Re: Is anybody there?"]
    assert [one["text"] for one in answered.telegram.sent] == ["Re: Hello", "Re: Is anybody there?"]
    assert answered.telegram.calls[-1].json()["chat_id"] == SUPERGROUP


SPELLINGS = [THEIRS, "15158226442", " 15158226442", "(515) 822-6442"]


async def test_f43_one_phone_in_other_spellings_is_one_conversation_and_names_are_their_own(desk: Desk) -> None:
    for number, sender in enumerate((*SPELLINGS, "12345", "ACME")):
        await desk.hear(sms(number, f"As {sender}", sender=sender))
    assert desk.conversations() == [f"sms:{THEIRS}", "sms:12345", "sms:ACME"]
    assert len(await desk.texts(f"sms:{THEIRS}")) == 4
    found = await desk.backbone.store.conversation(f"sms:{THEIRS}")
    assert found is not None
    assert found.participants == (THEIRS,)


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_f43_an_operator_finds_a_phone_by_every_spelling(desk: Desk, spelling: str) -> None:
    await desk.hear(sms(1), sms(2, sender="+15550177000"))
    found = await desk.front.get("/search", params={"q": spelling}, headers=LOGIN)
    assert found.headers["location"].endswith("participant=%2B15158226442")


async def test_f49_a_status_never_goes_back_is_no_turn_and_takes_nobody_s_id(desk: Desk) -> None:
    for number, state in ((1, "delivered"), (1, "sent"), (1, "delivered"), (2, "failed"), (2, "sent")):
        await desk.hear(status(number, state))
    statuses = await desk.backbone.store.get_all(DeliveryStatus, [f"SM{1:032x}", f"SM{2:032x}"])
    assert [status.state for status in statuses.values()] == ["delivered", "failed"]
    assert (await desk.count(), await desk.count("messages"), desk.events()) == (0, 0, [])
    await desk.hear(sms(1, "I am no status"))
    assert await desk.texts(f"sms:{THEIRS}") == ["I am no status"]
    assert len(desk.events()) == 1
