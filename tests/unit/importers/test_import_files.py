"""Which files are taken at all, what is said of the others, and how far a reader has come."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from tests.unit.importers.helpers import NOW, SAMPLES, read_all

from afterturn.errors import InvalidInput
from afterturn.importers import Format, detect_format, read

FORMATS = {
    "own.jsonl": Format.AFTERTURN,
    "dialogues.jsonl": Format.DIALOGUES,
    "mail.mbox": Format.MBOX,
    "result.json": Format.TELEGRAM,
    "sms.xml": Format.SMS,
}


@pytest.mark.parametrize(("name", "format"), FORMATS.items())
def test_a_format_is_told_by_content_whatever_the_name(tmp_path: Path, name: str, format: Format) -> None:
    path = tmp_path / "file"
    for prefix in (b"", b"\xef\xbb\xbf", b"\n\n"):
        path.write_bytes(prefix + (SAMPLES / name).read_bytes())
        assert detect_format(path) is format
        assert read_all(path)[0]


@pytest.mark.parametrize("name", ["own.jsonl", "dialogues.jsonl"])
def test_json_lines_may_be_packed(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress((SAMPLES / name).read_bytes()))
    assert detect_format(path) is FORMATS[name]
    assert [c.messages for c in read_all(path)[0]] == [c.messages for c in read_all(SAMPLES / name)[0]]


@pytest.mark.parametrize("first", [b'{"conversation": {"id"', b'{"a": 1}', b'{"conversation"' + b" " * 100_000])
def test_a_bad_first_line_hides_no_format(tmp_path: Path, first: bytes) -> None:
    path = tmp_path / "backup.jsonl"
    path.write_bytes(first + b"\n" + (SAMPLES / "own.jsonl").read_bytes())
    assert detect_format(path) is Format.AFTERTURN


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\x7fELF\x00\x00\x01", "none of the formats"),
        (b"SQLite format 3\x00", "none of the formats"),
        (b"hello", "none of the formats"),
        (b'{"a": 1}', "none of the formats"),
        (b"<calls/>", "none of the formats"),
        ("<smses/>".encode("utf-16"), "is in UTF-16"),
        (gzip.compress(b"From a Sun Mar  1 12:00:00 2026\n", mtime=0), "unpack it first"),
        (gzip.compress(b"hello", mtime=0), "none of the formats"),
        (b"\x1f\x8b", "none of the formats"),
        (b"\x1f\x8b\x08\x00garbage and more of it", "none of the formats"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_path(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=says) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_the_refusal_names_every_format(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("hello")
    with pytest.raises(InvalidInput) as caught:
        detect_format(path)
    assert all(format.value in str(caught.value) for format in Format)


def test_missing_files_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, says in (
        (tmp_path / "nothing", "no such file"),
        (tmp_path, "is a folder"),
        (tmp_path / "pipe", "not a regular file"),
        (Path("a\0b"), "no such file"),
        (tmp_path / ("x" * 300), "."),
    ):
        for format in (None, *Format):
            with pytest.raises(InvalidInput, match=says):
                read(path, format=format)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'pst' is not known: afterturn = "):
        read(SAMPLES / "own.jsonl", format="pst")


@pytest.mark.parametrize("name", FORMATS)
def test_progress_only_grows_and_ends_at_the_total(name: str) -> None:
    reader = read(SAMPLES / name, clock=lambda: NOW)
    assert reader.bytes_read == 0
    seen = []
    with reader:
        for _ in reader:
            seen.append(reader.bytes_read)
    assert seen == sorted(seen)
    assert 0.8 * reader.total_bytes < seen[-1] <= reader.total_bytes


@pytest.mark.parametrize("name", FORMATS)
def test_a_second_reading_gives_the_same_ids_times_and_keys(name: str) -> None:
    assert read_all(SAMPLES / name) == read_all(SAMPLES / name)


@pytest.mark.parametrize("name", FORMATS)
def test_every_turn_belongs_to_its_conversation_and_has_a_key_of_its_own(name: str) -> None:
    found, bad = read_all(SAMPLES / name)
    assert not bad
    keys = [turn.key for c in found for turn in c.turns]
    assert len(set(keys)) == len(keys)
    assert all(turn.conversation == c.meta for c in found for turn in c.turns)


def test_a_property_is_given_where_the_file_names_none() -> None:
    for name in ("mail.mbox", "result.json", "sms.xml"):
        for item in read(SAMPLES / name, property_id="oak", clock=lambda: NOW):
            assert "propertyId='oak'" in repr(item) or "property_id='oak'" in repr(item)
