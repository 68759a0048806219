"""The store in a SQLite file."""

from afterturn.store.sqlite.searching import SqliteSearch
from afterturn.store.sqlite.store import SqliteStore

__all__ = ["SqliteSearch", "SqliteStore"]
