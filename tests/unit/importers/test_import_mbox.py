"""Mail out of mbox files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.importers.helpers import NOW, SAMPLES, SHARED_DATA, read_all, texts

from afterturn.channels.email.reader import decode, html_to_text, parse_date, parse_from_line
from afterturn.model import Direction, Role

FROM_LINE = b"From x Sun Mar  1 12:00:00 2026\n"
REAL = SHARED_DATA / "channels" / "email-raw"


def mail(body: str | bytes = "Hi", *, from_line: bytes = FROM_LINE, **headers: str | bytes) -> bytes:
    lines = {"From": "jo@example.com", "To": "us@oak.example", "Date": "Sun, 1 Mar 2026 12:00:00 +0000"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    text = b"".join(name.encode() + b": " + _bytes(value) + b"\n" for name, value in lines.items() if value)
    return from_line + text + b"\n" + _bytes(body) + b"\n\n"


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def mbox(path: Path, *mails: bytes) -> Path:
    file = path / "a.mbox"
    file.write_bytes(b"".join(mails))
    return file


def test_a_thread_becomes_a_conversation_with_both_sides() -> None:
    (boiler, photo), bad = read_all(SAMPLES / "mail.mbox")
    assert not bad
    assert boiler.meta.id == "mail:boiler-1@example.com"
    assert boiler.meta.participants == ("jo@example.com",)
    assert [m.direction for m in boiler.messages] == [Direction.INBOUND, Direction.OUTBOUND]
    assert boiler.messages[0].text.endswith("\nFrom the cellar, I think.")
    assert boiler.messages[1].text == "Does it say café or 80€?"
    assert boiler.messages[1].provider_id == "boiler-2@oak.example"
    assert texts(photo) == ["See the\nphoto & the door"]
    assert photo.messages[0].attachments[0].url == "cid:door@example.net"


def test_mail_without_message_id_is_told_apart_by_its_content(tmp_path: Path) -> None:
    """F10: two different ones are two, and one that was delivered twice is one."""
    first = mail("First", Received="from a", Subject="x")
    again = mail("First", Received="from b", Subject="x", X_Gmail_Labels="Inbox")
    other = mail("Second", Subject="x", Date="Sun, 1 Mar 2026 12:02:00 +0000")
    found, bad = read_all(mbox(tmp_path, first, other, again))
    assert not bad
    assert [texts(c) for c in found] == [["First", "Second"]]
    assert {m.provider_id for m in found[0].messages} == {None}


def test_one_message_id_on_two_mails_loses_neither(tmp_path: Path) -> None:
    found, bad = read_all(mbox(tmp_path, *(mail(text, Message_ID="<same@x>") for text in ("One", "Two", "One", "Two"))))
    assert not bad
    assert [texts(c) for c in found] == [["One", "Two"]]
    assert len({m.id for m in found[0].messages}) == 2


def test_ids_that_are_no_legal_ids_are_hashed(tmp_path: Path) -> None:
    found, bad = read_all(
        mbox(tmp_path, mail(Message_ID="<" + "x" * 300 + ">"), mail(Message_ID="a b c"), mail("z", Message_ID="<>"))
    )
    assert not bad
    assert len({m.id for c in found for m in c.messages}) == 3


@pytest.mark.parametrize("charset", ["bogus", "uft-8", "1", '""', "hex", "rot13", "x\x00y", "utf-7", "idna"])
def test_an_unknown_charset_loses_no_mail(tmp_path: Path, charset: str) -> None:
    """F14"""
    odd = mail(
        b"h\xe9llo",
        Content_Type=f"text/plain; charset={charset}",
        Subject="=?x-unknown?Q?abc?=",
        From=b"J\xf6rg <joerg@example.com>",
    )
    found, bad = read_all(mbox(tmp_path, odd, mail("next", Subject="other")))
    assert not bad
    assert [t[0] for t in (texts(found[0])[0], texts(found[1])[0])] == ["h", "n"]
    assert "joerg@example.com" in found[0].meta.participants


def test_text_is_decoded_as_it_was_meant() -> None:
    assert decode("é😀".encode(), "us-ascii") == "é😀"
    assert decode(b"\x80 5", "iso-8859-1") == "€ 5"
    assert decode("é".encode("latin-1"), "utf-8") == "\ufffd"
    assert decode("日本".encode("iso2022_jp"), "iso-2022-jp") == "日本"
    assert decode(b"+2D0-", "utf-7") == "\ufffd"


@pytest.mark.parametrize(
    "date",
    [
        "Mon, 16 Jun 2234 18:55:24 +0200",
        "garbage",
        "",
        "Thu, 1 Jan 1970 00:00:00 +0000",
        "Mon, 1 Jan 99999 00:00:00 +0000",
        "Mon, 99 Jan 2020 00:00:00 +0000",
        "1, 2",
        "Mon, 1 Jan 2020 00:00:00 +99999999999999999999",
    ],
)
def test_a_date_that_cannot_be_is_replaced_by_the_time_of_receipt(tmp_path: Path, date: str) -> None:
    """F20"""
    found, bad = read_all(mbox(tmp_path, mail(Date=date)))
    assert not bad
    assert found[0].messages[0].at == datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_an_old_date_and_one_without_offset_are_taken() -> None:
    """F20"""
    assert parse_date("Mon, 1 Jan 2018 01:04:44 +0100") == datetime(2018, 1, 1, 0, 4, 44, tzinfo=UTC)
    assert parse_date("Mon, 1 Jan 2026 10:00:00 -0000") == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert parse_date("Sat, 31 Dec 2016 23:59:60 +0000") == datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    "line",
    [
        b"From x Sun Mar  1 12:00:00 2026",
        b"From - Sun Mar 01 12:00:00 2026",
        b"From 1234@xxx Sun Mar 01 12:00:00 +0000 2026",
        b"From x Sun Mar  1 13:00:00 2026 +0100",
        b"From a b@c.d Sun Mar  1 12:00 2026",
    ],
)
def test_the_from_lines_of_many_programs_are_read(line: bytes) -> None:
    assert parse_from_line(line) == datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_mail_without_any_time_is_named_and_the_others_come_in(tmp_path: Path) -> None:
    found, bad = read_all(mbox(tmp_path, mail(), mail(from_line=b"From -\n", Date="soon"), mail("Bye")))
    assert [b.location for b in bad] == ["a.mbox: message 2"]
    assert sum(len(c.messages) for c in found) == 2


def test_threads_follow_references_before_subjects(tmp_path: Path) -> None:
    found, _ = read_all(
        mbox(
            tmp_path,
            mail("1", Message_ID="<1@x>", Subject="Rent"),
            mail("2", Message_ID="<2@x>", Subject="Something else", In_Reply_To="<1@x>"),
            mail("3", Message_ID="<3@x>", Subject="Third", References="<0@x>\n <2@x>"),
            mail("4", Message_ID="<4@x>", Subject="Rent", From="other@example.com"),
            mail("5", Message_ID="<5@x>", Subject="AW: Re: rent", Date="Sun, 29 Mar 2026 12:00:00 +0000"),
            mail("6", Message_ID="<6@x>", Subject="Rent", Date="Sun, 3 May 2026 12:00:00 +0000"),
        ),
        own=("us@oak.example",),
    )
    assert [texts(c) for c in found] == [["1", "2", "3", "5"], ["4"], ["6"]]


def test_mails_without_subject_or_references_are_conversations_of_their_own(tmp_path: Path) -> None:
    found, _ = read_all(mbox(tmp_path, mail("1"), mail("2")))
    assert [texts(c) for c in found] == [["1"], ["2"]]


@pytest.mark.parametrize("own", [("US@oak.example",), ("@oak.example",)])
def test_own_names_addresses_or_domains(tmp_path: Path, own: tuple[str, ...]) -> None:
    found, _ = read_all(mbox(tmp_path, mail(From="Us <us@OAK.example>", To="a@b.c"), mail("x")), own=own)
    assert [c.messages[0].direction for c in found] == [Direction.OUTBOUND, Direction.INBOUND]


def test_without_own_what_is_labelled_as_sent_tells_who_we_are(tmp_path: Path) -> None:
    many = [mail(str(i), From="jo@example.com", To="list@example.com") for i in range(5)]
    found, _ = read_all(mbox(tmp_path, *many, mail("ours", From="me@oak.example", X_Gmail_Labels="Sent,Important")))
    sent = [m.text for c in found for m in c.messages if m.direction is Direction.OUTBOUND]
    assert sent == ["ours"]


def test_without_own_the_busiest_address_is_ours(tmp_path: Path) -> None:
    found, _ = read_all(
        mbox(
            tmp_path,
            mail("in 1", From="a@example.com"),
            mail("in 2", From="b@example.com"),
            mail("out", From="us@oak.example", To="a@example.com"),
        )
    )
    assert [m.text for c in found for m in c.messages if m.direction is Direction.OUTBOUND] == ["out"]


def test_automatic_mail_has_the_role_system(tmp_path: Path) -> None:
    found, _ = read_all(
        mbox(tmp_path, mail("1", Auto_Submitted="auto-replied"), mail("2", Auto_Submitted="no"), mail("3"))
    )
    assert [c.messages[0].role for c in found] == [Role.SYSTEM, Role.CUSTOMER, Role.CUSTOMER]


def test_a_line_that_begins_with_from_ends_a_mail_only_if_it_is_a_from_line(tmp_path: Path) -> None:
    body = "Hello\n\nFrom here on it leaks.\nFrom me Sun Mar  1 12:00:00 2026\nBye"
    found, _ = read_all(mbox(tmp_path, mail(body)))
    assert texts(found[0]) == [body]


def test_windows_line_ends_are_no_matter(tmp_path: Path) -> None:
    unix, _ = read_all(mbox(tmp_path, mail("a\nb"), mail("c")))
    windows, bad = read_all(mbox(tmp_path, (mail("a\nb") + mail("c")).replace(b"\n", b"\r\n")))
    assert not bad
    assert windows == unix


def test_parts_nested_a_thousand_deep_crash_nothing(tmp_path: Path) -> None:
    depth = 3000
    body = "".join(f"--{i}\nContent-Type: multipart/mixed; boundary={i + 1}\n\n" for i in range(depth))
    found, bad = read_all(mbox(tmp_path, mail(body, Content_Type="multipart/mixed; boundary=0"), mail("next")))
    assert "next" in [t for c in found for t in texts(c)]
    assert all(b.location == "a.mbox: message 1" for b in bad)


def test_attachments_beyond_what_a_message_holds_are_counted(tmp_path: Path) -> None:
    part = "--b\nContent-Type: image/png; name=a.png\n\nx\n"
    found, bad = read_all(mbox(tmp_path, mail(part * 60 + "--b--", Content_Type="multipart/mixed; boundary=b")))
    assert not bad
    files = found[0].messages[0].attachments
    assert len(files) == 50
    assert files[-1].name == "and 11 more"


def test_a_mail_in_a_mail_is_an_attachment(tmp_path: Path) -> None:
    body = "--b\n\nSee below\n--b\nContent-Type: message/rfc822\n\nSubject: inner\n\nsecret\n--b--"
    found, _ = read_all(mbox(tmp_path, mail(body, Content_Type="multipart/mixed; boundary=b")))
    assert texts(found[0]) == ["See below"]
    assert found[0].messages[0].attachments[0].media_type == "message/rfc822"


def test_a_text_too_large_is_named(tmp_path: Path) -> None:
    _, bad = read_all(mbox(tmp_path, mail("x" * 300_001)))
    assert bad[0].location == "a.mbox: message 1"
    assert bad[0].problem.startswith("text: has 300001 bytes")


def test_what_stands_before_the_first_mail_is_named(tmp_path: Path) -> None:
    found, bad = read_all(mbox(tmp_path, b"Return-Path: x\n\n", mail()), format="mbox")
    assert len(found) == len(bad) == 1


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<html><head><title>t</title></head><body>a<br>b</body></html>", "a\nb"),
        ("<p>a</p><p>b</p>", "a\n\nb"),
        ("a\n  b&nbsp;c &lt;d&gt;", "a b c <d>"),
        ("<script>x</script>a<style>y", "a"),
        ("a<![if x]>b", "ab"),
        ("<![bad <b>a</b>", "a"),
        ("a<!-- <b>x</b> <!-- y -->b", "ab"),
        ("a<!--[if mso]><p>x</p><![endif]-->b<!-- never closed", "ab"),
        ("<p>1 < 2</p>", "1 < 2"),
    ],
)
def test_html_reads_as_people_see_it(html: str, text: str) -> None:
    assert text in html_to_text(html) or html_to_text(html) == text


@pytest.mark.parametrize("piece", ["<a ", "<!--", '<a b="', "</", "<![", "<?", "<a b='>", "&"])
def test_a_page_of_broken_markup_takes_no_longer_than_its_length(piece: str) -> None:
    """The standard parser alone, whose time grows with the square of it, does not end before the test is stopped."""
    assert len(html_to_text(piece * (1_500_000 // len(piece)))) <= 1_500_000


@pytest.mark.skipif(not REAL.exists(), reason="the shared data is not here")
def test_every_real_mail_comes_in(tmp_path: Path) -> None:
    files = sorted(REAL.glob("*.eml"))
    pieces = []
    for file in files:
        data = file.read_bytes().replace(b"\r\n", b"\n").replace(b"\n\nFrom ", b"\n\n>From ")
        pieces.append(FROM_LINE + data.rstrip() + b"\n\n")
    found, bad = read_all(mbox(tmp_path, *pieces))
    assert not bad
    assert len(files) - 5 <= sum(len(c.messages) for c in found) <= len(files)
    assert all(m.at <= NOW + timedelta(0) for c in found for m in c.messages)
