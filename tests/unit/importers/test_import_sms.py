"""Messages out of "SMS Backup & Restore"."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.importers.helpers import NOW, SAMPLES, read_all, texts

from afterturn.errors import InvalidInput
from afterturn.ids import normalise
from afterturn.importers import ImportedConversation, read
from afterturn.importers.sms_xml import LONE_SURROGATE, NOT_UTF8, repair
from afterturn.model import Direction

HEAD = "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>\n"


def sms(body: str = "Hi", **changes: str) -> str:
    values = {"address": "+1555", "date": "1772366400000", "type": "1", "body": body} | changes
    return "<sms " + " ".join(f'{key}="{value}"' for key, value in values.items() if value != "-") + "/>\n"


def write(path: Path, *records: str, head: str = HEAD) -> Path:
    file = path / "sms.xml"
    file.write_bytes((head + "<smses>\n" + "".join(records) + "</smses>").encode("utf-8", "surrogateescape"))
    return file


def test_counterparts_and_groups_are_conversations() -> None:
    found, bad = read_all(SAMPLES / "sms.xml")
    assert not bad
    assert [c.meta.id for c in found] == ["sms:+15155550101", "sms:ACME Heat", "sms:+15155550101,+15155550102"]
    assert texts(found[0]) == ["Water everywhere 😀 & rising\nHelp", "We are on our way 🚐"]
    assert [m.direction for m in found[0].messages] == [Direction.INBOUND, Direction.OUTBOUND]
    group = found[2]
    assert texts(group) == ["Look at this", "Leak\nA plumber comes at ten"]
    assert [(a.url, a.media_type, a.name) for a in group.messages[0].attachments] == [
        ("cid:leak", "image/jpeg", "leak.jpg")
    ]
    assert group.messages[0].provider_id == "mm-1"


def test_a_number_is_one_however_it_is_spelt() -> None:
    spelt = ["+1 515 822-6442", "+1 (515) 822-6442", "+1.515.822.6442", "\u202a+15158226442\u202c", "+1515822‑6442"]
    assert {normalise(number) for number in spelt} == {"+15158226442"}
    assert [normalise(name) for name in ("12345", "ACME", "a-b@example.com")] == ["12345", "ACME", "a-b@example.com"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("&#55357;&#56832;", "😀"),
        ("&#xD83D;&#xDE00;", "😀"),
        ("&#xd83d;&#56832;&#55357;&#56833;", "😀😁"),
        ("&#128512;", "😀"),
        ("&amp;#55357;", "&#55357;"),
        ("a&#0;b&#11;c\x01", "a\ufffdb\ufffdc\ufffd"),
        ("&#x110000;&#xFFFE;\ufdd0", "\ufffd\ufffd\ufffd"),
        ("a&#10;b&#9;&lt;", "a\nb\t<"),
        ("", ""),
        ("null", "null"),
    ],
)
def test_texts_come_in_as_they_were_meant(tmp_path: Path, written: str, meant: str) -> None:
    found, bad = read_all(write(tmp_path, sms(written)))
    assert not bad
    assert texts(found[0]) == [meant]


@pytest.mark.parametrize("half", ["&#55357;", "&#56832;", "&#56832;&#55357;", "&#55357;x&#56832;", "&#xD83D; "])
def test_half_an_emoji_is_named_and_the_others_come_in(tmp_path: Path, half: str) -> None:
    found, bad = read_all(write(tmp_path, sms("1"), sms(half), sms("3")))
    assert texts(found[0]) == ["1", "3"]
    assert [(b.location, b.problem) for b in bad] == [
        ("sms.xml:4, message 2", "body: has a lone surrogate, which no encoding can hold")
    ]


def test_bytes_that_are_not_utf8_are_named_and_the_others_come_in(tmp_path: Path) -> None:
    found, bad = read_all(write(tmp_path, sms("1"), sms("\udce9"), sms("3")))
    assert texts(found[0]) == ["1", "3"]
    assert [b.problem for b in bad] == ["body: has bytes that are not UTF-8"]


TEXT = "a&#55357;&#56832;b&#xD83D;&#xDE00;é😀&amp;&#10;&#55357;x&#"


@given(st.lists(st.integers(1, 60), max_size=20))
def test_where_the_file_is_cut_into_pieces_changes_nothing(sizes: list[int]) -> None:
    def pieces() -> Iterator[bytes]:
        data, start = TEXT.encode(), 0
        for size in sizes:
            yield data[start : start + size]
            start += size
        yield data[start:]

    assert "".join(repair(pieces())) == f"a😀b😀é😀&amp;&#10;{LONE_SURROGATE}x&#"


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_what_is_repaired_can_always_be_encoded(chunks: list[bytes]) -> None:
    "".join(repair(chunks)).encode()


def test_markers_never_come_out_of_the_file_itself() -> None:
    assert not {LONE_SURROGATE, NOT_UTF8} & set("".join(repair(["\ufdd0\ufdd1&#xFDD0;&#64977;".encode()])))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"date": "1772366400"}, "date: lies before 1990; is it in another unit than milliseconds?"),
        ({"date": "1772366400000000"}, "date: lies outside the years 1970 to 9999; is it in another unit"),
        ({"date": "1972366400000"}, "date: lies in the future"),
        ({"date": "-1"}, "date: is not a number"),
        ({"date": "٣"}, "date: is not a number"),
        ({"date": "-"}, "date: is not a number"),
        ({"type": "9"}, "type"),
        ({"type": "-"}, "type"),
        ({"body": "-"}, "body: is missing"),
        ({"address": "-"}, "address: is missing"),
        ({"address": "null"}, "address: is missing"),
        ({"body": "x" * 300_001}, "text: has 300001 bytes"),
    ],
)
def test_a_bad_record_is_named_and_the_others_come_in(tmp_path: Path, changes: dict[str, str], problem: str) -> None:
    found, bad = read_all(write(tmp_path, sms("1"), sms(**({"body": "secret"} | changes)), sms("3")))
    assert texts(found[0]) == ["1", "3"]
    assert [b.location for b in bad] == ["sms.xml:4, message 2"]
    assert bad[0].problem.startswith(problem)
    assert "secret" not in bad[0].problem


def test_drafts_and_unsent_messages_are_passed_over(tmp_path: Path) -> None:
    found, bad = read_all(write(tmp_path, sms(), *(sms("x", type=str(box)) for box in (3, 4, 5, 6))))
    assert texts(found[0]) == ["Hi"]
    assert not bad


def test_a_message_that_was_restored_twice_is_one(tmp_path: Path) -> None:
    found, bad = read_all(write(tmp_path, sms(), sms(address="+1 555"), sms(type="2"), sms("Ho")))
    assert len(found[0].messages) == 3
    assert not bad


def test_a_long_sender_still_makes_a_legal_id(tmp_path: Path) -> None:
    found, bad = read_all(write(tmp_path, sms(address="x" * 300), sms(address="a#b:c%d 😀")))
    assert not bad
    assert [len(c.meta.id) < 50 for c in found] == [True, True]
    assert found[1].meta.id == "sms:a#b:c%d 😀"


def test_own_numbers_are_left_out_of_a_group(tmp_path: Path) -> None:
    record = '<mms address="+1 999~+1 555" date="1772366400000" msg_box="1" m_id="m"/>'
    found, _ = read_all(write(tmp_path, record), own=("+1 (999)",))
    assert found[0].meta.id == "sms:+1555"


def test_the_numbers_of_a_group_may_stand_in_its_list_only(tmp_path: Path) -> None:
    record = (
        '<mms date="1772366400000" msg_box="2" m_id="m"><addrs><addr address="+2" type="151"/>'
        '<addr address="insert-address-token" type="137"/><addr address="+1" type="151"/></addrs></mms>'
    )
    found, _ = read_all(write(tmp_path, record))
    assert found[0].meta.id == "sms:+1,+2"


def test_a_truncated_file_is_named_and_what_came_before_comes_in(tmp_path: Path) -> None:
    path = write(tmp_path, *(sms(str(i)) for i in range(100)))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    found, bad = read_all(path)
    assert 40 < len(found[0].messages) < 60
    assert len(bad) == 1
    assert "the XML breaks or ends here" in bad[0].problem


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE smses [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>',
        '<!DOCTYPE smses [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE smses SYSTEM "http://localhost/x.dtd">',
        '<!DOCTYPE smses [<!ENTITY % x SYSTEM "http://localhost/x"> %x;]>',
    ],
)
def test_entities_can_not_be_declared(tmp_path: Path, doctype: str) -> None:
    with pytest.raises(InvalidInput, match="document type declaration"):
        read_all(write(tmp_path, sms("&b;"), head=HEAD + doctype))


def test_an_entity_that_nobody_declared_ends_the_reading_there(tmp_path: Path) -> None:
    found, bad = read_all(write(tmp_path, sms("1"), sms("&nbsp;")))
    assert texts(found[0]) == ["1"]
    assert [b.location for b in bad] == ["sms.xml:4"]


def test_another_kind_of_xml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calls.xml"
    path.write_text("<calls><call/></calls>")
    with pytest.raises(InvalidInput, match="not a backup of messages"):
        read_all(path, format="sms")


def test_a_record_of_another_kind_is_named(tmp_path: Path) -> None:
    found, bad = read_all(write(tmp_path, "<call/>", sms()))
    assert len(found) == len(bad) == 1


def test_an_endless_attribute_is_not_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afterturn.importers.sms_xml.MAX_ELEMENT_CHARS", 2**20)
    monkeypatch.setattr("afterturn.importers.sms_xml._CHUNK_BYTES", 2**18)
    found, bad = read_all(write(tmp_path, sms("1"), sms("x" * 3 * 2**20), sms("3")))
    assert texts(found[0]) == ["1"]
    assert "is larger than" in bad[0].problem


def test_elements_nested_a_hundred_thousand_deep_crash_nothing(tmp_path: Path) -> None:
    found, bad = read_all(write(tmp_path, sms("1"), "<a>" * 100_000))
    assert texts(found[0]) == ["1"]
    assert bad


def test_with_a_region_national_numbers_are_the_conversation_that_webhooks_lead_to(tmp_path: Path) -> None:
    spelt = ["+15158226442", "15158226442", "(515) 822-6442", "12345", "ACME"]
    path = write(tmp_path, *(sms(str(number), address=address) for number, address in enumerate(spelt)))
    found = [c for c in read(path, region="US", clock=lambda: NOW) if isinstance(c, ImportedConversation)]
    assert [(c.meta.id, texts(c)) for c in found] == [
        ("sms:+15158226442", ["0", "1", "2"]),
        ("sms:12345", ["3"]),
        ("sms:ACME", ["4"]),
    ]
    with pytest.raises(InvalidInput, match="region 'usa'"):
        read(path, region="usa")
