"""The stream in a SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TypeVar

from afterturn.clock import EPOCH, Clock, from_text, to_text
from afterturn.errors import StoreError, StreamUnavailable
from afterturn.event import TurnSettled
from afterturn.sqlite.database import Database, Unit
from afterturn.stream.port import MAX_RECEIVES, DeadLetter, DeadLetterKey, Delivery, Depth, Queue, Receipt

T = TypeVar("T")

_AT_ONCE = to_text(EPOCH)
"""Visible by any clock: emitter and reader need not agree on the time."""

_EVERY = ""
"""The consumer of a record in the main queue."""

_TABLES = {Queue.MAIN: "stream_main", Queue.RETRY: "stream_retry"}


class SqliteStream:
    """A stream; the port documents the methods.

    ``on_publish`` is called after records became visible to this process. ``consumers``: those of this app, whose
    records of the retry queue are delivered here; None: all.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        on_publish: Callable[[], None] = lambda: None,
        consumers: Collection[str] | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._on_publish = on_publish
        self._known = None if consumers is None else json.dumps(list(consumers))

    async def publish(self, event: TurnSettled, *, consumer: str | None = None, emission: str | None = None) -> None:
        """Append an event, unless it already waits: another emission of it would change nothing."""
        now = self._clock()
        await self._write(
            lambda c: put(c, event.conversation_id, event.event_id, event.to_json(), now, consumer or _EVERY)
        )
        self._on_publish()

    async def receive(self, queue: Queue, *, limit: int, visibility: timedelta) -> Sequence[Delivery]:
        now = self._clock()
        known = self._known if queue is Queue.RETRY else None
        if not await self._read(lambda c: _next(c, queue, known, now, 1)):
            return ()
        return await self._write(lambda c: _receive(c, queue, known, limit, now, now + visibility))

    async def ack(self, receipts: Sequence[Receipt]) -> None:
        await self._write(lambda c: ack(c, receipts))

    async def release(self, receipts: Sequence[Receipt], *, after: timedelta) -> None:
        visible_at = to_text(self._clock() + after)

        def unit(connection: sqlite3.Connection) -> None:
            for receipt in receipts:
                connection.execute(
                    f"UPDATE {_TABLES[receipt.queue]} SET visible_at = ? WHERE position = ? AND receives = ?",
                    (visible_at, *_parse(receipt)),
                )

        await self._write(unit)

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        now = self._clock()
        await self._write(lambda c: _dead_letter(c, delivery.receipt, reason, now))

    async def dead_letters(self, *, after: DeadLetterKey | None = None, limit: int) -> Sequence[DeadLetter]:
        number = "" if after is None else after.id
        beyond = int(number) if number.isascii() and number.isdigit() and len(number) < 19 else 0

        def unit(connection: sqlite3.Connection) -> list[DeadLetter]:
            dead_letters = connection.execute(
                "SELECT id, consumer, group_id, body, reason, receives, published_at, died_at FROM dead_letters "
                "WHERE id > ? ORDER BY id LIMIT ?",
                (beyond, limit),
            )
            return [
                DeadLetter(
                    id=str(row[0]),
                    queue=Queue.RETRY if row[1] else Queue.MAIN,
                    consumer=row[1] or None,
                    group=row[2],
                    body=row[3],
                    reason=row[4],
                    receives=row[5],
                    published_at=from_text(row[6]),
                    died_at=from_text(row[7]),
                )
                for row in dead_letters
            ]

        return await self._read(unit)

    async def redrive(self, ids: Sequence[str]) -> int:
        now = self._clock()

        def unit(connection: sqlite3.Connection) -> int:
            moved = 0
            for dead_letter_id in ids:
                row = connection.execute(
                    "SELECT group_id, event_id, body, consumer FROM dead_letters WHERE id = ?", (dead_letter_id,)
                ).fetchone()
                if row is not None:
                    put(connection, row[0], row[1], row[2], now, row[3])
                    connection.execute("DELETE FROM dead_letters WHERE id = ?", (dead_letter_id,))
                    moved += 1
            return moved

        moved = await self._write(unit)
        self._on_publish()
        return moved

    async def depth(self) -> Depth:
        def unit(connection: sqlite3.Connection) -> Depth:
            main, oldest_main = connection.execute("SELECT count(*), min(published_at) FROM stream_main").fetchone()
            retry, oldest_retry, unknown = connection.execute(
                f"SELECT count(*), min(published_at), count(*) FILTER (WHERE NOT {_IS_KNOWN}) FROM stream_retry",
                {"known": self._known},
            ).fetchone()
            (dead,) = connection.execute("SELECT count(*) FROM dead_letters").fetchone()
            oldest = min(filter(None, (oldest_main, oldest_retry)), default=None)
            since = None if oldest is None else from_text(oldest)
            return Depth(main=main, retry=retry, dead_letters=dead, oldest=since, unknown_consumer=unknown)

        return await self._read(unit)

    async def _write(self, unit: Unit[T]) -> T:
        with _unavailable():
            return await self._database.write(unit)

    async def _read(self, unit: Unit[T]) -> T:
        with _unavailable():
            return await self._database.read(unit)


@contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise StreamUnavailable(str(error)) from error


def outbox(connection: sqlite3.Connection, event: TurnSettled, now: datetime) -> None:
    """Append a turn's event inside the transaction that settles the turn."""
    put(connection, event.conversation_id, event.event_id, event.to_json(), now, _EVERY)


def put(connection: sqlite3.Connection, group: str, event_id: str, body: str, now: datetime, consumer: str) -> None:
    """Append a record, unless the same event already waits in the same queue."""
    table = _TABLES[Queue.RETRY if consumer else Queue.MAIN]
    connection.execute(
        f"INSERT INTO {table} (consumer, group_id, event_id, body, published_at, visible_at) VALUES (?,?,?,?,?,?) "
        "ON CONFLICT DO NOTHING",
        (consumer, group, event_id, body, to_text(now), _AT_ONCE),
    )


def ack(connection: sqlite3.Connection, receipts: Sequence[Receipt]) -> None:
    """Delete records, in the transaction of what they caused if the caller has one."""
    for queue, table in _TABLES.items():
        connection.executemany(
            f"DELETE FROM {table} WHERE position = ? AND receives = ?",
            [_parse(receipt) for receipt in receipts if receipt.queue is queue],
        )


_IS_KNOWN = "(:known IS NULL OR consumer IN (SELECT value FROM json_each(:known)))"


def _next(
    connection: sqlite3.Connection, queue: Queue, known: str | None, now: datetime, limit: int
) -> list[tuple[int, str, str, str, int]]:
    """Visible records whose group has nothing in flight before them.

    Only records that were received can be in flight, and an index holds those: so a long group is not searched for each
    of its records.
    """
    table = _TABLES[queue]
    return connection.execute(
        f"SELECT position, group_id, consumer, body, receives FROM {table} s WHERE visible_at <= :now "
        f"AND {_IS_KNOWN} AND NOT EXISTS (SELECT 1 FROM {table} earlier WHERE earlier.group_id = s.group_id "
        "AND earlier.consumer = s.consumer AND earlier.position < s.position AND earlier.receives > 0 "
        "AND earlier.visible_at > :now) "
        "ORDER BY position LIMIT :limit",
        {"now": to_text(now), "limit": limit, "known": known},
    ).fetchall()


def _receive(
    connection: sqlite3.Connection, queue: Queue, known: str | None, limit: int, now: datetime, visible_at: datetime
) -> list[Delivery]:
    deliveries = []
    until = to_text(visible_at)
    for position, group, consumer, body, receives in _next(connection, queue, known, now, limit):
        if receives >= MAX_RECEIVES:
            reason = f"received {receives} times without success"
            _dead_letter(connection, _receipt(queue, position, receives), reason, now)
            continue
        connection.execute(
            f"UPDATE {_TABLES[queue]} SET visible_at = ?, receives = receives + 1 WHERE position = ?", (until, position)
        )
        deliveries.append(
            Delivery(
                receipt=_receipt(queue, position, receives + 1),
                group=group,
                body=body,
                receives=receives + 1,
                consumer=consumer or None,
            )
        )
    return deliveries


def _dead_letter(connection: sqlite3.Connection, receipt: Receipt, reason: str, now: datetime) -> None:
    table = _TABLES[receipt.queue]
    connection.execute(
        "INSERT INTO dead_letters (consumer, group_id, event_id, body, published_at, died_at, receives, reason) "
        f"SELECT consumer, group_id, event_id, body, published_at, ?, receives, ? FROM {table} "
        "WHERE position = ? AND receives = ?",
        (to_text(now), reason, *_parse(receipt)),
    )
    connection.execute(f"DELETE FROM {table} WHERE position = ? AND receives = ?", _parse(receipt))


def _receipt(queue: Queue, position: int, receives: int) -> Receipt:
    return Receipt(queue, f"{position}:{receives}")


def _parse(receipt: Receipt) -> tuple[int, int]:
    position, _, receives = receipt.handle.partition(":")
    return int(position), int(receives)
