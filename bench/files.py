"""Database files for a run: fresh ones with afterturn's tables, and what they hold afterwards."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from afterturn.sqlite.database import Database

CACHE = Path(__file__).resolve().parent / ".cache"
"""On the disk of the checkout rather than under /tmp, which is memory on some machines."""

TABLES = ("conversations", "messages", "turns", "stream_main")


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """A folder that is gone afterwards."""
    parent = parent or CACHE
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix="run-") as name:
        yield Path(name)


def fresh(folder: Path, name: str) -> Path:
    """A new file with the tables and nothing in them."""
    path = folder / f"{name}.db"
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    Database.open(path).close()
    return path


def content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of what the writer writes, in the order of their keys."""
    with closing(sqlite3.connect(path)) as connection:
        return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES}
