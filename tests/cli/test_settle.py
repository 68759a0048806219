"""``settle``: a turn comes in whole, or an error names what is wrong and nothing is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import call, message, query, run, turn

NOTHING_WRITTEN = [(0,)]


def test_a_turn_from_stdin_is_settled_once(db: Path) -> None:
    first = run("settle", "--json", stdin=turn(key="k").encode())
    assert first.code == 0
    assert first.err == ""
    assert first.json["new"] is True
    assert first.json["eventId"].startswith("turn:c-1:")
    again = call("settle", "--json", stdin=turn(key="k"))
    assert again.json == {**first.json, "new": False}
    assert query(db, "SELECT count(*) FROM messages") == [(1,)]


def test_for_people_it_says_the_same(db: Path) -> None:
    done = call("settle", stdin=turn())
    assert done.code == 0
    assert [row.split()[0] for row in done.out.splitlines()] == ["eventId", "occurredAt", "new"]


def test_its_events_name_the_command_as_emitter_unless_told_otherwise(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("settle", stdin=turn("c-1"))
    monkeypatch.setenv("AFTERTURN_EMITTER", "web")
    call("settle", stdin=turn("c-2"))
    assert query(db, "SELECT emitter FROM turns ORDER BY conversation_id") == [("cli",), ("web",)]


BAD_MESSAGES = {
    "a lone surrogate": (message(1, text="hi \ud83d"), "messages[0].text"),
    "no offset": (message(1, at="2026-03-01T12:00:05"), "messages[0].at"),
    "an odd offset": (message(1, at="2026-03-01T12:00:05+99:99"), "messages[0].at"),
    "a five-digit year": (message(1, at="12026-03-01T12:00:05Z"), "messages[0].at"),
    "milliseconds for seconds": (message(1, at="9999-12-31T00:00:00Z"), "messages[0].at"),
    "a number for a time": (message(1, at=1772366405), "messages[0].at"),
    "a day that does not exist": (message(1, at="2026-02-30T12:00:05Z"), "messages[0].at"),
    "a text of 400 KB": (message(1, text="x" * 400_000), "messages[0].text"),
    "an empty id": (message(1, id=""), "messages[0].id"),
    "a long id": (message(1, id="x" * 300), "messages[0].id"),
    "a control character in an id": (message(1, id="a\x00b"), "messages[0].id"),
    "an unknown direction": (message(1, direction="sideways"), "messages[0].direction"),
    "a field that is not known": (message(1, sentiment="good"), "messages[0].sentiment"),
    "a text that is none": (message(1, text=None), "messages[0].text"),
}


@pytest.mark.parametrize("case", BAD_MESSAGES)
def test_a_bad_message_is_named_and_nothing_is_written(db: Path, case: str) -> None:
    bad, field = BAD_MESSAGES[case]
    done = call("settle", stdin=turn("c-1", bad))
    assert (done.code, done.out) == (2, "")
    assert field in done.err
    assert "Traceback" not in done.err
    assert query(db, "SELECT count(*) FROM conversations") in ([], NOTHING_WRITTEN)


BAD_CONVERSATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown channel": ({"channel": "fax"}, "conversation.channel"),
    "no channel": ({"channel": None}, "conversation.channel"),
    "an empty property": ({"propertyId": " "}, "conversation.propertyId"),
    "the reserved property": ({"propertyId": "UNASSIGNED"}, "conversation"),
    "a type that is no label": ({"type": "Two Words"}, "conversation.type"),
    "a participant of 300 characters": ({"participants": ["x" * 300]}, "conversation.participants[0]"),
}


@pytest.mark.parametrize("case", BAD_CONVERSATIONS)
def test_a_bad_conversation_is_named_and_nothing_is_written(db: Path, case: str) -> None:
    bad, field = BAD_CONVERSATIONS[case]
    done = call("settle", stdin=turn("c-1", **bad))
    assert (done.code, done.out) == (2, "")
    assert field in done.err
    assert query(db, "SELECT count(*) FROM conversations") in ([], NOTHING_WRITTEN)


BAD_JSON = {
    "nothing": (b"", "is empty"),
    "white space": (b" \n", "is empty"),
    "half an object": (b'{"conversation": ', "is not JSON"),
    "a list": (b"[]", "not an object"),
    "a name twice": (b'{"key": "a", "key": "b"}', "twice"),
    "NaN": (b'{"key": NaN}', "NaN"),
    "infinity": (b'{"key": 1e999}', "too large"),
    "latin-1": (b'{"key": "h\xe9llo"}', "UTF-8"),
    "a deep nest": (b"[" * 100_000, "nested too deeply"),
    "a very long number": (b'{"key": ' + b"9" * 10_000 + b"}", "too many digits"),
    "two objects": (b"{} {}", "is not JSON"),
    "no conversation": (b'{"messages": []}', "conversation"),
    "UTF-16": (json.dumps({"key": "a"}).encode("utf-16"), "UTF-8"),
}


@pytest.mark.parametrize("case", BAD_JSON)
def test_what_is_not_one_json_object_is_refused(db: Path, case: str) -> None:
    data, problem = BAD_JSON[case]
    done = call("settle", stdin=data)
    assert (done.code, done.out) == (2, "")
    assert problem in done.err
    assert len(done.err.splitlines()) == 1
    assert not db.exists()


def test_odd_but_legal_content_comes_in_and_goes_out_as_it_was(db: Path) -> None:
    odd = "a#b:c%d  e 😀"
    body = turn(odd, message(1, id=odd, text=""), message(2, text="a\x00b\x0bc 😀\r\nd"), propertyId=odd)
    assert call("settle", stdin=body).code == 0
    shown = call("show", odd, "--json").json
    assert shown["conversation"]["id"] == odd
    assert shown["conversation"]["propertyId"] == odd
    assert [one["text"] for one in shown["messages"]] == ["", "a\ufffdb\ufffdc 😀\r\nd"]
    assert odd in call("inbox", "--property", odd).out
    assert odd in call("show", odd).out
