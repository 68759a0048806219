"""The writer's verbs that settle nothing, through the room that owns them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.contract.machines import fast_folder
from tests.contract.samples import T0, message, meta, turn

from afterturn.errors import InvalidRecord
from afterturn.settle import Settler
from afterturn.sqlite.database import Database
from afterturn.store.jobs import Job
from afterturn.store.port import Store
from afterturn.store.sqlite import SqliteStore
from afterturn.stream.sqlite import SqliteStream
from afterturn.testing import ManualClock


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    with fast_folder() as folder, Database.open(folder / "afterturn.db") as opened:
        yield opened


@pytest.fixture
def store(database: Database) -> Store:
    return SqliteStore(database)


@pytest.fixture
def stream(database: Database) -> SqliteStream:
    return SqliteStream(database, ManualClock(T0))


@pytest.fixture
def settler(store: Store, stream: SqliteStream) -> Settler:
    return Settler(store, stream, ManualClock(T0), "worker")


async def test_jobs_are_kept_with_what_is_saved_and_with_what_is_settled(settler: Settler, store: Store) -> None:
    first, second = (
        Job(kind="answer", key=key, conversation_id="c1", value={"message": key}, due_at=T0) for key in ("m1", "m2")
    )
    await settler.save_messages(meta("c1"), [message("m1")], jobs=[first])
    await settler.settle(turn("c1", message("m2")), jobs=[second])
    assert [one.key for one in await store.waiting_jobs("answer", limit=9)] == ["m1", "m2"]


async def test_an_edit_settles_and_publishes_nothing(settler: Settler, store: Store, stream: SqliteStream) -> None:
    """F8: no event for an edited message."""
    await settler.save_messages(meta("c1"), [message("m1", provider_id="tg:10")])
    assert await settler.edit_message("c1", "tg:10", "go on", at=T0)
    assert (await stream.depth()).main == 0
    assert await store.turns("c1", limit=9) == ()


async def test_an_edit_from_the_future_is_refused(settler: Settler, store: Store) -> None:
    """It would win against every later one; milliseconds taken for seconds look like that."""
    await settler.save_messages(meta("c1"), [message("m1", provider_id="tg:10", text="old")])
    with pytest.raises(InvalidRecord, match="future"):
        await settler.edit_message("c1", "tg:10", "new", at=T0 + timedelta(days=2))
    assert [one.text for one in await store.messages("c1")] == ["old"]
