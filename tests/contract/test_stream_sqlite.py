"""The stream contract on a SQLite file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.machines import long_runs
from tests.contract.samples import T0
from tests.contract.stream import VISIBLE, RedriveContract, StreamContract, event, names, publish, receive
from tests.contract.stream_machine import StreamMachine

from afterturn.errors import StreamUnavailable
from afterturn.sqlite.database import Database
from afterturn.stream.port import Queue, Stream
from afterturn.stream.sqlite import SqliteStream
from afterturn.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(T0)


@pytest.fixture
async def stream(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Stream]:
    with Database.open(tmp_path / "afterturn.db") as database:
        yield SqliteStream(database, clock)


class TestSqliteStream(StreamContract):
    async def test_publishing_wakes_whoever_receives(self, tmp_path: Path, clock: ManualClock) -> None:
        woken: list[bool] = []
        with Database.open(tmp_path / "own.db") as database:
            stream = SqliteStream(database, clock, on_publish=lambda: woken.append(True))
            await stream.publish(event("a", 1))
        assert woken == [True]

    async def test_what_was_published_outlives_the_process(self, tmp_path: Path, clock: ManualClock) -> None:
        path = tmp_path / "own.db"
        with Database.open(path) as database:
            await SqliteStream(database, clock).publish(event("a", 1))
        with Database.open(path) as database:
            assert len(await receive(SqliteStream(database, clock))) == 1

    async def test_two_bridges_on_one_file_share_the_work(self, tmp_path: Path, clock: ManualClock) -> None:
        path = tmp_path / "own.db"
        with Database.open(path) as one, Database.open(path) as two:
            streams = [SqliteStream(database, clock) for database in (one, two)]
            for number in range(10):
                await streams[0].publish(event(f"c{number}", 1))
            seen = [len(await receive(stream, 6)) for stream in streams]
        assert seen == [6, 4]

    async def test_a_stream_that_does_not_answer_says_so(self, tmp_path: Path, clock: ManualClock) -> None:
        """As the port says, whatever the cause: the emitter leaves the event to the sweep."""
        with Database.open(tmp_path / "own.db") as database:
            stream = SqliteStream(database, clock)
            await stream.publish(event("a", 1))
            (delivery,) = await receive(stream)
        for call in (
            stream.publish(event("a", 1)),
            stream.receive(Queue.MAIN, limit=1, visibility=VISIBLE),
            stream.ack([delivery.receipt]),
            stream.release([delivery.receipt], after=VISIBLE),
            stream.dead_letter(delivery, reason="told"),
            stream.dead_letters(limit=1),
            stream.redrive(["1"]),
            stream.depth(),
        ):
            with pytest.raises(StreamUnavailable, match="closed"):
                await call

    async def test_a_direct_record_waits_for_a_process_that_has_its_consumer(
        self, tmp_path: Path, clock: ManualClock
    ) -> None:
        """However often another one looks, which holds up neither its own records nor that one's."""
        with Database.open(tmp_path / "own.db") as database:
            other, right = (SqliteStream(database, clock, consumers=[name]) for name in ("topics", "grade"))
            for consumer in ("grade", "topics"):
                await publish(other, "a@1", "a@2", consumer=consumer)
            assert names(await receive(other, queue=Queue.RETRY)) == ["a@1", "a@2"]
            for _ in range(10):
                clock.advance(VISIBLE)
                for delivery in await receive(other, queue=Queue.RETRY):
                    assert delivery.consumer == "topics"
            depth = await other.depth()
            assert (depth.unknown_consumer, (await right.depth()).unknown_consumer) == (2, depth.retry - 2)
            found = await receive(right, queue=Queue.RETRY)
            assert [(one.consumer, one.receives) for one in found] == [("grade", 1), ("grade", 1)]

    async def test_a_second_emission_of_what_waits_is_the_same_record(self, stream: Stream) -> None:
        """One more would change nothing."""
        await publish(stream, "a@1")
        await publish(stream, "a@1", emission="sweep-1")
        assert (await stream.depth()).main == 1


class TestSqliteRedrive(RedriveContract):
    pass


class SqliteStreamMachine(StreamMachine):
    def open_stream(self, clock: ManualClock) -> Stream:
        self.database = Database.open(self.folder / "afterturn.db", readers=1)
        return SqliteStream(self.database, clock)

    def close(self) -> None:
        if hasattr(self, "database"):
            self.database.close()


TestSqliteStreamMachine = SqliteStreamMachine.TestCase
TestSqliteStreamMachine.settings = long_runs(40, 40)
