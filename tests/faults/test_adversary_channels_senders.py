"""Who a mail is from and whom it concerns, however it is written: one person, one house, and nobody else's words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.faults.channels_calls import DESK, ELM, LOGIN, graph_call, mail_call, mime
from tests.faults.channels_rig import Desk, opened, yes
from tests.unit.channels.channels import NOW

from afterturn.channels.email.addresses import MAX_CHARS, normalise_address, parse_addresses
from afterturn.channels.routing import Directory
from afterturn.channels.state import MessageDetails, message_key

FIRST = "mail:m0@tenants.example"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    directory = Directory(accounts={DESK: "oak", ELM: "elm"}, people={"jo@xn--bcher-kva.example": "ash"})
    async with opened(tmp_path, responder=yes, directory=directory) as desk:
        yield desk


def follow(number: int = 1, body: str = "And now it leaks.", **headers: Any) -> bytes:
    """A mail that answers the first one."""
    return mime(body, name=f"m{number}@tenants.example", In_Reply_To="<m0@tenants.example>", **headers)


async def hushed(desk: Desk, conversation: str, message: str) -> str | None:
    details = await desk.backbone.store.get(MessageDetails, message_key(conversation, message))
    assert details is not None
    return details.suppress


SAME = [
    "jo@tenants.example",
    "<jo@tenants.example>",
    "JO@Tenants.EXAMPLE",
    "Jo <jo@tenants.example>",
    '"Roe, Jo" <jo@tenants.example>',
    "jo@tenants.example (Jo Roe)",
    "=?utf-8?q?J=C3=B6?= <jo@tenants.example>",
    '"jo"@tenants.example',
    "Jo <jo@tenants.example",
    "jo @ tenants.example",
    "Jo <mailto:jo@tenants.example>",
    "Jo <@relay.example:jo@tenants.example>",
    "jo@tenants.example.",
    "Jo\r\n <jo@tenants.example>",
    "boss@bank.example <jo@tenants.example>",
    '"boss@bank.example" <jo@tenants.example>',
    "=?utf-8?q?boss=40bank=2Eexample?= <jo@tenants.example>",
    "=?utf-8?q?<boss@bank.example>?= <jo@tenants.example>",
    "(boss@bank.example) jo@tenants.example",
    f'"{"x" * 400} <boss@bank.example>" <jo@tenants.example>',
    "Jo Roe jo@tenants.example",
]


async def test_one_person_is_one_however_the_address_is_written(desk: Desk) -> None:
    await desk.hear(mail_call(mime(name="m0@tenants.example"), 0))
    for number, written in enumerate(SAME, 1):
        raw = mime(f"As {number}", name=f"m{number}@tenants.example", From=written)
        await desk.hear(mail_call(raw, number, at=NOW))
    assert desk.conversations() == [FIRST]
    found = await desk.backbone.store.conversation(FIRST)
    assert found is not None
    assert found.participants == ("jo@tenants.example",)


OTHERS = {
    '"boss@bank.example"@mallory.example': '"boss@bank.example"@mallory.example',
    "boss@bank.example@mallory.example": "bounces@tenants.example",
    "jo+rent@tenants.example": "jo+rent@tenants.example",
    '"john doe"@tenants.example': '"john doe"@tenants.example',
    "jo@[192.0.2.1]": "jo@[192.0.2.1]",
    "o'roe/x=y@tenants.example": "o'roe/x=y@tenants.example",
    "nobody:;": "bounces@tenants.example",
    "": "bounces@tenants.example",
    "boss@bank.example: <mallory@x.example>": "mallory@x.example",
}


@pytest.mark.parametrize("written", OTHERS)
async def test_nobody_else_is_taken_for_the_sender(desk: Desk, written: str) -> None:
    """Where there is no address the envelope's stands, as SES has it."""
    await desk.hear(mail_call(mime(name="a@x.example", From=written)))
    found = await desk.backbone.store.conversation("mail:a@x.example")
    assert found is not None
    assert found.participants == (OTHERS[written],)


@pytest.mark.parametrize("size", [MAX_CHARS, 400_000])
@pytest.mark.parametrize("piece", ['"\\', '"', "(", "(\\", "<", "a@", " @", "=?u?q?", '<"', '\\"(', "a:", "<@"])
def test_a_header_without_end_is_read_in_one_go(piece: str, size: int) -> None:
    """Where it took the square of it, this test would not end."""
    assert parse_addresses(piece * (size // len(piece)))[:1] in ([], ["a@a"])


odd = st.text(alphabet='ab@<>()",;:\\ .=?[]üß\r\n\t\ud800', max_size=60)


@given(header=odd | st.text(max_size=60))
def test_whatever_stands_in_a_header_its_addresses_are_spelt_and_stay_so(header: str) -> None:
    for address in parse_addresses(header):
        assert "@" in address
        assert normalise_address(address) == address
        assert parse_addresses(address) == parse_addresses(f"Somebody <{address}>") == [address]


names = st.text(alphabet="ab @<>(),;:.ü", max_size=20).map(lambda name: f'"{name}"')


@given(given_names=st.lists(names, min_size=1, max_size=5), comment=st.text(alphabet="ab @<>,;.ü", max_size=9))
def test_names_and_comments_are_never_addresses(given_names: list[str], comment: str) -> None:
    written = [f"{name} ({comment}) <p{number}@x.example>" for number, name in enumerate(given_names)]
    assert parse_addresses(", ".join(written)) == [f"p{number}@x.example" for number in range(len(written))]


async def test_a_domain_in_any_script_is_one_and_found_in_the_directory(desk: Desk) -> None:
    for number, sender in enumerate(("jo@bücher.example", "Jo@XN--BCHER-KVA.example", "JO@BÜCHER.example")):
        await desk.hear(mail_call(mime(name=f"m{number}@x.example", From=f"Jo <{sender}>"), number))
    [conversation] = desk.conversations()
    found = await desk.backbone.store.conversation(conversation)
    assert found is not None
    assert (found.participants, found.property_id) == (("jo@xn--bcher-kva.example",), "ash")
    await desk.work(wait=timedelta(seconds=1))
    assert {part.recipients for part, _ in desk.mailer.sent} == {("jo@xn--bcher-kva.example",)}


async def test_what_comes_in_our_name_and_our_domain_disowns_is_nothing_that_we_said(desk: Desk) -> None:
    await desk.hear(mail_call(mime(name="m0@tenants.example"), 0))
    await desk.work(wait=timedelta(seconds=1))
    for number, verdict in enumerate(("PASS", "FAIL"), 1):
        raw = follow(number, f"Pay to another account ({verdict})", From=f"Desk <{DESK}>", To="jo@tenants.example")
        await desk.hear(mail_call(raw, number, to=[DESK], dmarc=verdict))
    await desk.work(wait=timedelta(seconds=1))
    told = {one.text: (one.direction, one.role) for one in await desk.backbone.store.messages(FIRST)}
    assert told["Pay to another account (PASS)"] == ("outbound", "agent")
    assert told["Pay to another account (FAIL)"] == ("inbound", "customer")
    assert await hushed(desk, FIRST, "m2@tenants.example") == "stranger"
    assert len(desk.mailer.sent) == 1
    page = (await desk.front.get(f"/conversations/{FIRST}", headers=LOGIN)).text
    assert f"from <bdi>{DESK}</bdi>, who is not a participant of this conversation" in page


async def test_a_forged_mail_of_ours_that_begins_a_conversation_is_not_answered_either(desk: Desk) -> None:
    raw = mime("Hello", name="a@x.example", From=DESK, To="jo@tenants.example")
    await desk.hear(mail_call(raw, to=[DESK], dmarc="FAIL"))
    await desk.work(wait=timedelta(seconds=1))
    [message] = await desk.backbone.store.messages("mail:a@x.example")
    assert (message.direction, desk.mailer.sent) == ("inbound", [])


@pytest.mark.parametrize("order", [(DESK, ELM), (ELM, DESK)])
async def test_a_mail_to_two_of_our_mailboxes_is_one_of_the_house_that_is_named_first(
    desk: Desk, order: tuple[str, str]
) -> None:
    """Told in one notification, and again in one for each mailbox."""
    raw = mime(name="a@x.example", To=", ".join(order))
    await desk.hear(
        mail_call(raw, 1, to=[DESK, ELM]), mail_call(raw, 1, to=[order[0]]), mail_call(raw, 1, to=[order[1]])
    )
    await desk.work(wait=timedelta(seconds=1))
    found = await desk.backbone.store.conversation("mail:a@x.example")
    assert found is not None
    assert found.property_id == ("oak" if order[0] == DESK else "elm")
    assert found.participants == ("jo@tenants.example",)
    assert (await desk.turns(found.id), [part.account for part, _ in desk.mailer.sent]) == (1, [order[0]])


async def test_a_mail_in_two_mailboxes_of_outlook_is_one_and_answered_once(desk: Desk) -> None:
    resources = [f"Users/{name}/Messages/AAMk{number}" for number, name in enumerate((DESK, ELM))]
    for number, resource in enumerate(resources):
        desk.mailbox[resource] = {
            "id": f"AAMk{number}",
            "internetMessageId": "<a@x.example>",
            "subject": "Boiler",
            "body": {"contentType": "text", "content": "It is cold."},
            "from": {"emailAddress": {"address": "Jo@Tenants.example"}},
            "toRecipients": [{"emailAddress": {"address": name}} for name in (DESK, ELM)],
            "receivedDateTime": f"2026-06-01T11:59:0{number}Z",
        }
    await desk.hear(graph_call(resources[0]), graph_call(*resources), graph_call(resources[1]))
    await desk.work(wait=timedelta(seconds=1))
    assert desk.conversations() == ["mail:a@x.example"]
    assert await desk.texts("mail:a@x.example") == ["It is cold.", "Re: It is cold."]
    assert len(desk.mailer.sent) == 1


DISOWNED = (
    "spf=softfail smtp.mailfrom=x.example; dkim=none;dmarc=fail action=none header.from=x;compauth=fail reason=000"
)


@pytest.mark.parametrize(
    ("results", "believed"),
    [
        ([DISOWNED], False),
        ([DISOWNED.replace("fail", "FAIL"), "mallory.example; dmarc=pass"], False),
        ([DISOWNED.replace("compauth=fail", "compauth=pass")], True),
        (["spf=pass; dmarc=pass action=none; compauth=pass", DISOWNED], True),
        ([], True),
    ],
    ids=["disowned", "and says pass below", "known relay", "fine", "not told"],
)
async def test_in_outlook_nothing_is_ours_or_theirs_that_its_domain_disowns(
    desk: Desk, results: list[str], believed: bool
) -> None:
    people = {"desk": DESK, "jo": "jo@tenants.example"}
    for number, (sender, to) in enumerate((("jo", "desk"), ("desk", "jo"), ("jo", "desk"))):
        resource = f"Users/{DESK}/Messages/AAMk{number}"
        desk.mailbox[resource] = {
            "id": f"AAMk{number}",
            "internetMessageId": f"<m{number}@tenants.example>",
            "conversationId": "AAQk1",
            "body": {"contentType": "text", "content": f"Of {sender}"},
            "from": {"emailAddress": {"address": people[sender]}},
            "toRecipients": [{"emailAddress": {"address": people[to]}}],
            "receivedDateTime": f"2026-06-01T11:59:0{number}Z",
            "internetMessageHeaders": [{"name": "In-Reply-To", "value": "<m0@tenants.example>"}] * (number > 0)
            + [{"name": "Authentication-Results", "value": value} for value in results if number > 0],
        }
        await desk.hear(graph_call(resource))
        await desk.work(wait=timedelta(seconds=1))
    found = await desk.backbone.store.messages("mail:graph-AAQk1")
    ours = [one.text for one in found if one.direction == "outbound" and not one.text.startswith("Re:")]
    assert ours == (["Of desk"] if believed else [])
    assert len(desk.mailer.sent) == (2 if believed else 1)


async def test_a_blind_copy_is_for_the_mailbox_that_it_came_to(desk: Desk) -> None:
    raw = mime(name="a@x.example", To="friend@x.example")
    await desk.hear(mail_call(raw, to=[ELM]))
    await desk.work(wait=timedelta(seconds=1))
    found = await desk.backbone.store.conversation("mail:a@x.example")
    assert found is not None
    assert (found.property_id, found.participants) == ("elm", ("jo@tenants.example", "friend@x.example"))
    [(part, raw)] = desk.mailer.sent
    assert (part.account, part.recipients) == (ELM, ("jo@tenants.example",))
    assert b"friend@x.example" not in raw


async def test_a_directory_that_changes_in_between_moves_nothing_and_counts_for_what_comes_new(tmp_path: Path) -> None:
    async with opened(tmp_path, directory=Directory(accounts={DESK: "oak"})) as before:
        await before.hear(mail_call(mime(name="m0@tenants.example"), 0))
    async with opened(tmp_path, directory=Directory(accounts={DESK: "elm"})) as desk:
        await desk.hear(mail_call(mime(name="m0@tenants.example"), 0), mail_call(follow(), 1))
        await desk.hear(mail_call(mime(name="n@tenants.example", Subject="Lift"), 2))
        houses = dict(desk.rows("SELECT id, property_id FROM conversations"))
    assert houses == {FIRST: "oak", "mail:n@tenants.example": "elm"}


@pytest.mark.parametrize("typed", ["jo@bücher.example", "JO@Bücher.Example", "mailto:Jo@xn--bcher-kva.example"])
async def test_an_operator_finds_mail_by_every_spelling(desk: Desk, typed: str) -> None:
    await desk.hear(mail_call(mime(name="a@x.example", From="Jo <jo@bücher.example>")))
    found = await desk.front.get("/search", params={"q": typed}, headers=LOGIN)
    page = (await desk.front.get(found.headers["location"], headers=LOGIN)).text
    assert "mail:a@x.example" in page
