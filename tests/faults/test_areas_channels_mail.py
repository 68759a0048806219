"""Known faults of mail (F10, F14, F16, F20), each sent as it happened: by SES, SNS and HTTP, into a real store."""

from __future__ import annotations

import email
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.faults.channels_calls import mail_call, mime, sns_call
from tests.faults.channels_rig import Desk, opened, yes
from tests.unit.channels.channels import NOW

from afterturn.channels.state import MessageDetails


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with opened(tmp_path) as desk:
        yield desk


@pytest.fixture
async def answered(tmp_path: Path) -> AsyncIterator[Desk]:
    async with opened(tmp_path, responder=yes) as desk:
        yield desk


async def messages(desk: Desk) -> list[str]:
    return [
        text
        for (text,) in desk.rows(
            "SELECT text FROM messages WHERE direction = 'inbound' ORDER BY at, conversation_id DESC"
        )
    ]


@pytest.mark.parametrize("name", [None, "", "<>", " "], ids=["none", "empty", "brackets", "blank"])
async def test_f10_two_mails_without_an_id_are_two_and_a_second_delivery_is_none(desk: Desk, name: str | None) -> None:
    later = NOW + timedelta(minutes=2)
    ids = {"Message_ID": name}
    first = mail_call(mime("The boiler is cold.", name=None, **ids), 1)
    second = mail_call(mime("And now it leaks.", name=None, **ids), 2, at=later)
    await desk.hear(first)
    desk.clock.advance(timedelta(minutes=2))
    await desk.hear(second, first)
    assert await messages(desk) == ["The boiler is cold.", "And now it leaks."]
    assert (await desk.count(), len(desk.events())) == (2, 2)


GOOD = mail_call(mime("I am well.", name="good@tenants.example", Subject="Well"), 99)


@pytest.mark.parametrize("charset", ["bogus", "uft-8", "1", '""'])
@pytest.mark.parametrize("encoding", ["BASE64", "UTF-8"])
async def test_f14_a_charset_that_is_none_loses_no_mail_and_not_the_next_one(
    desk: Desk, charset: str, encoding: str
) -> None:
    kind = f"text/plain; charset={charset}"
    body = b"h\xe9llo" if encoding == "BASE64" else "h\u00e9llo".encode()
    odd = mime(body, Content_Type=kind, Subject="=?x-unknown?Q?abc?=")
    await desk.hear(mail_call(odd, 1, encoding=encoding), GOOD)
    assert await messages(desk) == ["héllo", "I am well."]
    details = await desk.backbone.store.get(MessageDetails, "mail:m1@tenants.example m1@tenants.example")
    assert details is not None
    assert details.facts["subject"] == "abc"


async def test_f14_raw_bytes_in_a_header_lose_neither_the_mail_nor_its_sender(desk: Desk) -> None:
    await desk.hear(mail_call(mime(From=b"J\xf6 <jo@tenants.example>", Subject=b"K\xfche")), GOOD)
    assert await messages(desk) == ["The boiler is cold.", "I am well."]
    found = await desk.backbone.store.conversation("mail:m1@tenants.example")
    assert found is not None
    assert found.participants == ("jo@tenants.example",)


@pytest.mark.parametrize(
    "name",
    [b'"B\xfcro.pdf"', '"Büro.pdf"'.encode(), b'"=?utf-8?q?B=C3=BCro.pdf?="', b'"B\xfc\r\n ro.pdf"'],
    ids=["latin", "utf-8", "encoded", "folded"],
)
async def test_f14_raw_bytes_in_the_name_of_a_file_are_read_as_in_a_text(desk: Desk, name: bytes) -> None:
    where = b"attachment; filename=" + name
    await desk.hear(mail_call(mime("%PDF", Content_Type="application/pdf", Content_Disposition=where)), GOOD)
    [message] = await desk.backbone.store.messages("mail:m1@tenants.example")
    assert [file.name.replace(" ", "") for file in message.attachments] == ["Büro.pdf"]


async def test_f14_a_mail_in_s3_is_kept_by_its_bytes(desk: Desk) -> None:
    """What cannot be read as it was meant can be looked up: its place is noted."""
    odd = mime(b"h\xe9llo", Content_Type="text/plain; charset=bogus")
    desk.bucket["in/1"] = odd
    value = {
        "notificationType": "Received",
        "mail": {"messageId": "s3-1", "timestamp": "2026-06-01T12:00:00.000Z", "source": "jo@tenants.example"},
        "receipt": {
            "recipients": ["desk@homes.example"],
            "action": {"type": "S3", "bucketName": "mails", "objectKey": "in/1"},
        },
    }
    await desk.hear(sns_call(value), GOOD)
    assert await messages(desk) == ["héllo", "I am well."]
    details = await desk.backbone.store.get(MessageDetails, "mail:m1@tenants.example m1@tenants.example")
    assert details is not None
    assert details.facts["raw"] == "s3://mails/in/1"


F16: dict[str, tuple[dict[str, str], bool]] = {
    "auto-replied": ({"Auto_Submitted": "auto-replied"}, False),
    "auto-submitted no": ({"Auto_Submitted": "no"}, True),
    "only suppress": ({"X_Auto_Response_Suppress": "All"}, True),
    "null sender": ({"Return_Path": "<>"}, False),
    "bulk": ({"Precedence": "bulk"}, False),
}


@pytest.mark.parametrize("kind", F16)
async def test_f16_every_mail_is_kept_and_a_machine_answers_people_alone(answered: Desk, kind: str) -> None:
    headers, is_answered = F16[kind]
    await answered.hear(mail_call(mime(**headers)))
    await answered.work(wait=timedelta(minutes=1))
    assert await messages(answered) == ["The boiler is cold."]
    assert len(answered.mailer.sent) == is_answered
    for _, raw in answered.mailer.sent:
        ours = email.message_from_bytes(raw)
        assert (ours["Auto-Submitted"], ours["To"]) == ("auto-replied", "jo@tenants.example")
        assert ours["In-Reply-To"] == "<m1@tenants.example>"


async def test_f16_two_machines_are_stopped_by_the_number_of_their_answers(answered: Desk) -> None:
    """The other one quotes ours, six times in a minute, and says in no header what it is."""
    for number in range(6):
        body = (
            f"We are closed.\r\n\r\nOn 1 Jun 2026, at 12:00, {number} <desk@homes.example> wrote:\r\n> Re: The boiler"
        )
        more: dict[str, str] = {}
        if answered.mailer.sent:
            more["In_Reply_To"] = f"<{number:04d}>"
            more["References"] = "<loop0@tenants.example>"
        mail = mime(body, name=f"loop{number}@tenants.example", **more)
        await answered.hear(mail_call(mail, number, at=answered.clock()))
        await answered.work(wait=timedelta(seconds=9))
    assert len(await messages(answered)) == 6
    assert 0 < len(answered.mailer.sent) <= 4
    assert all(email.message_from_bytes(raw)["Auto-Submitted"] == "auto-replied" for _, raw in answered.mailer.sent)


DATES = {
    "2234": "Mon, 16 Jun 2234 18:55:24 +0200",
    "2018": "Mon, 1 Jan 2018 01:04:44 +0100",
    "garbage": "garbage",
    "absent": None,
    "no zone": "Mon, 1 Jan 2026 10:00:00 -0000",
}
SAID = {
    "2234": datetime(2234, 6, 16, 16, 55, 24, tzinfo=UTC),
    "2018": datetime(2018, 1, 1, 0, 4, 44, tzinfo=UTC),
    "no zone": datetime(2026, 1, 1, 10, tzinfo=UTC),
}


async def test_f20_a_mail_is_as_new_as_its_receipt_and_its_own_date_is_kept_aside(desk: Desk) -> None:
    for number, (name, date) in enumerate(DATES.items()):
        mail = mime(f"Of {name}", name=f"{number}@tenants.example", Date=date, Subject=f"Of {name}")
        await desk.hear(mail_call(mail, number, at=NOW + timedelta(minutes=number)))
        desk.clock.advance(timedelta(minutes=1))
    answer = await desk.front.get("/api/v1/conversations", headers={"authorization": "Bearer aft_desk"})
    rows = answer.json()["rows"]
    assert [row["id"] for row in rows] == [f"mail:{number}@tenants.example" for number in (4, 3, 2, 1, 0)]
    for number, name in enumerate(DATES):
        found = await desk.backbone.store.conversation(f"mail:{number}@tenants.example")
        assert found is not None
        assert found.last_message_at == NOW + timedelta(minutes=number)
        key = f"{found.id} {number}@tenants.example"
        details = await desk.backbone.store.get(MessageDetails, key)
        assert (None if details is None else details.sent_at) == SAID.get(name)
