"""Mails as they really were sent: what each means."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from tests.unit.channels.channels import SAMPLES, here, sample
from tests.unit.channels.mails import RECEIVED, received

from afterturn.channels.email.message import MailReceipt
from afterturn.channels.types import SuppressReason

FOLDER = SAMPLES / "email-raw"


@dataclass(frozen=True)
class Expected:
    """``begins``: of the text; ``files``: the media types of the attachments; ``after``: the nearest earlier mail."""

    sender: str
    begins: str
    suppress: SuppressReason | None = None
    id: str | None = None
    after: str | None = None
    root: str | None = None
    files: tuple[str, ...] = ()
    ends: str | None = None
    whole: str | None = None
    subject_is_text: bool = False


EXPECTED = {
    "8bitmime": Expected("bob@example.com", "Превел\n\n123", id="1275447987.2063.842.camel@d819.example.net"),
    "attached-pdf": Expected("unknown", "Test - body content", files=("application/pdf",)),
    "attachment_message_rfc822": Expected("foo@example.com", "This is the first part.", files=("message/rfc822",)),
    "auto-reply-x-autoreply": Expected(
        "user2298@d006.example.net",
        "Let's talk about these images:",
        SuppressReason.AUTO_REPLY,
        after="4e6e35f5a38b4_479f13bb90078178@d746.example.net",
    ),
    "bilingual-simple": Expected("hello@example.com", "This line is in English\nА эта линия по-русски."),
    "bounce-delayed": Expected(
        "mailer-daemon@cs.example.com",
        "The original message was received",
        SuppressReason.BOUNCE,
        files=("message/delivery-status", "message/rfc822"),
    ),
    "bounce-gmail-no-dns": Expected(
        "mailer-daemon@d674.example.net",
        "Delivery to the following recipient failed permanently:",
        SuppressReason.BOUNCE,
        whole="----- Original message -----",
    ),
    "bounce-mailbox-full": Expected(
        "mailer-daemon@d333.example.net",
        "*** ATTENTION ***",
        SuppressReason.BOUNCE,
        root="4E326A95.3010907@example.com",
        after="4E326A95.3010907@example.com",
        files=("message/delivery-status", "text/rfc822-headers"),
    ),
    "bounce-zed": Expected(
        "mailer-daemon@d135.example.net",
        "This is the mail system at host mail.example.com.",
        SuppressReason.BOUNCE,
        after="20090708054735.GC7578@example.com",
        files=("message/delivery-status", "message/rfc822"),
    ),
    "complaints-yahoo": Expected(
        "user2287@d513.example.net",
        "This is an email abuse report",
        SuppressReason.COMPLAINT,
        after="20120711015015.4A8BE2E088E@www.example.com",
        files=("message/feedback-report", "message/rfc822"),
    ),
    "content_transfer_encoding_x_uuencode": Expected(
        "user4624@d291.example.net",
        "Attached are the comments of the Public Generating Pool.",
        id="p05100307b863befdfb67@[203.0.113.24]",
        after="1168BAF252B7D41194810001028D743108913C@d262.example.net",
        files=("application/msword",),
    ),
    "disposition-notification": Expected(
        "joe_recipient@example.com",
        "The message sent on 1995 Sep 19",
        SuppressReason.RECEIPT,
        after="199509192301.23456@example.org",
        files=("message/disposition-notification", "message/rfc822"),
    ),
    "enclosed": Expected("bob@example.net", "Hello", id="4FEEF9B3.7060508@example.net", files=("message/rfc822",)),
    "encoded-header": Expected("foo.bar@example.com", "hello, world"),
    "false-multipart": Expected("user4281@d886.example.net", "Broken MIME", subject_is_text=True),
    "from-encoding": Expected(
        "user6335@d402.example.net",
        "Marc Slemko wrote:",
        SuppressReason.BULK,
        after="Pine.BSF.3.95q.970712135859.28530B-100000@d202.example.net",
        ends="---/dev/il",
    ),
    "groupwise-forward": Expected("sender@example.net", "Testing email forwarding with Groupwise 1.2.2010"),
    "iphone": Expected("user4730@d723.example.net", "Hello", ends="~Dana", files=("image/jpeg",)),
    "japanese_attachment_long_name": Expected(
        "user6379@d349.example.net", "まみむめも", files=("text/plain",), subject_is_text=True
    ),
    "japanese_iso_2022": Expected("user9942@d239.example.net", "すみません。"),
    "list-bulk-autosuppress": Expected(
        "noreply@d088.example.net",
        "Branch: refs/heads/1007812",
        SuppressReason.BULK,
        id="bluez/bluez/push/refs/heads/1007812/1fbdb2-000000@d088.example.net",
    ),
    "list-digest": Expected(
        "user8708@d808.example.net",
        "Send Ppp mailing list submissions to",
        SuppressReason.BULK,
        files=("message/rfc822",) * 5,
    ),
    "mailformed-headers": Expected("user0027@d239.example.net", "----fa**f__fawf", ends="----faf__fawf--"),
    "missing-final-boundary": Expected("me@example.com", "Some body"),
    "missing_body": Expected("user7234@d942.example.net", "REDACTED", subject_is_text=True),
    "multipart": Expected("administrator@example.com", "Sasha"),
    "no-ctype": Expected("user9768@d712.example.net", "Hello,\nI'm just testing message parsing", ends="Bob"),
    "outlook-express": Expected("bob@example.com", "Sup?", files=("application/octet-stream",), subject_is_text=True),
    "quoted-printable": Expected("bob@example.com", "Hello Bob,", ends="Bob</div></div>"),
    "raw_email7": Expected(
        "foo@example.com",
        "This is the first part.",
        files=("text/x-ruby-script", "application/pdf", "application/pkcs7-signature"),
    ),
    "raw_email_reply": Expected(
        "user8393@d174.example.net",
        "Message body",
        after="348F04F142D69C21-291E56D292BC@d665.example.net",
        root="473FF3B8.9020707@d174.example.net",
    ),
    "references-only-no-to": Expected(
        "user2298@d006.example.net",
        "References Email",
        after="test-in-reply-to",
        root="4e6e35f5a38b4_479f13bb90078178@d746.example.net",
    ),
    "reply-android": Expected("bob@example.com", "Hello", ends="Hello", whole="написал:"),
    "reply-aol": Expected("user5426@d333.example.net", "Hello", ends="Hello", whole="-----Original Message-----"),
    "reply-apple_mail_2": Expected(
        "user7414@d319.example.net",
        "Hello",
        ends="Hello",
        after="CABzQGhkMXDxUt_tSVQcg=43aniUhtsVfCZVzu-PG0kwS_uzqMw@d778.example.net",
        whole="> Hi there!",
    ),
    "reply-gmail": Expected("user5220@d239.example.net", "Hello", ends="Hello", whole="> Hi"),
    "reply-hotmail": Expected("user8610@d233.example.net", "Hello", ends="Hello", whole="> Hi"),
    "reply-iphone": Expected("user5220@d239.example.net", "Hello", ends="Hello", whole="Sent from my iPhone"),
    "reply-outlook": Expected("me@example.com", "Hello", ends="Hello", whole="Sent: March-09-12 4:22 PM"),
    "reply-thunderbird": Expected("user7080@d086.example.net", "Hello", ends="Hello", whole="> Hi"),
    "reply-yahoo": Expected(
        "user8718@d936.example.net",
        "Hello",
        ends="Hello",
        after="1333374262.7063.15.camel@d070.example.net",
        whole="Subject: Test\n\nHi",
    ),
    "report_422": Expected(
        "mailer-daemon@d697.example.net",
        "**********",
        SuppressReason.BOUNCE,
        after="15655788.13.1200472642578.JavaMail.Administrator@d238.example.net",
        files=("message/delivery-status", "text/rfc822-headers"),
    ),
}


@here
def test_every_sample_has_an_outcome() -> None:
    assert {path.stem for path in FOLDER.glob("*.eml")} == set(EXPECTED)


@here
@pytest.mark.parametrize("name", EXPECTED)
def test_a_real_mail_means_what_it_says(name: str) -> None:
    expected = EXPECTED[name]
    found = received(sample(f"email-raw/{name}.eml"), MailReceipt(at=RECEIVED))
    assert found.at == RECEIVED
    assert found.party.sender == expected.sender
    assert found.suppress is expected.suppress
    assert found.text.startswith(expected.begins)
    assert found.text.endswith(expected.ends or "")
    assert (found.extra.get("text") == "subject") is expected.subject_is_text
    assert (found.full_text is not None) is (expected.whole is not None)
    assert expected.whole is None or expected.whole in (found.full_text or "")
    assert tuple(file.media_type for file in found.attachments) == expected.files
    assert all(file.url.startswith(("mid:", "cid:")) for file in found.attachments)
    assert expected.id in {None, found.provider_id}
    assert found.thread.after[:1] == ((expected.after,) if expected.after else ())
    assert found.thread.conversation_id == f"mail:{expected.root or expected.after or found.provider_id}"


@here
def test_a_mail_without_an_id_is_known_by_its_content() -> None:
    """The same bytes give the same id, other bytes another one."""
    names = ["multipart", "missing-final-boundary", "japanese_iso_2022", "attached-pdf", "reply-outlook"]
    ids = [received(sample(f"email-raw/{name}.eml")).provider_id for name in names]
    assert ids == [received(sample(f"email-raw/{name}.eml")).provider_id for name in names]
    assert len(set(ids)) == len(names)
    assert all(name.startswith("sha256-") for name in ids)


@here
def test_names_subjects_and_dates_are_decoded() -> None:
    simple = received(sample("email-raw/bilingual-simple.eml"))
    assert simple.extra["subject"] == "Simple text. How are you? Как ты поживаешь?"
    assert simple.thread.subject == "simple text. how are you? как ты поживаешь?"
    assert simple.sent_at == datetime(2010, 2, 7, 22, 2, 38, tzinfo=UTC)
    long_name = received(sample("email-raw/japanese_attachment_long_name.eml"))
    assert long_name.attachments[0].name == "かきくけこ" * 5 + ".txt"
