"""Answers go where a mail wants them, as far as nobody can turn them away from those whose conversation it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.channels.channel_rig import NOW, ChannelRig

from afterturn.channels.email.message import MailReceipt, read_mail
from afterturn.channels.outlook.fetch import parse_fetched
from afterturn.channels.responder import ReplyRequest
from afterturn.channels.state import Route
from afterturn.channels.types import InboundMessage, SuppressReason

OURS = "office@homes.example"


def mail(
    name: str, sender: str, reply_to: str | None = None, *, subject: str = "The heating", **more: Any
) -> InboundMessage:
    """As it came in to our mailbox. ``headers``: more of them; ``extra``: what the provider found out."""
    headers = {
        "From": sender,
        "To": OURS,
        "Subject": subject,
        "Message-ID": f"<{name}>",
        **({"Reply-To": reply_to} if reply_to else {}),
        **more.get("headers", {}),
    }
    raw = "".join(f"{key}: {value}\n" for key, value in headers.items()) + f"\nI am {name}.\n"
    at = NOW + timedelta(seconds=more.get("after", 0))
    own = frozenset({"@homes.example"})
    return read_mail(raw.encode(), MailReceipt(at=at, accounts=(OURS,), own_addresses=own, extra=more.get("extra", {})))


async def route(rig: ChannelRig, conversation: str) -> Any:
    return await rig.backbone.store.get(Route, conversation)


async def test_the_answer_to_a_form_goes_to_whoever_filled_it_in(rig: ChannelRig) -> None:
    """Each has a conversation of their own, although the form writes for all, under one subject."""
    for who in ("ada", "bob"):
        await rig.ingest.handle(mail(f"form-{who}@x", "forms@site.example", f"{who}@example.org", subject="Contact"))
    for who in ("ada", "bob"):
        conversation = f"mail:form-{who}@x"
        found: Any = await route(rig, conversation)
        assert (found.recipient, found.sender, found.account) == ((f"{who}@example.org",) * 2 + (OURS,))
        known = await rig.backbone.store.conversation(conversation)
        assert known is not None
        assert known.participants == (f"{who}@example.org", "forms@site.example")


async def test_whoever_is_answered_there_may_write_from_there(rig: ChannelRig) -> None:
    async def said(one: ReplyRequest) -> str:
        return f"To {one.recipient}"

    rig.responder = said
    await rig.ingest.handle(mail("one@x", "ada@work.example", "ada@home.example"))
    await rig.auto_reply.once()
    answer = mail("two@x", "ada@home.example", headers={"References": "<one@x>"}, after=60)
    await rig.ingest.handle(answer)
    await rig.auto_reply.once()
    texts = await rig.texts("mail:one@x")
    assert texts.count("To ada@home.example") == 2
    assert answer.suppress is None


async def test_in_a_conversation_that_goes_on_no_new_address_takes_the_answers_away(rig: ChannelRig) -> None:
    """Whoever forges the tenant's address would read what we answer, and the tenant would not."""
    await rig.ingest.handle(mail("one@x", "ada@example.org"))
    forged = mail("two@x", "ada@example.org", "mallory@example.net", headers={"References": "<one@x>"}, after=60)
    for _ in range(2):
        await rig.ingest.handle(forged)
    assert (await route(rig, "mail:one@x")).recipient == "ada@example.org"
    known = await rig.backbone.store.conversation("mail:one@x")
    assert known is not None
    assert known.participants == ("ada@example.org",)


async def test_one_who_is_in_the_conversation_may_be_named(rig: ChannelRig) -> None:
    await rig.ingest.handle(mail("one@x", "ada@example.org", headers={"Cc": "flatmate@example.org"}))
    later = mail("two@x", "ada@example.org", "flatmate@example.org", headers={"References": "<one@x>"}, after=60)
    await rig.ingest.handle(later)
    assert (await route(rig, "mail:one@x")).recipient == "flatmate@example.org"


async def test_a_second_delivery_answers_where_the_first_one_did(rig: ChannelRig) -> None:
    for _ in range(2):
        await rig.ingest.handle(mail("one@x", "forms@site.example", "ada@example.org"))
    assert (await route(rig, "mail:one@x")).recipient == "ada@example.org"


async def test_a_stranger_s_wish_changes_nothing(rig: ChannelRig) -> None:
    await rig.ingest.handle(mail("one@x", "ada@example.org"))
    stranger = mail("two@x", "mallory@example.net", "ada@example.org", headers={"References": "<one@x>"}, after=60)
    await rig.ingest.handle(stranger)
    found = await route(rig, "mail:one@x")
    assert (found.recipient, found.message_id) == ("ada@example.org", "one@x")


@pytest.mark.parametrize(
    "reply_to",
    [OURS, "Sales <sales@homes.example>", "ADA@example.org", "not an address", "", f"{'x' * 300}@example.org"],
)
def test_an_address_of_ours_the_sender_s_own_and_what_is_none_change_nothing(reply_to: str) -> None:
    assert mail("one@x", "ada@example.org", reply_to).party.reply_to is None


@pytest.mark.parametrize(
    "headers",
    [{"Auto-Submitted": "auto-replied"}, {"List-Id": "<l.example>"}, {"Precedence": "bulk"}, {"Return-Path": "<>"}],
)
def test_what_a_machine_wrote_names_nobody_to_answer(headers: dict[str, str]) -> None:
    one = mail("one@x", "ada@example.org", "mallory@example.net", headers=headers)
    assert (one.suppress is None, one.party.reply_to) == (False, None)


def test_mail_that_its_sender_s_domain_disowns_names_nobody_to_answer() -> None:
    assert mail("one@x", "ada@example.org", "m@example.net", extra={"dmarc": "FAIL"}).party.reply_to is None
    assert mail("one@x", "ada@example.org", "m@example.net", extra={"spf": "GRAY"}).party.reply_to == "m@example.net"


def test_what_the_provider_takes_for_spam_names_nobody_to_answer() -> None:
    raw = b"From: ada@example.org\nReply-To: m@example.net\nMessage-ID: <a@b>\n\nHi"
    assert read_mail(raw, MailReceipt(at=NOW, suppress=SuppressReason.SPAM)).party.reply_to is None


@pytest.mark.parametrize(("told", "answers"), [("Bob@Example.org", "bob@example.org"), ("bob at example", None)])
def test_outlook_says_it_too(told: str, answers: str | None) -> None:
    message = {
        "id": "A",
        "internetMessageId": "<g@x>",
        "from": {"emailAddress": {"address": "ada@example.org"}},
        "replyTo": [{"emailAddress": {"address": told}}],
        "body": {"contentType": "text", "content": "Hi"},
    }
    one = parse_fetched(message, now=NOW, accounts=(OURS,))
    assert isinstance(one, InboundMessage)
    assert one.party.reply_to == answers


def test_a_mail_of_ours_wants_no_answers_anywhere() -> None:
    one = mail("one@x", OURS, "ada@example.org")
    assert (one.extra["direction"], one.party.reply_to) == ("outbound", None)


def test_what_a_mail_wants_is_shown_also_where_it_is_not_followed() -> None:
    one = mail("one@x", "ada@example.org", "mallory@example.net", headers={"Precedence": "bulk"})
    assert replace(one).extra["reply_to"] == "mallory@example.net"
