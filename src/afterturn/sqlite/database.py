"""Threads that own connections: one that writes in groups, a few that read.

A unit of work is a function of a connection. Units that wait for the writer share one durable commit. Where one of
them fails, the group is rolled back and run again with a savepoint around each unit, so that a bad one fails alone:
savepoints copy every page that is touched, and failures are rare. Units that wait for a reader share one trip to its
thread.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from afterturn.errors import (
    InvalidInput,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from afterturn.sqlite import schema

T = TypeVar("T")
Unit = Callable[[sqlite3.Connection], T]

MAX_GROUP = 512
"""Units in one commit: bounds how long the write lock is held and what one failed commit repeats."""


class _Job:
    __slots__ = ("error", "future", "loop", "result", "unit")

    def __init__(self, unit: Unit[Any], loop: asyncio.AbstractEventLoop) -> None:
        self.unit = unit
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None


class Database:
    """An open file. Make it with :meth:`open`; close it, or use it as a context manager."""

    def __init__(self, path: str, writer: sqlite3.Connection, readers: Sequence[sqlite3.Connection]) -> None:
        self.path = path
        self._writes: SimpleQueue[_Job | None] = SimpleQueue()
        self._reads: SimpleQueue[_Job | None] = SimpleQueue()
        self._closed = False
        self._identity = _identity(path)
        self._threads = [threading.Thread(target=self._write_loop, args=(writer,), name="afterturn-writer")]
        self._threads += [
            threading.Thread(target=self._read_loop, args=(reader,), name=f"afterturn-reader-{number}")
            for number, reader in enumerate(readers)
        ]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    @classmethod
    def open(cls, path: str | Path, *, busy_timeout: float = 10.0, readers: int = 2) -> Database:
        """Open or create the file; raises a StoreError that says what is wrong with it.

        ``busy_timeout``: seconds to wait while another process writes.
        """
        name = str(path)
        with translated(name), ExitStack() as opened:
            writer = opened.enter_context(closing(_connect(name, busy_timeout)))
            _refuse_truncated(writer, name)
            schema.prepare(writer, name)
            _write_ahead(writer, busy_timeout)
            connections = [
                opened.enter_context(closing(_connect(name, busy_timeout, read_only=True))) for _ in range(readers)
            ]
            opened.pop_all()
        return cls(name, writer, connections)

    async def write(self, unit: Unit[T]) -> T:
        """Run a unit in a transaction; when this returns, its effects are on disk.

        Raises what the unit raised (it alone is rolled back) or a StoreError (nothing of it was written). A caller
        that is cancelled does not know whether the unit was written. A unit may run several times (rolled back but for
        the last), so it does nothing but use its connection.
        """
        return await self._submit(self._writes, unit)

    async def read(self, unit: Unit[T]) -> T:
        """Run a unit that only reads, on a consistent snapshot, without waiting for writers."""
        return await self._submit(self._reads, unit)

    def close(self) -> None:
        """Finish what was submitted, then close. Idempotent."""
        if self._closed:
            return
        self._closed = True
        writer, *readers = self._threads
        for _ in readers:
            self._reads.put(None)
        for thread in readers:
            thread.join()
        # The last connection folds the write-ahead log into the file; two that close at once leave it to each other.
        self._writes.put(None)
        writer.join()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _submit(self, queue: SimpleQueue[_Job | None], unit: Unit[T]) -> T:
        if self._closed:
            raise StoreError(f"{self.path} is closed")
        job = _Job(unit, asyncio.get_running_loop())
        queue.put(job)
        result: T = await job.future
        return result

    def _write_loop(self, connection: sqlite3.Connection) -> None:
        while group := _take(self._writes, MAX_GROUP):
            self._commit(connection, group)
            _resolve(group)
        connection.close()

    def _commit(self, connection: sqlite3.Connection, group: list[_Job]) -> None:
        """Run a group in one transaction; if that fails, again with savepoints; if that fails, each on its own."""
        if _identity(self.path) != self._identity:
            for job in group:
                job.error = StoreError(
                    f"{self.path} was removed or replaced while it was open; nothing was written, start again on "
                    "the file that is to be used"
                )
            return
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            for job in group:
                job.error = self._translated(error)
            return
        try:
            for job in group:
                job.result = job.unit(connection)
            connection.execute("COMMIT")
        except Exception as error:
            _roll_back(connection)
            if len(group) == 1:
                group[0].error = self._translated(error)
            else:
                self._commit_apart(connection, group)

    def _commit_apart(self, connection: sqlite3.Connection, group: list[_Job]) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in group:
                connection.execute("SAVEPOINT unit")
                try:
                    job.result = job.unit(connection)
                except Exception as error:
                    if not connection.in_transaction:
                        raise
                    job.error = self._translated(error)
                    connection.execute("ROLLBACK TO unit")
                connection.execute("RELEASE unit")
            connection.execute("COMMIT")
        except Exception:
            # Such as a full disk: SQLite gave up the whole transaction, so each unit has to show for itself.
            _roll_back(connection)
            for job in group:
                job.result = job.error = None
                self._commit(connection, [job])

    def _read_loop(self, connection: sqlite3.Connection) -> None:
        while group := _take(self._reads, 16):
            try:
                connection.execute("BEGIN")
                for job in group:
                    try:
                        job.result = job.unit(connection)
                    except Exception as error:
                        job.error = self._translated(error)
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                for job in group:
                    job.error = job.error or self._translated(error)
                _roll_back(connection)
            _resolve(group)
        connection.close()

    def _translated(self, error: BaseException) -> BaseException:
        if isinstance(error, sqlite3.Error):
            translated_error = translate(error, self.path)
            translated_error.__cause__ = error
            return translated_error
        if isinstance(error, UnicodeEncodeError):
            refused = InvalidInput("a text has a lone surrogate, which no store can hold")
            refused.__cause__ = error
            return refused
        return error


def _identity(path: str) -> tuple[int, int] | None:
    """The identity of the file at a path. Writes to a file that was replaced or deleted are lost."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _take(queue: SimpleQueue[_Job | None], at_most: int) -> list[_Job]:
    """Wait for a job, then take all others that wait; empty after the queue was closed."""
    first = queue.get()
    if first is None:
        return []
    group = [first]
    try:
        while len(group) < at_most:
            job = queue.get_nowait()
            if job is None:
                queue.put(None)
                break
            group.append(job)
    except Empty:
        pass
    return group


def _resolve(group: list[_Job]) -> None:
    """Return the outcomes to their event loops, with one wake-up for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in group:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_set_all, jobs)


def _set_all(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def _connect(path: str, busy_timeout: float, *, read_only: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=busy_timeout, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -32000")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _write_ahead(connection: sqlite3.Connection, timeout: float) -> None:
    """Switch to the write-ahead log. While another process opens the file, SQLite refuses that without waiting."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _refuse_truncated(connection: sqlite3.Connection, path: str) -> None:
    """Detect what SQLite does not: a file of a few bytes, and one truncated within its last page.

    The file is never opened here: closing it again would drop the locks of all other connections of this process
    to it (that is how POSIX locks are), and another process could take the log away under them.
    """
    try:
        if 0 < os.path.getsize(path) < 100:  # SQLite takes a file of one byte for an empty one
            raise StoreDamaged(f"{path} is not a SQLite database; name another file with --db")
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
        log = Path(os.path.realpath(path) + "-wal")  # beside the file itself, wherever a link to it is
        if log.exists() and log.stat().st_size:
            return  # the log holds what the file does not
        size = os.path.getsize(path)
    except OSError:
        return
    if size < pages * page_size:
        raise StoreDamaged(f"{path} is truncated: {size} bytes of {pages * page_size}; restore it from a backup")


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
