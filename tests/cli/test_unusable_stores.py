"""A store that cannot be used: one line that names the file, exit 4, and the file as it was."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.command import SOURCE, call, line, message, query, run, turn, write_lines

_NOBODY = 65534


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE holiday_photos (id)")


def too_new(path: Path) -> None:
    call("--db", path, "settle", stdin=turn())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 999")


def truncated(path: Path) -> None:
    call("--db", path, "settle", stdin=turn())
    path.write_bytes(path.read_bytes()[:20_000])


def no_database(path: Path) -> None:
    path.write_text("Dear diary, " * 1000)


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [foreign, too_new, truncated, no_database, folder], ids=lambda make: make.__name__)
def test_a_file_that_is_not_ours_or_not_sound_is_named_and_left_alone(
    db: Path, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(db)
    before = db.read_bytes() if db.is_file() else None
    history = write_lines(tmp_path / "c.jsonl", [line("c-1")])
    for command in (["inbox"], ["settle"], ["import", history], ["up"], ["drain"], ["audit"], ["demo"]):
        done = call(*command, stdin=turn())
        assert (done.code, done.out.count("\n") <= 1) == (4, True), done.err
        assert str(db) in done.err
        assert done.err.count("\n") == 1
    assert (db.read_bytes() if db.is_file() else None) == before


def test_a_file_that_another_program_holds_is_busy(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call("settle", stdin=turn("c-1"))
    monkeypatch.setenv("AFTERTURN_BUSY_TIMEOUT", "200ms")
    with closing(sqlite3.connect(db, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        done = call("settle", stdin=turn("c-2"))
        assert done.code == 4
        assert "another program" in done.err
        assert [row["id"] for row in call("inbox", "--json").json["rows"]] == ["c-1"]
        assert call("stats").code == 0
    assert call("settle", stdin=turn("c-2")).code == 0


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    done = call("--db", tmp_path / "no" / "such" / "folder.db", "settle", stdin=turn())
    assert done.code == 4
    assert "folder" in done.err


@pytest.fixture
def readable(tmp_path: Path) -> Path:
    """A folder that others may look into, whoever runs the tests."""
    for one in (tmp_path, *tmp_path.parents):
        if one.stat().st_uid == os.geteuid() and not one.stat().st_mode & 0o001 and one != Path("/"):
            one.chmod(one.stat().st_mode | 0o055)
    return tmp_path


_AS_NOBODY = f"""
import asyncio, encodings.utf_8_sig, os, sys
from afterturn import App
from afterturn.cli import app, main

async def warm_up(path):  # while the interpreter's own folder can be read
    async with App().open(db=path):
        pass

asyncio.run(warm_up(sys.argv.pop(1)))
import afterturn.cli.settle
if os.geteuid() == 0:
    os.setgroups([]), os.setgid({_NOBODY}), os.setuid({_NOBODY})
main()
"""


def _as_nobody(folder: Path, *arguments: object, stdin: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, str(folder / "other.db"), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )


def test_a_read_only_file_is_named(db: Path, readable: Path) -> None:
    call("settle", stdin=turn("c-1"))
    db.chmod(0o444)
    try:
        done = _as_nobody(readable, "settle", stdin=turn("c-2"))
    finally:
        db.chmod(0o644)
    assert (done.returncode, done.stdout) == (4, ""), done.stderr
    assert str(db) in done.stderr
    assert "may be written" in done.stderr or "cannot be written" in done.stderr
    assert query(db, "SELECT id FROM conversations") == [("c-1",)]


def _small_disk(limit: int) -> Callable[[], None]:
    def before_start() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return before_start


def test_a_disk_that_fills_up_during_an_import_leaves_whole_turns(db: Path, tmp_path: Path) -> None:
    count = 300
    lines = [
        {
            "conversation": {"id": f"c-{number}", "channel": "sms"},
            "messages": [message(one, text="x" * 5_000) for one in (1, 2)],
        }
        for number in range(count)
    ]
    path = write_lines(tmp_path / "big.jsonl", lines)
    done = run("import", path, "--json", preexec_fn=_small_disk(1_000_000))
    assert done.code == 4, done.err
    assert str(db) in done.err
    assert "Traceback" not in done.err
    assert done.json["messages"]["new"] == query(db, "SELECT count(*) FROM messages")[0][0]
    assert query(db, "SELECT count(*) FROM turns")[0][0] * 2 == done.json["messages"]["new"] < count * 2
    assert query(db, "PRAGMA integrity_check") == [("ok",)]
    again = run("import", path, "--json")
    assert again.code == 0
    assert query(db, "SELECT count(*) FROM messages") == [(count * 2,)]


def test_a_disk_that_is_full_stops_a_settle_whole(db: Path) -> None:
    call("settle", stdin=turn("c-1"))
    size = db.stat().st_size + 8_192
    texts = [message(number, text="y" * 100_000) for number in range(1, 4)]
    done = run("settle", stdin=turn("c-2", *texts).encode(), preexec_fn=_small_disk(size))
    assert (done.code, done.out) == (4, ""), done.err
    assert query(db, "SELECT id FROM conversations") == [("c-1",)]
