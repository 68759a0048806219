"""The table of due reactions: one row for each consumer and conversation with something to do.

``first_at``, ``last_at`` and ``immediate`` are the turns that wait (see ``debounce.Pending``). A claim takes them into
the run and clears them, so that what is there when the run ends has arrived while it ran. ``due_at`` is when the row
may be claimed: by the debounce, after a back-off, or, while ``lease`` is set, when the lease ends. ``retry_at`` is the
end of the back-off alone: whoever skips quiet periods still waits for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from afterturn.clock import from_text, to_text
from afterturn.errors import LeaseLost
from afterturn.reactions.debounce import Debounce, Pending
from afterturn.reactions.port import Signal
from afterturn.store.sqlite import stamps


@dataclass(frozen=True, slots=True)
class ClaimedReaction:
    """A reaction to run now. ``attempt`` counts from 1; ``lease`` has to be shown when it is finished.

    ``crashes``: how many workers in a row claimed it before this one and did not report back.
    """

    consumer: str
    conversation_id: str
    attempt: int
    lease: str
    crashes: int


def signal(connection: sqlite3.Connection, turn: Signal, debounce: Debounce, now: datetime) -> None:
    key = (turn.consumer, turn.conversation_id)
    row = connection.execute(
        "SELECT newest, first_at, last_at, immediate, due_at, retry_at, lease, attempts, crashes, failed "
        "FROM reactions WHERE consumer = ? AND conversation_id = ?",
        key,
    ).fetchone()
    if row is None:
        pending = debounce.signal(None, now, immediate=turn.immediate)
        connection.execute(
            "INSERT INTO reactions (consumer, conversation_id, newest, first_at, last_at, immediate, due_at) "
            "VALUES (?,?,?,?,?,?,?)",
            (*key, to_text(turn.occurred_at), *_columns(pending), to_text(debounce.due_at(pending))),
        )
        return
    newest, first_at, last_at, immediate, due_at, retry_at, lease, attempts, crashes, failed = row
    if failed and to_text(turn.occurred_at) <= newest and _has_failed(connection, turn):
        return
    pending = debounce.signal(_pending(first_at, last_at, immediate), now, immediate=turn.immediate)
    if failed:
        attempts = crashes = 0
    if lease is None:
        due_at = max(to_text(debounce.due_at(pending)), retry_at or "")
    connection.execute(
        "UPDATE reactions SET newest = max(newest, ?), first_at = ?, last_at = ?, immediate = ?, due_at = ?, "
        "attempts = ?, crashes = ?, failed = 0 WHERE consumer = ? AND conversation_id = ?",
        (to_text(turn.occurred_at), *_columns(pending), due_at, attempts, crashes, *key),
    )


def _has_failed(connection: sqlite3.Connection, turn: Signal) -> bool:
    """Whether the ledger still records a failure: a replay clears it, and then asks for the same turn again."""
    return stamps.failed_through(connection, turn.conversation_id, turn.consumer) is not None


_DUE = "consumer = :consumer AND failed = 0 AND due_at <= :now"
"""A range of ``reactions_due``, so that looking costs the same however many reactions wait."""
_EAGERLY_DUE = (
    "consumer = :consumer AND failed = 0 AND (due_at <= :now OR (lease IS NULL AND ifnull(retry_at, '') <= :now))"
)


def any_due(connection: sqlite3.Connection, consumer: str, now: datetime, *, eager: bool) -> bool:
    """``eager``: quiet periods count as over; leases and back-offs do not."""
    values = {"consumer": consumer, "now": to_text(now)}
    due = _EAGERLY_DUE if eager else _DUE
    return connection.execute(f"SELECT 1 FROM reactions WHERE {due} LIMIT 1", values).fetchone() is not None


def claim(
    connection: sqlite3.Connection,
    consumer: str,
    limit: int,
    *,
    worker: str,
    now: datetime,
    until: datetime,
    eager: bool,
    crash_backoff: Callable[[int], timedelta] = lambda crashes: timedelta(0),
) -> list[ClaimedReaction]:
    """Take up to ``limit`` due reactions, longest due first, until ``until``.

    Each claim counts as a crash until its worker reports how the run ended. ``crash_backoff``: how long a reaction
    waits after so many crashes in a row.
    """
    values = {"consumer": consumer, "now": to_text(now), "limit": limit}
    due = _EAGERLY_DUE if eager else _DUE
    rows = connection.execute(
        f"SELECT conversation_id, attempts, crashes, due_at, lease FROM reactions WHERE {due} ORDER BY due_at "
        "LIMIT :limit",
        values,
    ).fetchall()
    claimed = []
    for conversation_id, attempts, crashes, due_at, previous_lease in rows:
        wait = crash_backoff(crashes) if previous_lease is not None else None
        if wait:
            connection.execute(
                "UPDATE reactions SET lease = NULL, due_at = ?, retry_at = ? WHERE consumer = ? AND "
                "conversation_id = ?",
                (to_text(now + wait), to_text(now + wait), consumer, conversation_id),
            )
            continue
        lease = f"{worker} {due_at}"
        connection.execute(
            "UPDATE reactions SET lease = ?, due_at = ?, retry_at = NULL, first_at = NULL, last_at = NULL, "
            "immediate = 0, crashes = crashes + 1 WHERE consumer = ? AND conversation_id = ?",
            (lease, to_text(until), consumer, conversation_id),
        )
        claimed.append(ClaimedReaction(consumer, conversation_id, attempts + 1, lease, crashes))
    return claimed


def extend(connection: sqlite3.Connection, held: Sequence[ClaimedReaction], until: datetime) -> None:
    """Renew leases, those that were not lost."""
    connection.executemany(
        "UPDATE reactions SET due_at = ? WHERE consumer = ? AND conversation_id = ? AND lease = ?",
        [(to_text(until), reaction.consumer, reaction.conversation_id, reaction.lease) for reaction in held],
    )


def give_back(connection: sqlite3.Connection, cut: Sequence[ClaimedReaction], now: datetime) -> None:
    """Undo claims whose runs were cut off by a shutdown: due at once for whoever comes next."""
    connection.executemany(
        "UPDATE reactions SET lease = NULL, due_at = ?, crashes = max(crashes - 1, 0) "
        "WHERE consumer = ? AND conversation_id = ? AND lease = ?",
        [(to_text(now), reaction.consumer, reaction.conversation_id, reaction.lease) for reaction in cut],
    )


def finish(connection: sqlite3.Connection, claimed: ClaimedReaction, debounce: Debounce) -> None:
    """The run succeeded: forget the row, or debounce what arrived meanwhile. Raises LeaseLost."""
    key = (claimed.consumer, claimed.conversation_id)
    forgotten = connection.execute(
        "DELETE FROM reactions WHERE consumer = ? AND conversation_id = ? AND lease = ? AND first_at IS NULL",
        (*key, claimed.lease),
    )
    if forgotten.rowcount:
        return
    pending = _held(connection, claimed)
    assert pending is not None
    connection.execute(
        "UPDATE reactions SET lease = NULL, attempts = 0, crashes = 0, due_at = ? "
        "WHERE consumer = ? AND conversation_id = ?",
        (to_text(debounce.due_at(pending)), *key),
    )


def retry_later(connection: sqlite3.Connection, claimed: ClaimedReaction, until: datetime, *, counted: bool) -> None:
    """The run failed and is tried again later. ``counted``: it used up an attempt. Raises LeaseLost."""
    _held(connection, claimed)
    connection.execute(
        "UPDATE reactions SET lease = NULL, due_at = ?, retry_at = ?, attempts = ?, crashes = 0 "
        "WHERE consumer = ? AND conversation_id = ?",
        (to_text(until), to_text(until), claimed.attempt - (not counted), claimed.consumer, claimed.conversation_id),
    )


def give_up(connection: sqlite3.Connection, claimed: ClaimedReaction, debounce: Debounce) -> bool:
    """The last attempt failed. Where a turn arrived meanwhile, that one gets attempts of its own.

    Returns whether the reaction counts as failed now. Raises LeaseLost.
    """
    pending = _held(connection, claimed)
    if pending is not None:
        finish(connection, claimed, debounce)
        return False
    connection.execute(
        "UPDATE reactions SET lease = NULL, crashes = 0, failed = 1 WHERE consumer = ? AND conversation_id = ?",
        (claimed.consumer, claimed.conversation_id),
    )
    return True


def retry(connection: sqlite3.Connection, consumer: str, conversation_id: str, newest: datetime, now: datetime) -> None:
    """Due now, with fresh attempts."""
    at = to_text(now)
    connection.execute(
        "INSERT INTO reactions (consumer, conversation_id, newest, first_at, last_at, immediate, due_at) "
        "VALUES (?,?,?,?,?,1,?) ON CONFLICT (consumer, conversation_id) DO UPDATE SET failed = 0, attempts = 0, "
        "crashes = 0, retry_at = NULL, first_at = ifnull(first_at, excluded.first_at), last_at = excluded.last_at, "
        "immediate = 1, due_at = iif(lease IS NULL, excluded.due_at, due_at)",
        (consumer, conversation_id, to_text(newest), at, at, at),
    )


def waiting(connection: sqlite3.Connection, consumers: list[str]) -> int:
    """How many reactions of these consumers wait, run, or are put off."""
    marks = ",".join("?" * len(consumers))
    (count,) = connection.execute(
        f"SELECT count(*) FROM reactions WHERE failed = 0 AND consumer IN ({marks})", consumers
    ).fetchone()
    return int(count)


def oldest(connection: sqlite3.Connection) -> datetime | None:
    """Since when the longest-waiting reaction waits."""
    (at,) = connection.execute("SELECT min(first_at) FROM reactions WHERE failed = 0").fetchone()
    return None if at is None else from_text(at)


def _held(connection: sqlite3.Connection, claimed: ClaimedReaction) -> Pending | None:
    row = connection.execute(
        "SELECT first_at, last_at, immediate, lease FROM reactions WHERE consumer = ? AND conversation_id = ?",
        (claimed.consumer, claimed.conversation_id),
    ).fetchone()
    if row is None or row[3] != claimed.lease:
        raise LeaseLost(f"{claimed.consumer} was taken over by another worker")
    return _pending(*row[:3])


def _pending(first_at: str | None, last_at: str | None, immediate: int) -> Pending | None:
    if first_at is None or last_at is None:
        return None
    return Pending(from_text(first_at), from_text(last_at), bool(immediate))


def _columns(pending: Pending) -> tuple[str, str, int]:
    return to_text(pending.first_at), to_text(pending.last_at), int(pending.immediate)
