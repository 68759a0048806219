"""Translates SQLite's errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from afterturn.errors import (
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
)

_BY_CODE: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_BUSY: (StoreBusy, "is held by another program; try again, or stop the other program"),
    sqlite3.SQLITE_LOCKED: (StoreBusy, "is held by another program; try again, or stop the other program"),
    sqlite3.SQLITE_FULL: (StoreFull, "cannot grow: the disk is full; free some space and try again"),
    sqlite3.SQLITE_READONLY: (
        StoreReadOnly,
        "cannot be written; check the owner and the mode of file and folder",
    ),
    sqlite3.SQLITE_PERM: (
        StoreReadOnly,
        "cannot be written; check the owner and the mode of file and folder",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        StoreReadOnly,
        "cannot be opened; check that it is a file, that its folder exists, and that both may be written",
    ),
    sqlite3.SQLITE_CORRUPT: (StoreDamaged, "is damaged; restore it from a backup"),
    sqlite3.SQLITE_NOTADB: (StoreDamaged, "is not a SQLite database; name another file with --db"),
}


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise a StoreError that names the file in place of any error of SQLite; the cause is kept."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error


def translate(error: sqlite3.Error, path: str) -> StoreError:
    """The StoreError for an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", None)
    kind, problem = _BY_CODE.get((code or 0) & 0xFF, (StoreError, f"failed: {error}"))
    return kind(f"{path} {problem}")
