"""Two processes that start at the same time on a file that does not exist yet."""

from __future__ import annotations

import contextlib
import sqlite3
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
    assert connection.execute("PRAGMA user_version").fetchone() == (len(schema.MIGRATIONS),)
    connection.close()
