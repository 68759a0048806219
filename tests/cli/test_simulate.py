"""``simulate``: what was is settled as if it happened now."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import call, interrupt, line, query, start, wait_for, write_lines


def test_the_sample_is_played_and_reacted_to(db: Path) -> None:
    done = call("simulate", "--speed", "1000000", "--spread", "0s", "--limit", "5", "--name", "p", "--json")
    assert done.code == 0, done.err
    assert done.json["conversations"] == 5
    assert query(db, "SELECT count(*) FROM turns") == [(done.json["turns"],)]
    rows = call("inbox", "--json", "--window", "24h", "--include-synthetic").json["rows"]
    assert len(rows) == 5
    assert all(one["id"].startswith("p:") for one in rows)
    assert call("drain", "--now").code == 0


def test_what_was_a_test_stays_hidden(db: Path, tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "chats.jsonl", [line("probe", synthetic=True), line("real"), line("g", gauntlet=True)]
    )
    words = ("--speed", "1000000", "--spread", "0s", "--name", "p")
    done = call("simulate", path, *words)
    assert (done.code, "but for 2 tests (--include-synthetic)" in done.err) == (0, True)
    assert [one["id"] for one in call("inbox", "--json").json["rows"]] == ["p:real"]
    assert len(call("inbox", "--include-synthetic", "--json").json["rows"]) == 3
    call("simulate", path, *words[:-1], "q", "--synthetic")
    assert [one["id"] for one in call("inbox", "--json").json["rows"]] == ["p:real"]


def test_a_call_of_the_sample_is_played_with_what_was_said_in_it(db: Path) -> None:
    assert call("simulate", "--speed", "1000000", "--spread", "0s", "--limit", "6", "--name", "p").code == 0
    [row] = call("inbox", "--channel", "voice", "--json").json["rows"]
    shown = call("show", row["id"], "--json").json
    assert len(shown["messages"]) > 1
    assert [one["flushMode"] for one in shown["turns"]] == ["immediate"]


def test_a_bad_record_is_named_and_the_others_are_played(db: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "chats.jsonl", [line("good"), {"conversation": {"id": "bad", "channel": "fax"}}])
    words = ("--speed", "1000000", "--spread", "0s", "--name", "p")
    done = call("simulate", path, *words)
    assert done.code == 1
    assert "bad: chats.jsonl:2" in done.err
    assert [one["id"] for one in call("inbox", "--json").json["rows"]] == ["p:good"]
    assert call("simulate", path, *words[:-1], "q", "--json").json["bad"][0]["place"] == "chats.jsonl:2"


def test_it_stops_between_turns(db: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "chats.jsonl", [line(f"c-{number}", messages=6) for number in range(5)])
    with start("simulate", path, "--speed", "0.01", "--spread", "1s") as process:
        wait_for(lambda: db.exists() and bool(query(db, "SELECT 1 FROM turns")))
        interrupt(process)
        _, err = process.communicate()
    assert process.returncode == 130
    assert b"turn" in err
    assert query(db, "SELECT count(*) FROM turns")[0][0] < 15


def test_a_file_that_is_not_there_leaves_no_store(db: Path) -> None:
    assert call("simulate", "nope.json").code == 2
    assert not db.exists()
