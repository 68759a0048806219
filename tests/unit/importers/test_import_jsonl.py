"""afterturn's own JSON Lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.importers.helpers import SAMPLES, read_all, texts

from afterturn.importers import ImportedConversation
from afterturn.importers.jsonl import TurnEnd, document
from afterturn.importers.source import MAX_LINE_BYTES
from afterturn.model import FlushMode

GOOD: dict[str, Any] = {
    "id": "m-1",
    "direction": "inbound",
    "role": "customer",
    "text": "Hi",
    "at": "2026-03-01T12:00:05Z",
}


def line(*messages: object, **conversation: object) -> str:
    return json.dumps({"conversation": {"id": "c", "channel": "sms"} | conversation, "messages": list(messages)})


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_line_becomes_a_conversation_with_its_turns() -> None:
    (repair, call), bad = read_all(SAMPLES / "own.jsonl")
    assert not bad
    assert (repair.meta.id, repair.meta.property_id, repair.location) == ("c-1", "oak-12", "own.jsonl:1")
    assert [[m.id for m in turn.messages] for turn in repair.turns] == [["m-1", "m-2"], ["m-3", "m-4"]]
    assert repair.messages[0].attachments[0].name == "tap.jpg"
    assert [[m.id for m in turn.messages] for turn in call.turns] == [["u1", "u2"], []]
    assert call.turns[1].flush_mode is FlushMode.IMMEDIATE


def test_an_export_reads_as_what_was_exported(tmp_path: Path) -> None:
    first, _ = read_all(SAMPLES / "own.jsonl")
    path = write(tmp_path / "again.jsonl", *(json.dumps(_exported(c)) for c in first))
    again, bad = read_all(path)
    assert not bad
    assert [c.meta for c in again] == [c.meta for c in first]
    assert [c.messages for c in again] == [c.messages for c in first]
    assert [[(t.at, t.flush_mode, t.messages) for t in c.turns] for c in again] == [
        [(t.at, t.flush_mode, t.messages) for t in c.turns] for c in first
    ]


def _exported(conversation: ImportedConversation) -> dict[str, Any]:
    ends, last = [], ""
    for turn in conversation.turns:
        last = turn.messages[-1].id if turn.messages else last
        assert turn.at
        ends.append(TurnEnd(through=last, at=turn.at, flush_mode=turn.flush_mode))
    return document(conversation.meta, conversation.messages, ends)


def test_what_only_a_store_knows_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", line(GOOD, settledAt="nonsense", reactions={"x": 1}, messageCount=9))
    found, bad = read_all(path)
    assert len(found) == 1
    assert not bad


def test_a_second_reading_gives_the_same(tmp_path: Path) -> None:
    assert read_all(SAMPLES / "own.jsonl") == read_all(SAMPLES / "own.jsonl")


def test_messages_are_taken_by_time_and_offsets_are_honoured(tmp_path: Path) -> None:
    times = ["2026-03-01T12:30:00+00:00", "2026-03-01T13:00:00+02:00", "2026-03-01T11:45:00-01:00"]
    found, bad = read_all(write(tmp_path / "a.jsonl", line(*(GOOD | {"id": at, "text": at, "at": at} for at in times))))
    assert not bad
    assert texts(found[0]) == [times[1], times[0], times[2]]


def test_fractions_of_seconds_of_any_width_stand_in_order(tmp_path: Path) -> None:
    seconds = ["05Z", "05.5Z", "05.123Z", "05.123456Z", "04.999Z"]
    items = [GOOD | {"id": s, "text": s, "at": f"2026-03-01T12:00:{s}"} for s in seconds]
    found, _ = read_all(write(tmp_path / "a.jsonl", line(*items)))
    assert texts(found[0]) == ["04.999Z", "05Z", "05.123Z", "05.123456Z", "05.5Z"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"at": "2026-03-01T12:00:05"}, "at"),
        ({"at": 1772366405}, "at"),
        ({"at": 1772366405000}, "at"),
        ({"at": "+12026-03-01T12:00:05Z"}, "at"),
        ({"at": "58132-03-01T12:00:05Z"}, "at"),
        ({"at": "2026-02-30T12:00:05Z"}, "at"),
        ({"at": "1969-12-31T23:59:59Z"}, "at"),
        ({"at": "2027-01-01T00:00:00Z"}, "at"),
        ({"at": None}, "at"),
        ({"text": "hi \ud83d"}, "text"),
        ({"text": "x" * 300_001}, "text"),
        ({"text": None}, "text"),
        ({"id": ""}, "id"),
        ({"id": "x" * 201}, "id"),
        ({"id": "a\x00b"}, "id"),
        ({"direction": "up"}, "direction"),
        ({"role": "cat"}, "role"),
        ({"attachments": [{"name": "x"}]}, "attachments"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_bad_message_is_named_and_the_rest_of_its_conversation_comes_in(
    tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    secret = "the-secret-words"
    bad_one = {"text": secret} | GOOD | {"id": "bad", "text": secret} | change
    found, bad = read_all(write(tmp_path / "a.jsonl", line(GOOD, bad_one, GOOD | {"id": "m-3", "text": "Bye"})))
    assert texts(found[0]) == ["Hi", "Bye"]
    assert [b.location for b in bad] == ["a.jsonl:1, message 2"]
    assert bad[0].problem.startswith(field)
    assert secret not in bad[0].problem


@pytest.mark.parametrize("missing", ["id", "direction", "role", "text", "at"])
def test_a_missing_key_of_a_message_is_named(tmp_path: Path, missing: str) -> None:
    item = {key: value for key, value in GOOD.items() if key != missing}
    _, bad = read_all(write(tmp_path / "a.jsonl", line(item)))
    assert [(b.location, b.problem) for b in bad] == [
        ("a.jsonl:1, message 1", f"{missing}: is missing; it has to be given")
    ]


@pytest.mark.parametrize("key", ["id", "providerId"])
def test_a_message_id_that_comes_twice_is_named(tmp_path: Path, key: str) -> None:
    second = GOOD | {"id": "m-2", "text": "Other", "providerId": "p-2"} | {key: (GOOD | {"providerId": "p"})[key]}
    found, bad = read_all(write(tmp_path / "a.jsonl", line(GOOD | {"providerId": "p"}, second)))
    assert texts(found[0]) == ["Hi"]
    assert bad[0].problem == f"{key}: is that of an earlier message of the conversation"


@pytest.mark.parametrize(
    "broken",
    [
        "{not json",
        "[]",
        "null",
        '"text"',
        "{}",
        '{"conversation": {"id": "c", "channel": "sms"}}',
        '{"conversation": [], "messages": []}',
        '{"conversation": {"id": "c", "channel": "sms"}, "messages": {}}',
        line(GOOD, channel="fax"),
        line(GOOD, propertyId="UNASSIGNED"),
        line(GOOD, createdAt="2027-01-01T00:00:00Z"),
        line(GOOD, createdAt="2026-01-01"),
        line(GOOD, **{"\ud83d": 1}),
        line(GOOD) + "x",
        "[" * 100_000,
        '{"conversation":' + '{"a":' * 100_000,
        "1" * 5000,
        '{"conversation": {"id": "c", "channel": "sms"}, "messages": [' + "1" * 5000 + "]}",
    ],
)
def test_a_bad_line_is_named_and_the_others_come_in(tmp_path: Path, broken: str) -> None:
    found, bad = read_all(write(tmp_path / "a.jsonl", broken, "", line(GOOD)), format="afterturn")
    assert [b.location for b in bad] == ["a.jsonl:1"]
    assert [c.location for c in found] == ["a.jsonl:3"]


def test_bytes_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(GOOD).encode() + b'\n{"conversation": "\xe9"}\n')
    found, bad = read_all(path)
    assert len(found) == 1
    assert bad[0].problem.startswith("is not UTF-8")


def test_control_characters_are_cleaned_and_emojis_kept(tmp_path: Path) -> None:
    found, bad = read_all(write(tmp_path / "a.jsonl", line(GOOD | {"text": "a\x00b\x0b\ufffe 😀\n"})))
    assert not bad
    assert texts(found[0]) == ["a\ufffdb\ufffd\ufffd 😀\n"]


def test_a_byte_order_mark_and_windows_line_ends_are_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + line(GOOD).encode() + b"\r\n" + line(GOOD, id="d").encode())
    found, bad = read_all(path)
    assert [c.meta.id for c in found] == ["c", "d"]
    assert not bad


def test_a_line_separator_inside_a_text_ends_no_line(tmp_path: Path) -> None:
    text = "a\u2028b\u0085c"
    path = tmp_path / "a.jsonl"
    path.write_text(
        json.dumps(
            {"conversation": {"id": "c", "channel": "sms"}, "messages": [GOOD | {"text": text}]}, ensure_ascii=False
        ),
        encoding="utf-8",
    )
    found, bad = read_all(path)
    assert not bad
    assert texts(found[0]) == ["a\u2028b\ufffdc"]


def test_a_line_too_long_is_named_and_the_next_comes_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_LINE_BYTES >= 2**20
    monkeypatch.setattr("afterturn.importers.source.MAX_LINE_BYTES", 1000)
    found, bad = read_all(write(tmp_path / "a.jsonl", line(GOOD | {"text": "x" * 900_000}), line(GOOD)))
    assert [b.location for b in bad] == ["a.jsonl:1"]
    assert [c.location for c in found] == ["a.jsonl:2"]


@pytest.mark.parametrize(
    "ends",
    [
        [{"through": "m-9", "at": GOOD["at"]}],
        [{"through": "m-2", "at": GOOD["at"]}, {"through": "m-1", "at": GOOD["at"]}],
        [{"through": "m-1", "at": "2027-01-01T00:00:00Z"}],
        [{"at": GOOD["at"]}],
        ["m-1"],
    ],
)
def test_unusable_turn_ends_are_named_and_the_rule_cuts(tmp_path: Path, ends: list[object]) -> None:
    value = json.loads(line(GOOD, GOOD | {"id": "m-2"})) | {"turns": ends}
    found, bad = read_all(write(tmp_path / "a.jsonl", json.dumps(value)))
    assert len(bad) == 1
    assert bad[0].location.startswith("a.jsonl:1, turn ")
    assert [[m.id for m in t.messages] for t in found[0].turns] == [["m-1", "m-2"]]


def test_a_truncated_gzip_file_is_named_and_what_could_be_unpacked_comes_in(tmp_path: Path) -> None:
    lines = "\n".join(line(GOOD | {"text": str(i * 7919 % 10_007)}, id=f"c{i}") for i in range(2000))
    packed = gzip.compress(lines.encode())
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(packed[: len(packed) // 2])
    found, bad = read_all(path)
    assert [c.meta.id for c in found] == [f"c{i}" for i in range(len(found))]
    assert 500 < len(found) < 1500
    assert [b.location for b in bad] == [f"a.jsonl.gz:{len(found) + 1}"]


def test_damage_inside_a_gzip_file_is_named(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress((line(GOOD) + "\n").encode() * 50))
    packed[-5] ^= 0xFF
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(bytes(packed))
    found, bad = read_all(path)
    assert len(found) == 50
    assert len(bad) == 1
