"""The file under everything: units of work in groups, and every way in which a file can be unusable."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.samples import T0, message, turn

from afterturn.errors import (
    InvalidInput,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
    StoreTooOld,
)
from afterturn.sqlite import schema
from afterturn.sqlite.database import Database, Unit, translate
from afterturn.store.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "afterturn.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[Database]:
    with Database.open(path, busy_timeout=0.1) as opened:
        yield opened


def checkpoint(name: str) -> Unit[int]:
    """A unit of work that leaves a trace."""
    return lambda c: c.execute("INSERT INTO checkpoints (name, at) VALUES (?, '')", (name,)).rowcount


def replace(path: Path) -> None:
    """Another file in its place, as a restore or an editor makes it."""
    other = path.with_name("other")
    other.write_bytes(b"")
    other.replace(path)


def cut(path: Path, kept: int) -> None:
    path.write_bytes(path.read_bytes()[:kept])


async def checkpoints(database: Database) -> set[str]:
    rows = await database.read(lambda c: c.execute("SELECT name FROM checkpoints").fetchall())
    return {name for (name,) in rows}


async def in_one_group(database: Database, *units: Unit[Any]) -> list[Any]:
    """Outcomes of units that wait for the writer at the same moment."""
    go = threading.Event()
    first = asyncio.create_task(database.write(lambda c: go.wait()))
    rest = [asyncio.create_task(database.write(unit)) for unit in units]
    await asyncio.sleep(0)
    go.set()
    await first
    return list(await asyncio.gather(*rest, return_exceptions=True))


class TestGroups:
    async def test_a_bad_unit_fails_alone(self, database: Database) -> None:
        """The others of its group are written; nothing of the bad one is."""

        def bad(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO checkpoints (name, at) VALUES ('bad', '')")
            raise LookupError("mine")

        outcomes = await in_one_group(database, checkpoint("a"), bad, checkpoint("b"), checkpoint("a"), checkpoint("c"))
        assert [type(outcome) for outcome in outcomes] == [int, LookupError, int, StoreError, int]
        assert await checkpoints(database) == {"a", "b", "c"}

    async def test_a_unit_that_fails_alone_leaves_nothing(self, database: Database) -> None:
        def bad(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO checkpoints (name, at) VALUES ('bad', '')")
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            await database.write(bad)
        assert await checkpoints(database) == set()

    async def test_units_run_in_the_order_in_which_they_came(self, database: Database) -> None:
        order: list[int] = []
        await in_one_group(database, *((lambda c, n=n: order.append(n)) for n in range(50)))
        assert order == list(range(50))

    async def test_a_full_disk_fails_the_unit_that_needs_the_space(self, database: Database) -> None:
        """The small ones of its group are written; with space again, so is the large one."""
        (pages,) = await database.read(lambda c: c.execute("PRAGMA page_count").fetchone())
        await database.write(lambda c: c.execute(f"PRAGMA max_page_count = {pages + 20}").fetchone())
        store = SqliteStore(database)
        large = turn("large", *(message(f"m{n}", text="x" * 100_000) for n in range(5)))

        def settle_large(connection: sqlite3.Connection) -> object:
            from afterturn.store.sqlite.writer import settle

            return settle(connection, large, T0, "worker", None)

        outcomes = await in_one_group(database, checkpoint("a"), settle_large, checkpoint("b"), checkpoint("c"))
        assert isinstance(outcomes[1], StoreFull)
        assert database.path in str(outcomes[1])
        assert await checkpoints(database) == {"a", "b", "c"}
        assert await store.conversation("large") is None
        assert await store.messages("large") == ()
        await database.write(lambda c: c.execute("PRAGMA max_page_count = 100000").fetchone())
        assert (await store.settle(large, now=T0, emitter="worker")).new

    async def test_what_was_submitted_before_closing_is_written(self, path: Path) -> None:
        database = Database.open(path)
        waiting = [asyncio.create_task(database.write(checkpoint(f"m{n}"))) for n in range(20)]
        await asyncio.sleep(0)
        database.close()
        database.close()
        await asyncio.gather(*waiting)
        with pytest.raises(StoreError, match="closed"):
            await database.write(lambda c: None)
        with Database.open(path) as again:
            assert len(await checkpoints(again)) == 20

    async def test_readers_cannot_write(self, database: Database) -> None:
        with pytest.raises(StoreReadOnly):
            await database.read(checkpoint("a"))
        assert await checkpoints(database) == set()

    async def test_a_caller_that_goes_away_harms_nobody(self, database: Database) -> None:
        go = threading.Event()
        first = asyncio.create_task(database.write(lambda c: go.wait()))
        gone = asyncio.create_task(database.write(checkpoint("gone")))
        stays = asyncio.create_task(database.write(checkpoint("stays")))
        await asyncio.sleep(0)
        gone.cancel()
        go.set()
        await asyncio.gather(first, stays)
        assert "stays" in await checkpoints(database)


class TestBusyFile:
    @pytest.fixture
    def other(self, path: Path, database: Database) -> Iterator[sqlite3.Connection]:
        """Another program on the same file."""
        connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        yield connection
        connection.close()

    async def test_a_write_that_waits_too_long_is_told_so(self, database: Database, other: sqlite3.Connection) -> None:
        """Readers go on meanwhile; nothing was written; later writes are fine."""
        await database.write(checkpoint("before"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match=r"afterturn\.db"):
            await database.write(checkpoint("during"))
        assert await checkpoints(database) == {"before"}
        other.execute("ROLLBACK")
        await database.write(checkpoint("after"))
        assert await checkpoints(database) == {"before", "after"}

    async def test_a_file_that_is_held_whole_cannot_be_opened(self, path: Path) -> None:
        Database.open(path).close()
        other = sqlite3.connect(path, isolation_level=None, timeout=0)
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO checkpoints VALUES ('x', '')")
        with pytest.raises(StoreBusy):
            Database.open(path, busy_timeout=0.05)
        other.close()
        Database.open(path).close()


class TestReplacedFile:
    @pytest.mark.parametrize("replaced", [False, True])
    async def test_nothing_is_acknowledged_that_the_path_does_not_hold(
        self, database: Database, path: Path, replaced: bool
    ) -> None:
        """Somebody removed the file, or put another in its place, while it was open."""
        await database.write(checkpoint("before"))
        replace(path) if replaced else os.unlink(path)
        with pytest.raises(StoreError, match="removed or replaced"):
            await database.write(checkpoint("after"))


class TestOpening:
    def test_an_empty_file_becomes_ours(self, path: Path) -> None:
        """Version 0: a file of no bytes, or a SQLite file without anything in it."""
        path.touch()
        Database.open(path).close()
        path.unlink()
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t (a)")
        connection.execute("DROP TABLE t")
        connection.close()
        Database.open(path).close()

    def test_many_may_create_the_same_file_at_once(self, path: Path) -> None:
        errors: list[BaseException] = []

        def create() -> None:
            try:
                Database.open(path).close()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=create) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []

    @pytest.mark.parametrize(
        ("version", "error", "advice"),
        [(schema.VERSION - 1, StoreTooOld, "import your conversations again"), (99, StoreTooNew, "upgrade afterturn")],
    )
    def test_a_file_of_another_version_is_refused_and_left_as_it_is(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, version: int, error: type[StoreError], advice: str
    ) -> None:
        with monkeypatch.context() as other:
            other.setattr(schema, "VERSION", version)
            Database.open(path).close()
        before = path.read_bytes()
        with pytest.raises(error, match=advice):
            Database.open(path)
        assert path.read_bytes() == before

    async def test_creating_the_tables_is_all_or_nothing(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(schema, "SCHEMA", schema.SCHEMA + "; CREATE TABLE checkpoints (a)")
            with pytest.raises(StoreError):
                Database.open(path)
        with Database.open(path) as database:
            assert await checkpoints(database) == set()

    @pytest.mark.parametrize("pragma", ["application_id = 42", "user_version = 7"])
    def test_a_database_of_another_program_is_refused(self, path: Path, pragma: str) -> None:
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA {pragma}")
        connection.execute("CREATE TABLE t (a)")
        connection.close()
        before = path.read_bytes()
        with pytest.raises(StoreForeign, match=r"afterturn\.db"):
            Database.open(path)
        assert path.read_bytes() == before

    def test_a_database_with_tables_and_no_marks_is_refused(self, path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE conversations (a)")
        connection.close()
        with pytest.raises(StoreForeign):
            Database.open(path)

    @pytest.mark.parametrize("content", [b"x", b"hello\n" * 5000, b"\x89PNG" + bytes(5000), b"SQLite format 3\x00"])
    def test_what_is_no_database_is_refused(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        with pytest.raises(StoreDamaged, match=r"afterturn\.db"):
            Database.open(path)
        assert path.read_bytes() == content

    @pytest.mark.parametrize("kept", [1, 50, 99, 100, 101, 4095, 4096, 8192, 50_000, -4096, -1])
    async def test_a_truncated_file_is_refused(self, path: Path, kept: int) -> None:
        with Database.open(path) as database:
            store = SqliteStore(database)
            for n in range(20):
                given = turn(f"c{n}", message("m", text="x" * 5000))
                await store.settle(given, now=T0, emitter="worker")
        cut(path, kept)
        with pytest.raises(StoreDamaged, match=r"afterturn\.db"):
            Database.open(path)

    async def test_through_a_link_a_file_is_as_good_as_by_its_name(self, path: Path, tmp_path: Path) -> None:
        """What stands in the log only is missing in the file, but nothing of it is lost."""
        link = tmp_path / "elsewhere" / "link.db"
        link.parent.mkdir()
        link.symlink_to(path)
        with Database.open(path) as database:
            await SqliteStore(database).settle(turn("c1", message("m", text="x" * 50_000)), now=T0, emitter="worker")
            with Database.open(link) as linked:
                assert await SqliteStore(linked).conversation("c1") is not None

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(StoreReadOnly):
            Database.open(tmp_path)
        with pytest.raises(StoreReadOnly, match="folder exists"):
            Database.open(tmp_path / "missing" / "afterturn.db")


class TestTranslation:
    def test_every_code_of_sqlite_becomes_a_store_error(self) -> None:
        """And names the file."""
        codes = {
            value
            for name, value in vars(sqlite3).items()
            if name.startswith("SQLITE_") and isinstance(value, int) and value not in (0, 100, 101)
        }
        assert len(codes) > 60
        for code in codes:
            error = sqlite3.OperationalError("told")
            error.sqlite_errorcode = code
            translated = translate(error, "a.db")
            assert isinstance(translated, StoreError)
            assert "a.db" in str(translated)

    @pytest.mark.parametrize(
        "kind",
        [kind for kind in vars(sqlite3).values() if isinstance(kind, type) and issubclass(kind, sqlite3.Error)],
    )
    async def test_no_error_of_the_driver_leaves_a_unit(self, database: Database, kind: type[sqlite3.Error]) -> None:
        """Alone and in a group, reading and writing; the cause is kept."""

        def bad(_: sqlite3.Connection) -> None:
            raise kind("mine")

        for verb in (database.write, database.read):
            with pytest.raises(StoreError) as caught:
                await verb(bad)
            assert isinstance(caught.value.__cause__, kind)
        outcomes = await in_one_group(database, checkpoint("a"), bad, checkpoint("b"))
        assert isinstance(outcomes[1], StoreError)
        assert await checkpoints(database) == {"a", "b"}

    @pytest.mark.parametrize("sql", ["SELEC", "SELECT * FROM missing", "INSERT INTO turns DEFAULT VALUES", "SELECT ?"])
    async def test_no_mistake_in_sql_leaves_a_unit_as_the_drivers_error(self, database: Database, sql: str) -> None:
        for verb in (database.write, database.read):
            with pytest.raises(StoreError):
                await verb(lambda c: c.execute(sql))

    async def test_text_that_cannot_be_encoded_is_bad_input(self, database: Database) -> None:
        with pytest.raises(InvalidInput):
            await database.write(checkpoint("\ud83d"))
