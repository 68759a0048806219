"""The store in a SQLite file."""

from afterturn.store.sqlite.full_text import SqliteSearch
from afterturn.store.sqlite.store import SqliteStore

__all__ = ["SqliteSearch", "SqliteStore"]
