"""The index of words is killed wherever it is: what was acknowledged is found, and it goes on from there."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.contract.inbox.pages import ids, walk
from tests.contract.machines import fast_folder
from tests.contract.samples import at, message, turn

from afterturn.inbox import Inbox, InboxQuery
from afterturn.sqlite.database import Database
from afterturn.store.search import run_search_indexer
from afterturn.store.sqlite import SqliteSearch, SqliteStore
from afterturn.store.sqlite.full_text import SearchLimits
from afterturn.testing import ManualClock

SMALL = SearchLimits(batch_messages=3)
KILLS = (5, 40, 90)
"""After so many acknowledged turns."""


async def _work(path: Path, first: int) -> None:
    """Settle and edit for ever, while the index follows in transactions of a few messages each."""
    with Database.open(path) as database:
        store, search = SqliteStore(database), SqliteSearch(database, SMALL)

        async def follow() -> None:
            while True:
                await search.catch_up(limit=3)
                await asyncio.sleep(0)

        following = asyncio.create_task(follow())
        number = first
        while not following.done():
            said = message(f"m{number}", number, text=f"draft{number} text", provider_id=f"p{number}")
            other = message(f"n{number}", number, text="filler words for the index")
            await store.settle(turn(f"c{number % 7}", said, other), now=at(number), emitter="worker")
            await store.edit_message(f"c{number % 7}", f"p{number}", f"word{number} said", at=at(number + 1))
            print(number, flush=True)
            number += 1
        await following


def _killed(path: Path, first: int, after: int) -> int:
    """Let it work in another process until so many turns were acknowledged; returns the last one of which we know."""
    working = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.test_search_killed", str(path), str(first)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert working.stdout is not None
    last = first - 1
    for line in working.stdout:
        last = int(line)
        if last >= first + after - 1:
            break
    os.kill(working.pid, signal.SIGKILL)
    last = max([last, *(int(line) for line in working.stdout.read().split())])
    working.stdout.close()
    assert working.wait() == -signal.SIGKILL
    return last


async def _found(inbox: Inbox, words: str) -> set[str]:
    return {name for page in await walk(inbox, InboxQuery(words=words)) for name in ids(page)}


async def test_what_was_acknowledged_is_found_after_every_kill() -> None:
    with fast_folder() as folder:
        path, first = folder / "a.db", 0
        for after in KILLS:
            last = _killed(path, first, after)
            with Database.open(path) as database:
                search = SqliteSearch(database)
                inbox = Inbox(SqliteStore(database), ManualClock(at(9_999)), searcher=search)
                for caught_up in (False, True):
                    for number in (*range(min(first, last), last + 1, 7), last):
                        assert await _found(inbox, f"word{number} said") == {f"c{number % 7}"}, (number, caught_up)
                        assert await _found(inbox, f"draft{number} text") == set(), (number, caught_up)
                    assert not await search.catch_up(limit=1_000_000)
                await database.write(
                    lambda c: c.execute("INSERT INTO message_words (message_words) VALUES ('integrity-check')").rowcount
                )
            first = last + 2  # the one that follows may be there, too


async def test_the_index_follows_in_the_background_and_stops_when_it_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with fast_folder() as folder, Database.open(folder / "a.db") as database:
        store, search, stop = SqliteStore(database), SqliteSearch(database, SMALL), asyncio.Event()
        for number in range(20):
            await store.settle(turn(f"c{number}", message("m", number)), now=at(number), emitter="worker")
        keeping = asyncio.create_task(run_search_indexer(search, stop, poll=0.01))

        def lagging(connection):  # type: ignore[no-untyped-def]
            return connection.execute("SELECT count(*) FROM conversations WHERE searched_seq < 1").fetchone()[0]

        for wave in range(2):
            while await database.read(lagging):  # noqa: ASYNC110 - asks a file
                await asyncio.sleep(0.01)
            if not wave:
                await store.settle(turn("later", message("m", 99)), now=at(99), emitter="worker")
        stop.set()
        await asyncio.wait_for(keeping, 240)
        assert caplog.records == []


if __name__ == "__main__":
    asyncio.run(_work(Path(sys.argv[1]), int(sys.argv[2])))
