"""The stream in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from afterturn.clock import EPOCH, Clock, from_text, to_text
from afterturn.event import TurnSettled, event_of
from afterturn.model import SettledTurn
from afterturn.sqlite.database import Database
from afterturn.stream.port import MAX_RECEIVES, DeadLetter, Delivery, Depth, Queue, Receipt

_AT_ONCE = to_text(EPOCH)
"""Visible whatever the clock of the reader says: emitter and reader need not agree on the time."""

_NOBODY = ""
"""The consumer of a record in the main queue."""


class SqliteStream:
    """A stream; see the port for what each verb promises.

    ``on_publish`` is called after records became visible to this process: it wakes whoever receives.
    """

    def __init__(self, database: Database, clock: Clock, on_publish: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._clock = clock
        self._on_publish = on_publish

    async def publish(self, event: TurnSettled, *, consumer: str | None = None) -> None:
        now = self._clock()
        await self._database.write(
            lambda c: put(c, event.conversation_id, event.event_id, event.to_json(), now, consumer or _NOBODY)
        )
        self._on_publish()

    async def receive(self, queue: Queue, *, limit: int, visibility: timedelta) -> Sequence[Delivery]:
        now = self._clock()
        if not await self._database.read(lambda c: _next(c, queue, now, 1)):
            return ()
        return await self._database.write(lambda c: _receive(c, queue, limit, now, now + visibility))

    async def ack(self, receipts: Sequence[Receipt]) -> None:
        await self._database.write(lambda c: ack(c, receipts))

    async def release(self, receipts: Sequence[Receipt], *, after: timedelta) -> None:
        visible_at = to_text(self._clock() + after)

        def unit(connection: sqlite3.Connection) -> None:
            for receipt in receipts:
                position, receives = _parse(receipt)
                connection.execute(
                    "UPDATE stream SET visible_at = ? WHERE position = ? AND receives = ?",
                    (visible_at, position, receives),
                )

        await self._database.write(unit)

    async def bury(self, delivery: Delivery, *, reason: str) -> None:
        position, receives = _parse(delivery.receipt)
        now = self._clock()
        await self._database.write(lambda c: _bury(c, position, receives, reason, now))

    async def dead_letters(self, *, limit: int) -> Sequence[DeadLetter]:
        def unit(connection: sqlite3.Connection) -> list[DeadLetter]:
            found = connection.execute(
                "SELECT id, consumer, group_id, body, reason, receives, published_at, died_at FROM dead_letters "
                "ORDER BY id LIMIT ?",
                (limit,),
            )
            return [
                DeadLetter(
                    id=str(row[0]),
                    queue=Queue.DIRECT if row[1] else Queue.MAIN,
                    consumer=row[1] or None,
                    group=row[2],
                    body=row[3],
                    reason=row[4],
                    receives=row[5],
                    published_at=from_text(row[6]),
                    died_at=from_text(row[7]),
                )
                for row in found
            ]

        return await self._database.read(unit)

    async def redrive(self, ids: Sequence[str]) -> int:
        now = self._clock()

        def unit(connection: sqlite3.Connection) -> int:
            moved = 0
            for letter in ids:
                row = connection.execute(
                    "SELECT group_id, event_id, body, consumer FROM dead_letters WHERE id = ?", (letter,)
                ).fetchone()
                if row is not None:
                    put(connection, row[0], row[1], row[2], now, row[3])
                    connection.execute("DELETE FROM dead_letters WHERE id = ?", (letter,))
                    moved += 1
            return moved

        moved = await self._database.write(unit)
        self._on_publish()
        return moved

    async def depth(self) -> Depth:
        def unit(connection: sqlite3.Connection) -> Depth:
            main, direct, oldest = connection.execute(
                "SELECT count(*) FILTER (WHERE consumer = ''), count(*) FILTER (WHERE consumer <> ''), "
                "min(published_at) FROM stream"
            ).fetchone()
            (dead,) = connection.execute("SELECT count(*) FROM dead_letters").fetchone()
            return Depth(main=main, direct=direct, dead=dead, oldest=None if oldest is None else from_text(oldest))

        return await self._database.read(unit)


def outbox(connection: sqlite3.Connection, turn: SettledTurn) -> None:
    """Append a turn's event inside the transaction that settles the turn."""
    event = event_of(turn)
    put(connection, event.conversation_id, event.event_id, event.to_json(), turn.recorded_at, _NOBODY)


def put(connection: sqlite3.Connection, group: str, event_id: str, body: str, now: datetime, consumer: str) -> None:
    """Append a record, unless the same event already waits in the same queue."""
    connection.execute(
        "INSERT INTO stream (consumer, group_id, event_id, body, published_at, visible_at) VALUES (?,?,?,?,?,?) "
        "ON CONFLICT DO NOTHING",
        (consumer, group, event_id, body, to_text(now), _AT_ONCE),
    )


def ack(connection: sqlite3.Connection, receipts: Sequence[Receipt]) -> None:
    """Forget records, inside the transaction of what they caused where the caller has one."""
    connection.executemany("DELETE FROM stream WHERE position = ? AND receives = ?", map(_parse, receipts))


def _next(
    connection: sqlite3.Connection, queue: Queue, now: datetime, limit: int
) -> list[tuple[int, str, str, str, int]]:
    """Visible records whose group has nothing in flight before them."""
    of_queue = "s.consumer = ''" if queue is Queue.MAIN else "s.consumer <> ''"
    return connection.execute(
        f"SELECT position, group_id, consumer, body, receives FROM stream s WHERE {of_queue} AND visible_at <= ?1 "
        "AND NOT EXISTS (SELECT 1 FROM stream earlier WHERE earlier.consumer = s.consumer AND "
        "earlier.group_id = s.group_id AND earlier.position < s.position AND earlier.visible_at > ?1) "
        "ORDER BY position LIMIT ?2",
        (to_text(now), limit),
    ).fetchall()


def _receive(
    connection: sqlite3.Connection, queue: Queue, limit: int, now: datetime, visible_at: datetime
) -> list[Delivery]:
    deliveries = []
    until = to_text(visible_at)
    for position, group, consumer, body, receives in _next(connection, queue, now, limit):
        if receives >= MAX_RECEIVES:
            _bury(connection, position, receives, f"received {receives} times without success", now)
            continue
        connection.execute(
            "UPDATE stream SET visible_at = ?, receives = receives + 1 WHERE position = ?", (until, position)
        )
        deliveries.append(
            Delivery(
                receipt=Receipt(queue, f"{position}:{receives + 1}"),
                group=group,
                body=body,
                receives=receives + 1,
                consumer=consumer or None,
            )
        )
    return deliveries


def _bury(connection: sqlite3.Connection, position: int, receives: int, reason: str, now: datetime) -> None:
    connection.execute(
        "INSERT INTO dead_letters (consumer, group_id, event_id, body, published_at, died_at, receives, reason) "
        "SELECT consumer, group_id, event_id, body, published_at, ?, receives, ? FROM stream "
        "WHERE position = ? AND receives = ?",
        (to_text(now), reason, position, receives),
    )
    connection.execute("DELETE FROM stream WHERE position = ? AND receives = ?", (position, receives))


def _parse(receipt: Receipt) -> tuple[int, int]:
    position, _, receives = receipt.handle.partition(":")
    return int(position), int(receives)
