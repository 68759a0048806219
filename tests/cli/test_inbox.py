"""``inbox`` and ``show``: what was asked for, all of it, in order."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import call, execute, message, query, run, start, turn, write_lines

from afterturn.cli.thread import summary


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of ten conversations, the higher the number the newer; c-3 is synthetic."""
    folder = tmp_path_factory.mktemp("ten")
    lines = [
        {
            "conversation": {
                "id": f"c-{number}",
                "channel": "email" if number % 2 else "sms",
                "synthetic": number == 3,
                "participants": [f"p{number}@example.com"],
                **({"propertyId": f"oak-{number % 3}"} if number % 3 else {}),
            },
            "messages": [message(number, direction="inbound", role="customer", text=f"my sink leaks {number}")],
        }
        for number in range(10)
    ]
    assert call("--db", folder / "ten.db", "import", write_lines(folder / "ten.jsonl", lines)).code == 0
    assert call("--db", folder / "ten.db", "drain", "--now").code == 0
    return folder / "ten.db"


@pytest.fixture
def filled(ten: Path, db: Path) -> Path:
    """A copy of it as the store of the test."""
    shutil.copy(ten, db)
    return db


def ids(*arguments: object) -> list[str]:
    done = call("inbox", *arguments, "--json")
    assert done.code == 0, done.err
    assert done.err == ""
    return [row["id"] for row in done.json["rows"]]


def test_newest_first_and_synthetic_ones_on_demand(filled: Path) -> None:
    assert ids() == ["c-9", "c-8", "c-7", "c-6", "c-5", "c-4", "c-2", "c-1", "c-0"]
    assert len(ids("--include-synthetic")) == 10


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--channel", "email"], ["c-9", "c-7", "c-5", "c-1"]),
        (["--channel", "email", "--channel", "sms", "--limit", "2"], ["c-9", "c-8"]),
        (["--property", "oak-1"], ["c-7", "c-4", "c-1"]),
        (["--property", "UNASSIGNED", "--property", "oak-2"], ["c-9", "c-8", "c-6", "c-5", "c-2", "c-0"]),
        (["--participant", "p4@example.com"], ["c-4"]),
        (["--since", "2026-03-01T12:00:08Z"], ["c-9", "c-8"]),
        (["--since", "2026-03-01T14:00:08+02:00"], ["c-9", "c-8"]),
        (["--until", "2026-03-01T12:00:02Z"], ["c-1", "c-0"]),
        (["--since", "2026-03-01", "--until", "2026-03-02", "--limit", "1"], ["c-9"]),
        (["--topic", "maintenance", "--limit", "1"], ["c-9"]),
        (["--topic", "no-such-topic"], []),
        (["--type", "general", "--limit", "1"], ["c-9"]),
        (["--status", "closed"], []),
        (["--owed", "any"], []),
        (["--failed", "topics"], []),
        (["--window", "all", "--limit", "1"], ["c-9"]),
    ],
    ids=" ".join,
)
def test_filters(filled: Path, arguments: list[str], expected: list[str]) -> None:
    assert ids(*arguments) == expected


def test_words_are_found_and_shown_where_they_stand(filled: Path) -> None:
    assert ids("--words", "LEAKS 4") == ["c-4"]
    assert ids("--words", "sink le", "--channel", "email", "--limit", "2") == ["c-9", "c-7"]
    assert ids("--words", "nothing") == ids("--words", "***") == []
    (row,) = call("inbox", "--words", "leaks 4", "--json").json["rows"]
    assert [piece["text"] for piece in row["hit"]["snippet"] if piece["hit"]] == ["leaks", "4"]
    assert "my sink leaks 4" in call("inbox", "--words", "4").out
    done = call("inbox", "--words", "x" * 201)
    assert done.code == 2
    assert "--words" in done.err


def test_pages_join_without_gap_or_repeat(filled: Path) -> None:
    found: list[str] = []
    cursor: list[object] = []
    while True:
        page = call("inbox", "--limit", "4", *cursor, "--json").json
        found += [row["id"] for row in page["rows"]]
        if page["nextCursor"] is None:
            break
        cursor = ["--cursor", page["nextCursor"]]
    assert found == ids()


def test_the_next_page_is_told_on_stderr_only(filled: Path) -> None:
    done = call("inbox", "--limit", "4")
    assert "--cursor" in done.err
    assert "--cursor" not in done.out
    assert len(done.out.splitlines()) == 5


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--since", "yesterday"], "--since"),
        (["--since", "2026-03-01T12:00:00"], "--since"),
        (["--until", "2026-13-01"], "--until"),
        (["--window", "24h", "--since", "2026-03-01"], "window"),
        (["--since", "2026-03-02", "--until", "2026-03-01"], "since"),
        (["--limit", "0"], "--limit"),
        (["--limit", "501"], "--limit"),
        (["--topic", "Not A Label"], "--topic"),
        (["--grade", "Z"], "--grade: has to be A, B, C, D or F"),
        (["--property", ""], "--property"),
        (["--owed", "nobody"], "nobody"),
        (["--failed", "nobody"], "nobody"),
        (["--cursor", "null"], "cursor"),
        (["--cursor", "aW52YWxpZA=="], "cursor"),
        (["--cursor", ""], "cursor"),
        (["--window", "1y"], "--window"),
    ],
    ids=" ".join,
)
def test_a_bad_question_is_named_and_exits_2(filled: Path, arguments: list[str], named: str) -> None:
    done = call("inbox", *arguments)
    assert (done.code, done.out) == (2, "")
    assert named in done.err


def test_a_cursor_belongs_to_its_question(filled: Path) -> None:
    cursor = call("inbox", "--limit", "2", "--json").json["nextCursor"]
    assert call("inbox", "--channel", "sms", "--cursor", cursor).code == 2


def test_a_pipe_gets_ids_whole(db: Path) -> None:
    long = "x" * 100 + "é" * 100
    call("settle", stdin=turn(long, propertyId=long))
    done = run("inbox", env={"COLUMNS": "40"})
    assert done.out.count(long) == 2
    assert "\x1b" not in done.out


def test_looking_at_no_store_is_an_error_and_makes_none(db: Path) -> None:
    for command in (["inbox"], ["show", "c-1"], ["stats"], ["audit"], ["drain"], ["sweep"], ["work-orders"]):
        done = call(*command)
        assert (done.code, done.out) == (2, "")
        assert str(db) in done.err
    assert not db.exists()


def test_looking_registers_no_consumer(db: Path, tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text("from afterturn import App\napp = App(shipped=False)\n")
    call("--app", "bare:app", "settle", stdin=turn())
    for command in (["inbox"], ["show", "c-1"], ["stats"], ["audit"], ["sweep"], ["reactions", "list"]):
        assert call(*command).code == 0
    assert query(db, "SELECT name FROM consumers") == []


def test_an_export_comes_in_elsewhere_as_it_was(filled: Path, tmp_path: Path) -> None:
    call("settle", stdin=turn("c-5", message(2), message(3), key="more"))
    call("settle", stdin=turn("c-5", message(5), key="late"))
    call("settle", stdin=turn("c-5", message(4), key="later"))
    exported = call("show", "c-5", "--json")
    (tmp_path / "export.jsonl").write_text(exported.out)
    assert call("--db", "other.db", "import", "export.jsonl").code == 0
    again = call("--db", "other.db", "show", "c-5", "--json").json
    for part in ("messages", "turns"):
        assert again[part] == exported.json[part]
    for name in ("id", "channel", "participants", "createdAt", "lastMessageAt", "settledAt", "messageCount"):
        assert again["conversation"][name] == exported.json["conversation"][name]


def test_an_export_of_a_call_adds_nothing_where_it_came_from(db: Path, tmp_path: Path) -> None:
    call("settle", stdin=turn("call", message(1), message(2), channel="voice"))
    empty = '{"conversation": {"id": "call", "channel": "voice"}, "flushMode": "immediate"}'
    assert call("settle", "--json", stdin=empty).json["new"] is True
    (tmp_path / "export.jsonl").write_text(call("show", "call", "--json").out)
    done = call("import", "export.jsonl", "--json")
    assert done.json["turns"] == {"found": 2, "new": 0, "known": 2}
    assert query(db, "SELECT count(*) FROM turns") == [(2,)]


def test_show_has_thread_turns_stamps_and_work_orders(filled: Path) -> None:
    done = call("show", "c-1")
    assert done.code == 0
    for part in ("my sink leaks 1", "Turns (1)", "topics", "fresh", "Work orders (1)", "plumbing"):
        assert part in done.out


@pytest.mark.parametrize(
    ("stamp", "line"),
    [
        ({}, ""),
        ({"keys": True}, "keys: true"),
        ({"grade": "A", "tone": None, "reasons": [], "state": {}}, "grade: A"),
        ({"topics": ["rent", "keys"], "n": 2.5}, "topics: rent keys, n: 2.5"),
        ({"open": [{"id": "a"}, {"id": "b"}], "state": {"a": 1}}, "open: (2), state: (1)"),
        ({"note": "two\nlines"}, "note: two lines"),
        ({"a": "x" * 60, "b": "y" * 60, "c": 1}, f"a: {'x' * 60} …"),
        ({"a": "x" * 200}, f"a: {'x' * 117} …"),
    ],
)
def test_a_stamp_is_one_short_line_for_people(stamp: dict[str, Any], line: str) -> None:
    assert summary(stamp) == line


def test_a_stamp_is_whole_in_json(filled: Path) -> None:
    line = next(one for one in call("show", "c-1").out.splitlines() if one.startswith("grade"))
    assert "{" not in line
    assert "state" in call("show", "c-1", "--json").json["conversation"]["reactions"]["grade"]["data"]


def test_show_says_what_became_of_sending_and_puts_files_beside_their_time(db: Path) -> None:
    photo = {"url": "https://example.com/1.jpg", "mediaType": "image/jpeg", "name": "sink.jpg"}
    body = turn("c-1", message(1, text="", attachments=[photo]), message(2, text="On our way"), message(4))
    assert call("settle", stdin=body).code == 0
    for number, noted in ((2, {"state": "undeliverable", "reason": "opted-out"}), (4, {"state": "sent"})):
        value = json.dumps({**noted, "at": "2026-03-01T12:00:09Z"})
        row = f"('send-status', 'c-1 m-{number}', '{value}', 0)"
        execute(db, f"INSERT INTO state (kind, key, value, version) VALUES {row}")
    lines = [" ".join(one.split()) for one in call("show", "c-1").out.splitlines()]
    start = lines.index("Messages (3)") + 1
    assert lines[start : start + 5] == [
        "2026-03-01T12:00:01Z customer [sink.jpg: https://example.com/1.jpg]",
        "2026-03-01T12:00:02Z agent On our way",
        "(was not sent: opted-out)",
        "2026-03-01T12:00:04Z agent text 4",
        "(sent)",
    ]


def test_show_of_an_unknown_conversation_exits_2(filled: Path) -> None:
    done = call("show", "nobody")
    assert (done.code, done.out) == (2, "")
    assert "'nobody'" in done.err


def test_work_orders_say_when_there_are_more(filled: Path) -> None:
    done = call("work-orders", "--json", "--limit", "3")
    assert len(done.json["workOrders"]) == 3
    assert done.json["complete"] is False
    assert call("work-orders", "--json").json["complete"] is True
    assert len(call("work-orders", "--conversation", "c-1", "--json").json["workOrders"]) == 1
    assert call("work-orders", "--conversation", "nobody").code == 2
    assert len(call("work-orders").out.splitlines()) == 10


def test_stats_count_each_stage(filled: Path) -> None:
    call("settle", stdin=turn("c-new"))
    found = call("stats", "--json").json
    assert (found["conversations"], found["messages"], found["turns"]) == (11, 11, 11)
    assert (found["stream"]["main"], found["reactions"]["waiting"], found["reactions"]["failed"]) == (1, 0, 0)
    assert found["stream"]["oldestAt"] is not None
    shown = call("stats").out
    assert "stream, main queue     1 " in shown
    assert f"replies, sends, calls  {found['jobs']} " in shown


@pytest.mark.parametrize(
    "words", [("inbox", "--limit", "500"), ("show", "c-1"), ("stats", "--json"), ("--help",), ("show", "--help")]
)
def test_a_reader_that_goes_away_is_no_crash(filled: Path, words: tuple[str, ...]) -> None:
    with start(*words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_a_full_device_for_the_output_is_one_line(filled: Path) -> None:
    with Path("/dev/full").open("wb") as full, start("inbox", "--json", stdout=full) as process:
        assert process.stderr is not None
        told = process.stderr.read().decode()
        assert process.wait() == 1
    assert told.count("\n") == 1
    assert "No space left" in told


def test_an_argument_that_no_encoding_holds_is_refused_without_a_crash(filled: Path) -> None:
    for arguments in ([b"show", b"a\xffb"], [b"inbox", b"--property", b"a\xffb"], [b"stats", b"--db", b"a\xffb.db"]):
        done = run(*arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: ")
        assert "Traceback" not in done.err


def test_a_terminal_that_knows_no_unicode_still_gets_everything(db: Path) -> None:
    call("settle", stdin=turn("c-1", message(1, text="naïve 😀"), propertyId="č-😀"))
    for arguments in (["inbox"], ["show", "c-1"], ["show", "c-1", "--json"]):
        done = run(*arguments, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"})
        assert done.code == 0, done.err
        assert done.out.isascii()
    assert done.json["conversation"]["propertyId"] == "č-😀"


def test_what_looks_like_markup_is_shown_as_it_is(db: Path) -> None:
    text = "[bold]x[/bold] :smile: [link=http://e.example]y[/link]"
    call("settle", stdin=turn("[red]c", message(1, text=text)))
    for arguments in (["inbox"], ["show", "[red]c"]):
        done = call(*arguments)
        assert text in done.out
        assert "[red]c" in done.out


def test_opt_outs_lists_who_wants_no_automatic_messages(filled: Path) -> None:
    assert call("opt-outs").err == "Nobody has opted out.\n"
    for address, out in (("+15150000001", 1), ("+15150000002", 0)):
        execute(filled, f"INSERT INTO opt_outs VALUES ('sms', '{address}', {out}, '2026-03-01T12:00:05.000000Z')")
    listed = call("opt-outs", "--json").json["optOuts"]
    assert listed == [
        {"channel": "sms", "address": "+15150000001", "optedOut": True, "at": "2026-03-01T12:00:05.000000Z"}
    ]
    assert [one["optedOut"] for one in call("opt-outs", "--all", "--json").json["optOuts"]] == [True, False]
    assert "+15150000001" in call("opt-outs").out
    assert "+15150000002" not in call("opt-outs").out
