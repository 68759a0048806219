"""Two processes that start at the same time on a file that does not exist yet."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from afterturn.errors import StoreBusy
from afterturn.sqlite import schema
from afterturn.sqlite.database import Database


def test_a_file_that_another_process_is_making_is_not_taken_for_a_foreign_one(tmp_path: Path) -> None:
    path = tmp_path / "new.db"

    class Slow(sqlite3.Connection):
        """Between its first look at the file and its second, another process makes it."""

        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            if sql == "PRAGMA user_version":
                with contextlib.suppress(StoreBusy):
                    Database.open(path, busy_timeout=0.05).close()
            return super().execute(sql, parameters)

    connection = sqlite3.connect(path, isolation_level=None, timeout=5, factory=Slow)
    schema.prepare(connection, str(path))
    assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
    connection.close()


async def test_opening_a_file_twice_in_one_process_takes_nothing_from_it(tmp_path: Path) -> None:
    """What is acknowledged stays, although another process opens and closes the file meanwhile.

    Closing any handle on a file drops all POSIX locks that the process has on it; without them the other process
    would take itself for the last one, and the log away.
    """
    path = tmp_path / "twice.db"
    Database.open(path).close()
    elsewhere = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('INSERT OR IGNORE INTO checkpoints VALUES (?, ?)', ('elsewhere', '1')); "
        "print(sorted(row[0] for row in c.execute('SELECT name FROM checkpoints'))); c.close()"
    )

    def other_process() -> str:
        done = subprocess.run([sys.executable, "-c", elsewhere, str(path)], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    with Database.open(path) as first:
        assert await first.read(lambda c: c.execute("SELECT count(*) FROM checkpoints").fetchone()) == (0,)
        with Database.open(path):
            other_process()
            await first.write(lambda c: c.execute("INSERT INTO checkpoints VALUES ('acknowledged', '1')").rowcount)
            assert other_process() == "['acknowledged', 'elsewhere']"
