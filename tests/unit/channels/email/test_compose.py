"""A mail of ours: read back as any server reads it, it says what we meant, and nothing that others slipped in."""

from __future__ import annotations

import email
import email.policy
from datetime import timedelta
from email.message import EmailMessage
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.channels.sending.rig import NOW, outgoing

from afterturn.channels.email.compose import MAX_RECIPIENTS, MAX_REFERENCES, compose, message_id, single_part
from afterturn.channels.email.message import MailReceipt, read_mail
from afterturn.channels.sending import OutboundMessage, Reason, Undeliverable
from afterturn.channels.types import InboundMessage, SuppressReason
from afterturn.ids import digest
from afterturn.model import Attachment, Channel

OURS, THEIRS = "office@homes.example", "ada@tenant.example"
SES_ID = "010001890abcdef0-12345678-1234-1234-1234-123456789abc-000000"
OUTLOOK_ID = "AM0PR04MB4563" + "0A1B2C3D4E5F" * 6 + "@AM0PR04MB4563.eurprd04.prod.outlook.com"
HEADERS = {
    *("From", "To", "Subject", "Date", "Message-ID", "X-Afterturn-Message"),
    *("MIME-Version", "Content-Type", "Content-Transfer-Encoding"),
}


def letter(text: str = "The plumber comes at 9.", **given: Any) -> OutboundMessage:
    return outgoing(Channel.EMAIL, given.pop("account", OURS), given.pop("to", THEIRS), text, **given)


def written(message: OutboundMessage, sender: str | None = None, region: str = "eu-west-1") -> bytes:
    return compose(message, "here", sender=sender or message.account, region=region, now=NOW)


def opened(message: OutboundMessage, sender: str | None = None, region: str = "eu-west-1") -> EmailMessage:
    return email.message_from_bytes(written(message, sender, region), policy=email.policy.default)


def received(message: OutboundMessage) -> InboundMessage:
    return read_mail(written(message), MailReceipt(at=NOW + timedelta(minutes=1), accounts=(THEIRS,)))


def test_a_mail_says_who_writes_to_whom_and_that_it_is_ours() -> None:
    mail = opened(letter(subject="Re: Leak"))
    assert set(mail.keys()) == HEADERS
    assert (mail["From"], mail["To"], mail["Subject"]) == (OURS, THEIRS, "Re: Leak")
    assert mail["X-Afterturn-Message"] == "m-1"
    assert mail["Date"].datetime == NOW
    assert mail.get_content() == "The plumber comes at 9."
    assert received(letter()).suppress is SuppressReason.OWN


def test_plain_words_stay_readable_on_the_way() -> None:
    assert b"The plumber comes at 9." in written(letter())


def test_a_message_whose_name_no_header_can_hold_is_ours_under_another() -> None:
    for name in ("m-ä", "m\r\nBcc: x@y.example"):
        mail = opened(OutboundMessage("c-1", name, Channel.EMAIL, OURS, (THEIRS,), "Hi"))
        assert mail["X-Afterturn-Message"] == digest(name)
        assert set(mail.keys()) == HEADERS


def test_only_what_no_person_wrote_says_that_a_machine_did() -> None:
    automatic, personal = opened(letter(automatic=True)), opened(letter())
    assert (automatic["Auto-Submitted"], automatic["X-Auto-Response-Suppress"]) == ("auto-replied", "All")
    assert ("Auto-Submitted" in personal, "X-Auto-Response-Suppress" in personal) == (False, False)


def test_an_answer_names_what_it_answers_and_its_thread() -> None:
    mail = opened(letter(in_reply_to=OUTLOOK_ID, references=("root@a.example", SES_ID, OUTLOOK_ID)))
    assert mail["In-Reply-To"] == f"<{OUTLOOK_ID}>"
    ids = ["<root@a.example>", f"<{SES_ID}@eu-west-1.amazonses.com>", f"<{OUTLOOK_ID}>"]
    assert mail["References"].split() == ids
    assert received(letter(in_reply_to=OUTLOOK_ID, references=("root@a.example",))).thread.after == (
        OUTLOOK_ID,
        "root@a.example",
    )


@pytest.mark.parametrize(("region", "host"), [("us-east-1", "email"), ("eu-west-1", "eu-west-1")])
def test_a_mail_that_ses_sent_is_answered_under_the_name_that_ses_gave_it(region: str, host: str) -> None:
    assert opened(letter(in_reply_to=SES_ID), region=region)["In-Reply-To"] == f"<{SES_ID}@{host}.amazonses.com>"


@pytest.mark.parametrize(
    "given", ["sha256-0a1b", "graph-AAQk", "a b@c.example", "a@b>\r\nBcc: <x@y.example", "ä@b.example", "", "x" * 900]
)
def test_what_is_no_message_id_is_not_named_as_one(given: str) -> None:
    mail = opened(letter(in_reply_to=given, references=(given,)))
    assert set(mail.keys()) == HEADERS


def test_of_a_long_thread_the_first_and_the_newest_are_named() -> None:
    ids = [f"{number}@a.example" for number in range(200)]
    mail = opened(letter(in_reply_to=ids[-1], references=tuple(ids)))
    named = mail["References"].split()
    assert (len(named), named[0], named[-1]) == (MAX_REFERENCES, f"<{ids[0]}>", f"<{ids[-1]}>")
    assert named[1:] == [f"<{one}>" for one in ids[-MAX_REFERENCES + 1 :]]


def test_no_long_id_is_wrapped_into_something_that_nobody_can_match() -> None:
    raw = written(letter(in_reply_to=OUTLOOK_ID, references=tuple(f"{n}{OUTLOOK_ID}" for n in range(20))))
    assert raw.count(OUTLOOK_ID.encode()) == 22
    assert b"=?" not in raw


def test_the_same_message_has_the_same_id_each_time_and_others_have_others() -> None:
    assert opened(letter())["Message-ID"] == opened(letter("Other words"))["Message-ID"]
    assert (
        len({message_id(m, OURS) for m in (letter(), OutboundMessage("c-2", "m-1", Channel.EMAIL, OURS, (), ""))}) == 2
    )
    assert opened(letter())["Message-ID"].endswith("@homes.example>")


def test_a_common_sender_lets_answers_go_to_the_mailbox_that_was_written_to() -> None:
    mail = opened(letter(account="unit7@homes.example"), sender="Häuser & Co <office@homes.example>")
    assert mail["From"].addresses[0].display_name == "Häuser & Co"
    assert (mail["From"].addresses[0].addr_spec, mail["Reply-To"]) == (OURS, "unit7@homes.example")
    assert "Reply-To" not in opened(letter(), sender=f"Homes <{OURS.upper()}>")
    assert "Reply-To" not in opened(letter(account="unknown"), sender=OURS)


def test_files_go_out_as_links() -> None:
    mail = opened(letter("Look:", attachments=(Attachment(url="https://files.example.com/a.pdf", name="Lease"),)))
    assert mail.get_content().splitlines() == ["Look:", "", "Lease: https://files.example.com/a.pdf"]


@given(
    text=st.text(st.characters(blacklist_categories=["Cs"]), max_size=300),
    subject=st.text(max_size=100),
    references=st.lists(st.text(max_size=30), max_size=4),
    mid=st.text(st.characters(blacklist_categories=["Cc", "Cs"]), min_size=1, max_size=30),
)
def test_nothing_that_somebody_wrote_becomes_a_header_and_servers_get_plain_ascii_in_short_lines(
    text: str, subject: str, references: list[str], mid: str
) -> None:
    message = OutboundMessage(
        "c", mid, Channel.EMAIL, OURS, (THEIRS,), text, subject=subject, references=tuple(references)
    )
    raw = written(message)
    assert raw.isascii()
    assert b"\r" not in raw.replace(b"\r\n", b"")
    assert b"\n" not in raw.replace(b"\r\n", b"")
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert set(opened(message).keys()) - {"References"} == HEADERS


@given(st.text(st.characters(blacklist_categories=["Cc", "Cs"], whitelist_characters="\n\t"), max_size=400))
def test_a_text_is_read_as_it_was_written(text: str) -> None:
    read = opened(letter(text)).get_content()
    assert read.replace("\r\n", "\n") == text


@pytest.mark.parametrize("text", ["From me\nFrom you", ".", "..\n.", "=41", "a \n b\t\n", "x" * 5000, "é" * 3000])
def test_texts_that_mail_servers_tamper_with_arrive_untouched(text: str) -> None:
    assert opened(letter(text)).get_content().replace("\r\n", "\n") == text


@pytest.mark.parametrize(
    "subject", ["", None, "  ", "Ölfleck\r\nBcc: x@y.example", "=?utf-8?q?x?=", "字" * 300, "a" * 300]
)
def test_a_subject_is_one_line(subject: str | None) -> None:
    mail = opened(letter(subject=subject))
    assert mail["Subject"]
    assert "\n" not in mail["Subject"]
    assert "Bcc" not in mail


@pytest.mark.parametrize(
    "address",
    [
        *("", "x", "@b.example", "a@", "a b@c.example", "a@b@c.example", "a@b.example, c@d.example", "<a@b.example>"),
        *("a@b.example\r\nBcc: c@d.example", "ä@b.example", "a@b..example", "a" * 65 + "@b.example", ".a@b.example"),
    ],
)
def test_what_is_no_address_gets_no_mail(address: str) -> None:
    with pytest.raises(Undeliverable) as refused:
        single_part(letter(to=address), "here")
    assert refused.value.reason is Reason.BAD_ADDRESS
    assert not address or address not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "written_as"),
    [
        ("o'neill+x@b.example", "o'neill+x@b.example"),
        ("a@münchen.example", "a@xn--mnchen-3ya.example"),
        (" a@b.example ", "a@b.example"),
    ],
)
def test_unusual_addresses_are_written_to(address: str, written_as: str) -> None:
    assert opened(letter(to=address))["To"] == written_as


def test_a_mail_has_as_many_recipients_as_ses_takes_and_each_once() -> None:
    many = tuple(f"{number}@b.example" for number in range(MAX_RECIPIENTS))
    message = OutboundMessage("c", "m", Channel.EMAIL, OURS, (*many, *many), "Hi")
    assert len(opened(message)["To"].addresses) == MAX_RECIPIENTS
    for recipients in ((), (*many, THEIRS)):
        with pytest.raises(Undeliverable):
            single_part(OutboundMessage("c", "m", Channel.EMAIL, OURS, recipients, "Hi"), "here")


def test_a_mail_without_words_is_none() -> None:
    with pytest.raises(Undeliverable) as refused:
        single_part(letter(" \n"), "here")
    assert refused.value.reason is Reason.EMPTY
