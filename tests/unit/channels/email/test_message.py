"""What a mail means: its id, its time, its conversation, and whether a machine may answer it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.channels.mails import RECEIPT, RECEIVED, mail, received

from afterturn.channels.auto_reply import MAIL_RATE_LIMITS, RateLimit, retry_at
from afterturn.channels.email.message import MAX_AFTER, MAX_MAIL_BYTES, MailReceipt
from afterturn.channels.email.suppression import AUTOMATIC_HEADERS, OWN_HEADER
from afterturn.channels.sanitize import CUT_MARK
from afterturn.channels.types import SuppressReason
from afterturn.model import MAX_PARTICIPANTS, MAX_TEXT_BYTES

SES_ID = "0100019a0c1d2e3f-11111111-2222-3333-4444-555555555555-000000"


@pytest.mark.parametrize(
    ("date", "sent_at"),
    [
        ("Mon, 16 Jun 2234 18:55:24 +0200", datetime(2234, 6, 16, 16, 55, 24, tzinfo=UTC)),
        ("Mon, 1 Jan 2018 01:04:44 +0100", datetime(2018, 1, 1, 0, 4, 44, tzinfo=UTC)),
        ("Mon, 1 Jan 2026 10:00:00 -0000", datetime(2026, 1, 1, 10, tzinfo=UTC)),
        ("garbage", None),
        (None, None),
    ],
)
def test_a_mail_is_as_new_as_its_receipt_whatever_its_date_says(date: str | None, sent_at: datetime | None) -> None:
    found = received(mail(headers={"Date": date}))
    assert found.at == RECEIVED
    assert found.sent_at == sent_at


@pytest.mark.parametrize("charset", ["bogus", "uft-8", "1", '""', "utf-16", "x" * 3000, "hex", "undefined", "\xff"])
def test_a_charset_that_does_not_exist_loses_no_text(charset: str) -> None:
    found = received(mail(b"h\xe9llo there", {"Content-Type": f"text/plain; charset={charset}"}))
    assert found.text
    assert charset == "utf-16" or (found.text[0] == "h" and found.text.endswith("llo there"))


def test_foreign_bytes_in_headers_lose_no_mail() -> None:
    found = received(
        mail(headers={"From": b"J\xf6 <jo@tenants.example>", "Subject": "=?x-unknown?Q?abc?=", "To": b"\xff\xfe"})
    )
    assert found.party.sender == "jo@tenants.example"
    assert found.extra["subject"] == "abc"
    assert found.text == "The boiler is cold."


@pytest.mark.parametrize(
    ("headers", "hush"),
    [
        ({"Auto-Submitted": "auto-replied"}, SuppressReason.AUTO_REPLY),
        ({"Auto-Submitted": "auto-generated (rule; vacation)"}, SuppressReason.AUTO_REPLY),
        ({"Auto-Submitted": "AUTO-NOTIFIED; owner-email=x"}, SuppressReason.AUTO_REPLY),
        ({"Auto-Submitted": "no"}, None),
        ({"Auto-Submitted": " No (a person wrote this)"}, None),
        ({"X-Auto-Response-Suppress": "All"}, None),
        ({"X-Auto-Response-Suppress": "DR, OOF, AutoReply"}, None),
        ({"Return-Path": "<>"}, SuppressReason.BOUNCE),
        ({"Return-Path": "<>", "Auto-Submitted": "auto-replied"}, SuppressReason.AUTO_REPLY),
        ({"Return-Path": "<jo@tenants.example>"}, None),
        ({"From": "MAILER-DAEMON@mx.example"}, SuppressReason.BOUNCE),
        ({"X-Failed-Recipients": "who@x.example"}, SuppressReason.BOUNCE),
        ({"Precedence": "bulk"}, SuppressReason.BULK),
        ({"Precedence": "List"}, SuppressReason.BULK),
        ({"Precedence": "auto_reply"}, SuppressReason.AUTO_REPLY),
        ({"Precedence": "first-class"}, None),
        ({"List-Id": "<news.example>"}, SuppressReason.BULK),
        ({"List-Unsubscribe": "<mailto:u@x.example>"}, SuppressReason.BULK),
        ({"X-Autoreply": "yes"}, SuppressReason.AUTO_REPLY),
        ({"X-Autoreply": "no"}, None),
        ({"Content-Type": "multipart/report; report-type=delivery-status; boundary=b"}, SuppressReason.BOUNCE),
        (
            {"Content-Type": 'multipart/report; report-type="disposition-notification"; boundary=b'},
            SuppressReason.RECEIPT,
        ),
        ({"Content-Type": "multipart/report; boundary=b"}, SuppressReason.BOUNCE),
        ({"Content-Type": "Multipart/Report; report-type=feedback-report"}, SuppressReason.COMPLAINT),
        ({OWN_HEADER: "m-17"}, SuppressReason.OWN),
        ({OWN_HEADER: "m-17", **AUTOMATIC_HEADERS}, SuppressReason.OWN),
        ({}, None),
    ],
)
def test_a_machine_answers_people_only(headers: dict[str, str], hush: SuppressReason | None) -> None:
    found = received(mail(headers=headers))
    assert found.suppress is hush
    assert found.text


def test_our_automatic_mail_says_that_no_person_wrote_it() -> None:
    assert AUTOMATIC_HEADERS["Auto-Submitted"] == "auto-replied"
    assert received(mail(headers=AUTOMATIC_HEADERS)).suppress is SuppressReason.AUTO_REPLY


def test_a_bounce_that_somebody_passes_on_is_a_question_of_theirs() -> None:
    body = (
        b"--b\r\n\r\nWhat does this mean?\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: failed\r\n"
        b"Auto-Submitted: auto-replied\r\nContent-Type: multipart/report; report-type=delivery-status; boundary=c\r\n"
        b"\r\n--c\r\nContent-Type: message/delivery-status\r\n\r\nAction: failed\r\n\r\n--c--\r\n--b--\r\n"
    )
    found = received(mail(body, {"Content-Type": "multipart/mixed; boundary=b"}))
    assert found.suppress is None
    assert found.text == "What does this mean?"


def test_what_we_write_ourselves_is_stored_as_ours() -> None:
    headers: dict[str, str | bytes | None] = {"From": "Desk <Desk@Homes.example>", "To": "jo@tenants.example"}
    for receipt in (RECEIPT, MailReceipt(at=RECEIVED, own_addresses=frozenset({"@homes.example"}))):
        found = received(mail(headers=headers), receipt)
        assert found.suppress is SuppressReason.OWN
        assert found.extra["direction"] == "outbound"
        assert (found.party.account, found.party.sender) == ("desk@homes.example", "jo@tenants.example")
        assert found.participants == ("jo@tenants.example",)


@pytest.mark.parametrize("dmarc", ["PASS", "FAIL"])
def test_a_mail_in_our_name_that_our_domain_disowns_is_not_ours(dmarc: str) -> None:
    headers: dict[str, str | bytes | None] = {"From": "Desk <desk@homes.example>", "To": "jo@tenants.example"}
    found = received(mail(headers=headers), replace(RECEIPT, extra={"dmarc": dmarc}))
    if dmarc == "PASS":
        assert (found.suppress, found.extra["direction"]) == (SuppressReason.OWN, "outbound")
    else:
        assert (found.suppress, found.extra["from"]) == (SuppressReason.SENDER_NOT_IN_THREAD, "desk@homes.example")
        assert "direction" not in found.extra


@pytest.mark.parametrize(
    "name",
    [b'"B\xfcro.pdf"', '"Büro.pdf"'.encode(), b'"=?utf-8?q?B=C3=BCro.pdf?="', b'"B\xfc\r\n ro.pdf"'],
    ids=["latin", "utf-8", "encoded", "folded"],
)
def test_the_name_of_a_file_is_decoded(name: bytes) -> None:
    headers: dict[str, str | bytes | None] = {
        "Content-Type": "application/pdf",
        "Content-Disposition": b"attachment; filename=" + name,
    }
    [file] = received(mail(b"%PDF", headers)).attachments
    assert file.name.replace(" ", "") == "Büro.pdf"


def test_machines_that_answer_each_other_are_held() -> None:
    """Six of our own replies come back within a minute, by headers from a person."""
    start = datetime(2026, 6, 1, tzinfo=UTC)
    answered: list[datetime] = []
    for second in range(0, 60, 10):
        now = start + timedelta(seconds=second)
        assert received(mail(b"> we are closed", {"In-Reply-To": "<a@b.example>"})).suppress is None
        if retry_at(answered, now) is None:
            answered.append(now)
    assert len(answered) == 4
    assert retry_at(answered, start + timedelta(seconds=50)) == start + timedelta(minutes=1)


def test_no_day_sees_more_automatic_answers_than_the_cap() -> None:
    now = start = datetime(2026, 6, 1, tzinfo=UTC)
    answered: list[datetime] = []
    while now < start + timedelta(days=1):
        now = retry_at(answered, now) or now
        answered.append(now)
        now += timedelta(seconds=1)
    in_the_day = [at for at in answered if at < start + timedelta(days=1)]
    assert len(in_the_day) == MAIL_RATE_LIMITS[-1].replies
    for limit in MAIL_RATE_LIMITS:
        assert all(
            sum(1 for other in answered if at <= other < at + limit.window) <= limit.replies for at in answered
        ), limit


def test_a_correspondent_who_was_answered_long_ago_is_not_held() -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    assert retry_at([now - timedelta(days=2)] * 500, now) is None
    assert retry_at([], now) is None
    assert retry_at([now], now, limits=[RateLimit(1, timedelta(seconds=5))]) == now + timedelta(seconds=5)


@pytest.mark.parametrize("domain", ["email.amazonses.com", "eu-west-1.amazonses.com", "us-gov-west-1.amazonses.com"])
def test_a_reply_finds_the_mail_that_ses_gave_another_id(domain: str) -> None:
    found = received(mail(headers={"In-Reply-To": f"<{SES_ID}@{domain}>", "References": "<first@homes.example>"}))
    assert found.thread.conversation_id == "mail:first@homes.example"
    assert found.thread.after == (f"{SES_ID}@{domain}", SES_ID, "first@homes.example")


def test_an_id_that_only_looks_like_one_of_ses_stands_for_itself() -> None:
    found = received(mail(headers={"In-Reply-To": f"<{SES_ID}@email.amazonses.com.evil.example>"}))
    assert found.thread.after == (f"{SES_ID}@email.amazonses.com.evil.example",)


def test_a_mail_belongs_after_the_nearest_of_those_it_names() -> None:
    found = received(
        mail(headers={"References": "<a@x> <b@x>\r\n <c@x>", "In-Reply-To": "<c@x>", "Subject": "Re: Boiler"})
    )
    assert found.thread.after == ("c@x", "b@x", "a@x")
    assert found.thread.conversation_id == "mail:a@x"
    assert found.thread.subject == "boiler"


def test_of_very_many_references_the_nearest_and_the_first_count() -> None:
    found = received(mail(headers={"References": " ".join(f"<{i}@x>" for i in range(5_000))}))
    assert found.thread.after[0] == "4999@x"
    assert found.thread.after[-1] == "0@x"
    assert len(found.thread.after) == MAX_AFTER
    assert found.thread.conversation_id == "mail:0@x"


def test_a_mail_that_names_no_other_begins_a_conversation_or_goes_on_by_subject() -> None:
    found = received(mail(headers={"Subject": "AW: Re: Boiler"}))
    assert found.thread.conversation_id == "mail:m1@tenants.example"
    assert found.thread.after == ()
    assert found.thread.subject == "boiler"
    assert received(mail(headers={"Subject": None})).thread.subject is None


@pytest.mark.parametrize("given", [None, "", "<>", "< >", "no brackets here"])
def test_a_mail_without_a_usable_id_is_known_by_what_the_provider_calls_it(given: str | None) -> None:
    receipt = replace(RECEIPT, mail_id="o3vrnil0e2ic28trm7dfhrc2v0clambda4nbp0g1")
    assert received(mail(headers={"Message-ID": given}), receipt).provider_id == receipt.mail_id
    by_content = received(mail(headers={"Message-ID": given})).provider_id
    assert by_content.startswith("sha256-")
    assert by_content != received(mail(b"Another.", {"Message-ID": given})).provider_id
    added = {"Message-ID": given, "Received": "from elsewhere"}
    assert by_content == received(mail(headers=added)).provider_id


def test_the_mailbox_that_was_written_to_is_the_one_that_the_sender_names() -> None:
    both = replace(RECEIPT, accounts=("First@homes.example", "desk@homes.example"))
    assert received(mail(), both).party.account == "desk@homes.example"
    assert received(mail(headers={"To": "undisclosed-recipients:;"}), both).party.account == "first@homes.example"
    both = replace(RECEIPT, accounts=("desk@homes.example", "elm@homes.example"))
    for order in (("desk@homes.example", "elm@homes.example"), ("elm@homes.example", "desk@homes.example")):
        found = received(mail(headers={"To": ", ".join(order)}), both)
        assert (found.party.account, found.participants) == (order[0], ("jo@tenants.example",))


def test_a_blind_copy_is_for_the_mailbox_that_it_came_to() -> None:
    found = received(mail(headers={"To": "friend@x.example"}))
    assert (found.party.account, found.participants) == (
        "desk@homes.example",
        ("jo@tenants.example", "friend@x.example"),
    )


def test_an_answer_goes_where_the_sender_wants_it() -> None:
    found = received(mail(headers={"Reply-To": "Forms <jo@elsewhere.example>"}))
    assert found.extra["reply_to"] == "jo@elsewhere.example"
    assert "reply_to" not in received(mail(headers={"Reply-To": "jo@tenants.example"})).extra


def test_a_body_that_is_html_becomes_text_without_what_is_quoted() -> None:
    html = (
        b"<p>Tomorrow at nine.</p><script>alert(1)</script><br>"
        b"On Mon, 2 Mar 2026 at 09:15, Desk &lt;desk@homes.example&gt; wrote:<br><blockquote>When?</blockquote>"
    )
    found = received(mail(html, {"Content-Type": "text/html"}))
    assert found.text == "Tomorrow at nine."
    assert found.full_text is not None
    assert found.full_text.endswith("When?")


def test_what_stands_only_in_the_subject_is_said() -> None:
    found = received(mail(b"\r\n", {"Subject": "No heating in 4B!"}))
    assert found.text == "No heating in 4B!"
    assert received(mail(b"", {"Subject": None})).text == ""


def test_a_text_of_any_size_is_cut_to_what_a_record_holds_and_says_so() -> None:
    found = received(mail("ü".encode() * 400_000, {"Content-Type": "text/plain; charset=utf-8"}))
    assert len(found.text.encode()) <= MAX_TEXT_BYTES
    assert found.text.endswith(CUT_MARK)
    assert found.extra["cut"] == "800000"


def test_base64_that_is_a_hundred_times_a_record_is_cut() -> None:
    encoded = b"QUFB" * 7_500_000
    found = received(mail(encoded, {"Content-Transfer-Encoding": "base64"}))
    assert found.extra["cut"] == "22500000"
    assert len(found.text.encode()) <= MAX_TEXT_BYTES


def test_of_a_mail_larger_than_any_server_takes_the_beginning_is_read() -> None:
    found = received(mail(b"Hello\r\n" + b"a" * MAX_MAIL_BYTES))
    assert found.text.startswith("Hello")
    assert found.extra["unread"] == "too large"


@pytest.mark.parametrize("depth", [40, 400, 4_000])
def test_parts_within_parts_lose_no_text(depth: int) -> None:
    nested = b"".join(b'Content-Type: multipart/mixed; boundary="b%d"\r\n\r\n--b%d\r\n' % (i, i) for i in range(depth))
    raw = mail().partition(b"\r\n\r\n")[0] + b"\r\n" + nested + b"\r\nin the middle\r\n"
    found = received(raw)
    assert "in the middle" in found.text
    assert found.party.sender == "jo@tenants.example"


def test_mails_within_mails_lose_no_text() -> None:
    found = received(b"Subject: x\r\nContent-Type: message/rfc822\r\n\r\n" * 3_000 + b"\r\nin the middle")
    assert "RecursionError" in found.extra["unread"]
    assert found.text


def test_ten_thousand_headers_and_recipients_are_no_trouble() -> None:
    many = b"".join(b"X-H%d: v\r\nTo: u%d@x.example\r\n" % (i, i) for i in range(10_000))
    found = received(many + mail())
    assert found.text == "The boiler is cold."
    assert len(found.participants) == MAX_PARTICIPANTS


def test_parameters_without_end_are_not_looked_through() -> None:
    """Each takes minutes where a header is read whole."""
    for value in ('text/plain; x="' + ";" * 300_000, "text/plain; " + "a=b; " * 100_000):
        assert received(mail(headers={"Content-Type": value})).text == "The boiler is cold."


def test_of_too_many_attachments_the_number_is_told() -> None:
    part = b"--b\r\nContent-Type: image/png\r\n\r\nx\r\n"
    found = received(mail(part * 70 + b"--b--", {"Content-Type": "multipart/mixed; boundary=b"}))
    assert len(found.attachments) == 50
    assert found.attachments[-1].name == "and 21 more"


@pytest.mark.parametrize("raw", [b"", b"\r\n\r\n", b"\0" * 100, b"From nobody", b":", b"\xff\xfe", b"a" * 100_000])
def test_bytes_that_are_hardly_a_mail_arrive_all_the_same(raw: bytes) -> None:
    found = received(raw)
    assert found.party.sender == "unknown"
    assert found.party.account == "desk@homes.example"
    assert found.at == RECEIVED
