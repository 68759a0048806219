"""``import``: what is good comes in once, what is bad is named, and it may end anywhere."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.cli.command import call, execute, interrupt, line, message, query, run, start, turn, wait_for, write_lines

from afterturn.errors import InvalidInput
from afterturn.importers import Reader


def test_a_second_import_adds_nothing(db: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "chats.jsonl", [line(f"c-{number}", messages=5) for number in range(40)])
    first = run("import", path)
    assert first.code == 0
    assert "40 (40 new)" in first.out
    assert "200 (200 new)" in first.out
    before = query(db, "SELECT * FROM conversations") + query(db, "SELECT * FROM messages")
    second = run("import", path, "--json")
    assert second.code == 0
    assert second.err == ""
    assert second.json["messages"] == {"found": 200, "new": 0, "known": 200}
    assert second.json["turns"]["new"] == second.json["conversations"]["new"] == 0
    assert query(db, "SELECT * FROM conversations") + query(db, "SELECT * FROM messages") == before
    assert "(0 new)" in call("import", path).out


def test_a_longer_file_adds_what_is_new(db: Path, tmp_path: Path) -> None:
    call("import", write_lines(tmp_path / "short.jsonl", [line("c-1", messages=3)]))
    done = call("import", write_lines(tmp_path / "long.jsonl", [line("c-1", messages=6)]), "--json")
    assert done.json["messages"] == {"found": 6, "new": 3, "known": 3}
    assert query(db, "SELECT id FROM messages ORDER BY at, seq") == [(f"m-{number}",) for number in range(1, 7)]


def test_bad_records_are_named_and_the_others_come_in(db: Path, tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "some.jsonl",
        [
            line("c-1"),
            "{not json",
            {"conversation": {"id": "c-2", "channel": "fax"}, "messages": []},
            {
                "conversation": {"id": "c-3", "channel": "sms"},
                "messages": [message(1), message(2, at="2026-03-01T12:00:05")],
            },
            line("c-4"),
        ],
    )
    done = call("import", path)
    assert done.code == 1
    assert "bad: some.jsonl:2:" in done.err
    assert "bad: some.jsonl:3: channel:" in done.err
    assert "bad: some.jsonl:4, message 2: at:" in done.err
    assert "bad records    3" in done.out
    assert query(db, "SELECT id, message_count FROM conversations ORDER BY id") == [("c-1", 2), ("c-3", 1), ("c-4", 2)]


def test_many_bad_records_do_not_flood_the_screen_and_json_has_them_all(db: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "bad.jsonl", [line("c-1"), *["{bad"] * 50])
    done = call("import", path)
    assert done.code == 1
    assert done.err.count("bad: bad.jsonl:") == 20
    assert len(call("import", path, "--json").json["bad"]) == 50


@pytest.mark.parametrize(
    ("name", "content", "arguments", "problem"),
    [
        ("missing.jsonl", None, [], "no such file"),
        ("empty.jsonl", b"", [], "is empty"),
        ("photo.jpg", b"\xff\xd8\xff\xe0 JFIF", [], "none of the formats"),
        ("notes.txt", b"hello there\n", [], "none of the formats"),
        ("wide.jsonl", "{}".encode("utf-16"), [], "UTF-16"),
        ("chats.jsonl", b"{}\n", ["--format", "fax"], "'fax'"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
def test_a_file_that_cannot_be_read_is_named_and_no_store_is_made(
    db: Path, tmp_path: Path, name: str, content: bytes | None, arguments: list[str], problem: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = call("import", tmp_path / name, *arguments)
    assert (done.code, done.out) == (2, "")
    assert problem in done.err
    assert not db.exists()


def test_a_folder_is_no_file(db: Path, tmp_path: Path) -> None:
    assert "is a folder" in call("import", tmp_path).err


def test_a_packed_file_that_was_cut_gives_what_it_holds(db: Path, tmp_path: Path) -> None:
    # Texts that do not pack, so that half of the file holds about half of the lines.
    lines = [
        {"conversation": {"id": f"c-{n}", "channel": "sms"}, "messages": [message(1, text=str(3**2000 * n))]}
        for n in range(1, 200)
    ]
    packed = gzip.compress("".join(json.dumps(one) + "\n" for one in lines).encode())
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    done = call("import", tmp_path / "cut.jsonl.gz", "--json")
    assert done.code == 1
    assert len(done.json["bad"]) == 1
    assert 0 < done.json["conversations"]["new"] < 200


@pytest.mark.parametrize(("after", "code"), [(3, 1), (0, 2)])
def test_a_file_that_cannot_be_read_on_gives_what_came_before(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, code: int
) -> None:
    read_on = Reader.__next__
    left = iter(range(after))

    def fail(self: Reader) -> object:
        if next(left, None) is None:
            raise InvalidInput("c.jsonl: Input/output error")
        return read_on(self)

    monkeypatch.setattr(Reader, "__next__", fail)
    done = call("import", write_lines(tmp_path / "c.jsonl", [line(f"c-{number}") for number in range(9)]), "--json")
    assert done.code == code
    assert "error: c.jsonl: Input/output error" in done.err
    assert done.json["conversations"]["new"] == after
    assert query(db, "SELECT count(*) FROM conversations") == [(after,)]


def test_one_conversation_in_many_lines_stays_in_order(db: Path, tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "split.jsonl",
        [{"conversation": {"id": "c-1", "channel": "sms"}, "messages": [message(number)]} for number in range(1, 60)],
    )
    assert call("import", path).code == 0
    assert query(db, "SELECT id FROM messages ORDER BY seq") == [(f"m-{number}",) for number in range(1, 60)]
    times = query(db, "SELECT occurred_at FROM turns ORDER BY last_seq")
    assert times == sorted(times)


def test_flags_reach_the_reader(db: Path, tmp_path: Path) -> None:
    head = "From x@example.com Mon Mar  2 10:00:00 2026"
    mails = [
        (head, "From: Tenant <t@example.com>", "To: office@example.com", "Message-ID: <1@x>", "Subject: Sink"),
        (head, "From: office@example.com", "To: t@example.com", "Message-ID: <2@x>", "In-Reply-To: <1@x>"),
    ]
    text = "".join(
        "\n".join([*mail, f"Date: Mon, 2 Mar 2026 1{hour}:00:00 +0000", "", "It leaks.", "", ""])
        for hour, mail in enumerate(mails)
    )
    (tmp_path / "box").write_text(text)
    assert call("import", "box", "--format", "mbox", "--own", "office@example.com", "--property", "oak").code == 0
    assert query(db, "SELECT property_id FROM conversations") == [("oak",)]
    assert query(db, "SELECT direction FROM messages ORDER BY at") == [("inbound",), ("outbound",)]


def test_the_property_is_that_of_the_flag_where_the_file_names_none(db: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "c.jsonl", [line("c-1"), line("c-2", propertyId=None), line("c-3", propertyId="elm")])
    assert call("import", path, "--property", "oak").code == 0
    assert query(db, "SELECT property_id FROM conversations ORDER BY id") == [("oak",), ("oak",), ("elm",)]


@pytest.mark.parametrize("odd", ["", " ", "UNASSIGNED", "x" * 300, "a\nb"])
def test_a_property_that_cannot_be_one_is_refused_before_anything_is_read(db: Path, tmp_path: Path, odd: str) -> None:
    done = call("import", write_lines(tmp_path / "c.jsonl", [line("c-1")]), "--property", odd)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: --property: ")
    assert not db.exists()


def test_an_import_leaves_alone_what_an_operator_changed(db: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "c.jsonl", [line("c-1", propertyId="oak"), line("empty", messages=0)])
    call("import", path)
    execute(db, "UPDATE conversations SET property_id = 'elm', status = 'closed'")
    assert call("import", path).code == 0
    assert query(db, "SELECT DISTINCT property_id, status FROM conversations") == [("elm", "closed")]


def test_ctrl_c_stops_between_turns_and_running_it_again_goes_on(db: Path, tmp_path: Path) -> None:
    count = 3_000
    path = write_lines(tmp_path / "big.jsonl", [line(f"c-{number}", messages=8) for number in range(count)])
    with start("import", path) as process:
        wait_for(lambda: len(query(db, "SELECT id FROM conversations LIMIT 50")) == 50)
        interrupt(process)
        out, err = process.communicate()
    assert process.returncode == 130
    assert b"run the import again to continue" in err
    assert b"Traceback" not in err
    ((came_in,),) = query(db, "SELECT count(*) FROM conversations")
    assert 50 <= came_in < count
    ((messages,),) = query(db, "SELECT count(*) FROM messages")
    assert f"({messages:,} new)" in out.decode()
    # Every turn that is in is whole: what came in, and the answer.
    assert query(db, "SELECT count(*) FROM turns")[0][0] * 2 == messages
    assert query(db, "SELECT count(*) FROM stream_main") == query(db, "SELECT count(*) FROM turns")

    again = run("import", path, "--json")
    assert again.code == 0
    assert again.json["messages"] == {"found": count * 8, "new": count * 8 - messages, "known": messages}
    assert query(db, "SELECT count(*) FROM conversations") == [(count,)]
    assert query(db, "SELECT count(*) FROM turns") == [(count * 4,)]


def test_progress_goes_to_stderr_only(db: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "c.jsonl", [line("c-1")])
    done = run("import", path)
    assert [row.split("  ")[0] for row in done.out.splitlines()[1:]] == [
        "conversations",
        "turns",
        "messages",
        "bad records",
    ]
    assert "\x1b" not in done.out + done.err


def test_history_that_is_imported_is_owed_by_the_consumers_of_the_app(db: Path, tmp_path: Path) -> None:
    call("import", write_lines(tmp_path / "c.jsonl", [line("c-1")]))
    assert call("audit").code == 0
    owed = call("audit", "--grace", "0s", "--json")
    assert owed.code == 3
    assert {reaction["consumer"] for reaction in owed.json["reactions"]} == {
        "topics",
        "grade",
        "maintenance",
        "inbound-package",
    }


def test_a_live_turn_and_history_join(db: Path, tmp_path: Path) -> None:
    call("settle", stdin=turn("c-1", message(9)))
    call("import", write_lines(tmp_path / "c.jsonl", [line("c-1", messages=4)]))
    shown = call("show", "c-1", "--json").json
    assert [one["id"] for one in shown["messages"]] == ["m-1", "m-2", "m-3", "m-4", "m-9"]


def test_a_limit_counts_conversations_and_the_rest_comes_in_later(db: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "all.jsonl", ["{not json", *(line(f"c-{number}") for number in range(5))])
    done = call("import", path, "--limit", "2", "--json")
    assert done.code == 1
    assert done.json["conversations"] == {"found": 2, "new": 2, "known": 0}
    assert len(done.json["bad"]) == 1
    assert call("import", path, "--json").json["conversations"] == {"found": 5, "new": 3, "known": 2}
