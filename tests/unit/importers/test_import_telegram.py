"""Chats out of Telegram Desktop's export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.importers.helpers import SAMPLES, read_all, texts

from afterturn.errors import InvalidInput
from afterturn.model import Direction

GOOD: dict[str, Any] = {
    "id": 1,
    "type": "message",
    "date": "2026-03-01T12:00:00",
    "date_unixtime": "1772366400",
    "from": "Jo",
    "from_id": "user5",
    "text": "Hi",
}


def chat(*messages: object, **fields: object) -> dict[str, Any]:
    return {"name": "Jo", "type": "personal_chat", "id": 5, "messages": list(messages)} | fields


def write(path: Path, value: object) -> Path:
    file = path / "result.json"
    file.write_text(json.dumps(value, indent=1))
    return file


def test_a_full_export_gives_its_chats_with_both_sides() -> None:
    (jo, house), bad = read_all(SAMPLES / "result.json")
    assert not bad
    assert (jo.meta.id, jo.meta.participants) == ("telegram:4711", ("user4711",))
    assert [m.direction.value[:2] for m in jo.messages] == ["in", "ou", "in", "in"]
    assert jo.messages[0].text == "See https://example.com 🙂"
    assert [a.url for m in jo.messages for a in m.attachments] == ["photos/photo_1.jpg", "mid:4711/5"]
    assert house.meta.participants == ("user5", "user6")
    assert house.messages[0].attachments[0].url == "geo:51.5,-0.1"
    assert house.messages[1].text == "When?\n- Now"


def test_one_chat_alone_knows_the_other_side_by_the_chat(tmp_path: Path) -> None:
    mine = GOOD | {"id": 2, "from": "Me", "from_id": "user9"}
    found, bad = read_all(write(tmp_path, chat(GOOD, mine)))
    assert not bad
    assert [m.direction for m in found[0].messages] == [Direction.INBOUND, Direction.OUTBOUND]


@pytest.mark.parametrize("own", ["user9", "9", "Me"])
def test_own_names_ids_or_shown_names(tmp_path: Path, own: str) -> None:
    items = [GOOD, GOOD | {"id": 2, "from": "Me", "from_id": "user9"}, GOOD | {"id": 3, "from_id": 9}]
    found, _ = read_all(write(tmp_path, chat(*items, type="private_group")), own=(own,))
    sent = [m.id for m in found[0].messages if m.direction is Direction.OUTBOUND]
    assert sent == (["2"] if own == "Me" else ["2", "3"])


def test_a_group_without_a_known_account_is_all_inbound(tmp_path: Path) -> None:
    found, _ = read_all(write(tmp_path, chat(GOOD, type="private_supergroup")))
    assert found[0].messages[0].direction is Direction.INBOUND


@pytest.mark.parametrize(
    ("kind", "told", "conversation", "message"),
    [
        ("personal_chat", 815, "telegram:815", "1"),
        ("private_group", 4518810793, "telegram:-4518810793", "1"),
        ("private_supergroup", 2471352452, "telegram:-1002471352452", "-1002471352452:1"),
        ("public_supergroup", 815, "telegram:-1000000000815", "-1000000000815:1"),
        ("private_channel", "815", "telegram:-1000000000815", "-1000000000815:1"),
        ("public_channel", 997852516352, "telegram:-1997852516352", "-1997852516352:1"),
        ("private_supergroup", -1002471352452, "telegram:-1002471352452", "-1002471352452:1"),
        (["private_group"], 815, "telegram:815", "1"),
        ("private_supergroup", "x", "telegram:x", "1"),
    ],
)
def test_a_chat_is_the_one_that_bots_know(
    tmp_path: Path, kind: object, told: int | str, conversation: str, message: str
) -> None:
    """Telegram Desktop tells a bare id, and what it is of by the type; few chats number messages for everybody."""
    found, bad = read_all(write(tmp_path, chat(GOOD, type=kind, id=told)))
    assert not bad
    assert (found[0].meta.id, found[0].messages[0].id) == (conversation, message)
    assert found[0].messages[0].provider_id == message


def test_chats_of_different_kinds_with_one_bare_id_are_different(tmp_path: Path) -> None:
    kinds = ("personal_chat", "private_group", "private_supergroup")
    found, bad = read_all(write(tmp_path, {"chats": {"list": [chat(GOOD, type=kind) for kind in kinds]}}))
    assert (len(found), bad) == (3, [])


def test_what_a_supergroup_said_as_a_group_has_numbers_of_its_own(tmp_path: Path) -> None:
    items = [GOOD | {"id": -999999999}, GOOD]
    found, _ = read_all(write(tmp_path, chat(*items, type="private_supergroup", id=2471352452)))
    assert [m.id for m in found[0].messages] == ["-999999999", "-1002471352452:1"]


def test_a_channel_that_speaks_is_named_as_webhooks_name_it(tmp_path: Path) -> None:
    found, _ = read_all(write(tmp_path, chat(GOOD | {"from_id": "channel815"}, type="private_supergroup")))
    assert found[0].meta.participants == ("chat-1000000000815",)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"date_unixtime": None}, "date_unixtime: is missing, and date has no UTC offset"),
        ({"date_unixtime": "1772366400000"}, "date_unixtime: lies outside the years 1970 to 9999; is it in another"),
        ({"date_unixtime": "99999999999"}, "date_unixtime: lies in the future"),
        ({"date_unixtime": "1"}, "date_unixtime: lies before 1990"),
        ({"date_unixtime": "-1"}, "date_unixtime: is not a number"),
        ({"date_unixtime": True}, "date_unixtime: is not a number"),
        ({"date_unixtime": "٣"}, "date_unixtime: is not a number"),
        ({"text": "\ud83d"}, "text"),
        ({"text": "x" * 300_001}, "text"),
        ({"text": 5}, "text"),
        ({"text": ["a", 5]}, "text"),
        ({"text": None}, "text"),
        ({"id": None}, "id"),
        ({"id": True}, "id"),
        ({"id": 1}, "id: is that of an earlier message"),
        ({"type": "unsupported"}, "type"),
    ],
)
def test_a_bad_message_is_named_and_the_others_come_in(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    items = [GOOD, GOOD | {"id": 2, "text": "secret"} | change, GOOD | {"id": 3, "text": "Bye"}, "x"]
    found, bad = read_all(write(tmp_path, {"chats": {"list": [chat(id=1), chat(*items)]}}))
    assert texts(found[0]) == ["Hi", "Bye"]
    assert [b.location for b in bad] == ["result.json: chat 2, message 2", "result.json: chat 2, message 4"]
    assert bad[0].problem.startswith(field)
    assert "secret" not in bad[0].problem


def test_fields_of_any_kind_crash_nothing(tmp_path: Path) -> None:
    odd: list[object] = [None, True, 5, -1, 1.5, "", "x", [], [[]], {}, {"text": []}]
    items = [GOOD | {"id": i + 2, key: value} for key in _KEYS for i, value in enumerate(odd)]
    found, _ = read_all(write(tmp_path, {"chats": {"list": [chat(GOOD, *items, type=t) for t in ("x", "bot_chat")]}}))
    assert found


_KEYS = (
    *GOOD,
    *("photo", "file", "mime_type", "file_name", "poll", "contact_information", "location_information", "place_name"),
)


@pytest.mark.parametrize(
    "value",
    [
        {"chats": None, "left_chats": []},
        {"chats": {"list": {}}},
        {"chats": {"list": [5, None]}},
        {"chats": {"list": [{}]}},
        {"chats": {"list": [chat(GOOD, id=None)]}},
        {"chats": {"list": [{"id": 1, "messages": {}}]}},
        {"messages": None},
        {"chats": {}},
    ],
)
def test_a_bad_chat_is_named(tmp_path: Path, value: object) -> None:
    found, bad = read_all(write(tmp_path, value), format="telegram")
    assert not found
    assert bad


def test_a_chat_that_comes_twice_is_named(tmp_path: Path) -> None:
    found, bad = read_all(
        write(tmp_path, {"chats": {"list": [chat(GOOD)]}, "left_chats": {"list": [chat(GOOD), chat(GOOD, id=6)]}})
    )
    assert [c.meta.id for c in found] == ["telegram:5", "telegram:6"]
    assert [b.location for b in bad] == ["result.json: chat 2"]


@pytest.mark.parametrize("cut", [10, 200])
def test_a_truncated_file_is_named(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path, chat(GOOD))
    path.write_bytes(path.read_bytes()[:cut])
    found, bad = read_all(path, format="telegram")
    assert not found
    assert [b.location for b in bad] == ["result.json"]


def test_deep_nesting_is_named(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text('{"messages":' + "[" * 200_000)
    found, bad = read_all(path)
    assert not found
    assert [b.problem for b in bad] == ["is nested too deeply"]


def test_a_file_too_large_to_be_read_whole_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afterturn.importers.telegram_export.MAX_FILE_BYTES", 100)
    with pytest.raises(InvalidInput, match="export the chats one by one"):
        read_all(write(tmp_path, chat(GOOD)))
