"""Faults of the store and of operations whose inputs are told for any store, on DynamoDB and the strict FIFO model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.contract.fifo_emulator import create_queues
from tests.contract.fifo_model import fifo_stream
from tests.contract.samples import T0, at, message, turn
from tests.contract.stream import publish
from tests.contract.test_store_dynamodb import DynamoFactory
from tests.emulator import access, emulator, session  # noqa: F401
from tests.faults.rig import LEASE
from tests.faults.test_areas_bad_input import putter
from tests.faults.test_fifo_lambda import Engine
from tests.fifo import FifoService, unreachable

from afterturn.aws.session import Access, open_client
from afterturn.bridge.bridge import Bridge
from afterturn.event import read_event
from afterturn.ledger.ledger import Ledger, Selection
from afterturn.model import Stamp
from afterturn.settle import Settler
from afterturn.store.port import ConsumerState, Registration, Store
from afterturn.stream.port import Queue
from afterturn.stream.sqs import SqsStream
from afterturn.testing import Crash, Fault, Faults, ManualClock, Moment, faulty

NO_GRACE = timedelta(0)


@pytest.fixture
async def store(access: Access, session: Any) -> AsyncIterator[Store]:  # noqa: F811
    async with DynamoFactory(access, session).open() as opened:
        yield opened


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(T0)


@pytest.fixture
def service(clock: ManualClock) -> FifoService:
    return FifoService(clock)


@pytest.fixture
def stream(service: FifoService, clock: ManualClock) -> SqsStream:
    return fifo_stream(service, clock)


async def register(store: Store, clock: ManualClock, *names: str) -> None:
    await store.register([Registration(name, clock(), ConsumerState.LIVE, NO_GRACE) for name in names])


class TestPublish:
    """F35: the row is committed, and its event is not published."""

    @pytest.mark.parametrize("moment", list(Moment))
    async def test_a_queue_that_fails_costs_neither_the_turn_nor_its_place(
        self, store: Store, service: FifoService, stream: SqsStream, clock: ManualClock, moment: Moment
    ) -> None:
        """Both tries of the first turn fail; a second turn goes out; then the caller repeats the first by its key."""
        faults = Faults.first(2, Fault(moment, unreachable), verb="send_message")
        failing = SqsStream(faulty(service, faults), stream._queues, clock)
        settler = Settler(store, failing, clock, "web")
        first = await settler.settle(turn("c1", message("m1", 0), key="k1"))
        assert first.new
        clock.advance(timedelta(seconds=1))
        second = await settler.settle(turn("c1", message("m2", 1), key="k2"))
        again = await settler.settle(turn("c1", message("m1", 0), key="k1"))
        assert (again.new, again.event.event_id) == (False, first.event.event_id)
        assert [one.id for one in await store.messages("c1")] == ["m1", "m2"]
        engine = Engine()
        bridge = Bridge(stream, engine, ("topics",), visibility=LEASE)
        while await bridge.pump(Queue.MAIN, limit=10):
            pass
        told = [one.event.event_id for one in engine.taken if one.event is not None]
        assert second.event.event_id in told
        window = await store.window("c1", "topics")
        assert window is not None
        assert [one.id for one in window.messages] == ["m1", "m2"]
        assert window.through == second.event.occurred_at

    @pytest.mark.parametrize("moment", list(Moment))
    async def test_a_death_between_commit_and_send_is_swept_under_the_same_event(
        self, store: Store, stream: SqsStream, clock: ManualClock, moment: Moment
    ) -> None:
        await register(store, clock, "topics")
        dying = Settler(store, faulty(stream, Faults.first(1, Fault(moment, Crash), verb="publish")), clock, "web")
        with pytest.raises(Crash):
            await dying.settle(turn("c1", message("m1", 0), key="k1"))
        found = await store.conversation("c1")
        assert found is not None
        assert found.settled_at == T0
        clock.advance(timedelta(hours=1))
        ledger = Ledger(store, stream, clock, "worker")
        assert len(await ledger.sweep()) == 1
        (swept,) = await stream.receive(Queue.RETRY, limit=10, visibility=LEASE)
        assert read_event(swept.body).event_id == f"turn:c1:{int(T0.timestamp() * 1000)}"


class TestLedger:
    async def test_every_page_of_an_audit_is_read(self, store: Store, stream: SqsStream, clock: ManualClock) -> None:
        """F46: eight rows of 200 KB are two pages of DynamoDB; the one that is owed is the oldest, on the last page."""
        consumers = [f"k{number}" for number in range(7)]
        await register(store, clock, *consumers)
        for number in range(8):
            settled = await store.settle(turn(f"c{number}", message("m", number)), now=at(number), emitter="worker")
            for consumer in consumers:
                if (number, consumer) == (0, "k6"):
                    continue
                stamp = Stamp(data={"text": "x" * 30_000})
                await store.stamp(f"c{number}", consumer, stamp, through=settled.event.occurred_at, now=at(number))
        clock.set(at(3_600))
        audit = await Ledger(store, stream, clock, "worker").audit()
        assert (audit.checked, audit.owed, audit.failed) == (8, 1, 0)
        assert [(debt.conversation.id, debt.consumer) for debt in audit.debts] == [("c0", "k6")]

    async def test_daily_windows_meet_each_turn_once(self, store: Store, stream: SqsStream, clock: ManualClock) -> None:
        """F38: the 25-hour and the 23-hour day of London, in UTC whatever the host's zone."""
        ledger = Ledger(store, stream, clock, "worker")
        for begin in (datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 10, 24, tzinfo=UTC)):
            clock.set(begin)
            await register(store, clock, "topics")
            day = begin.strftime("%m-%d")
            for name, hours in (("before", 23.99), ("first", 24.5), ("second", 25.5), ("last", 47.99), ("after", 48)):
                clock.set(begin + timedelta(hours=hours))
                given = turn(f"{day}-{name}", message("m", (clock() - T0).total_seconds()))
                await store.settle(given, now=clock(), emitter="worker")
            found = []
            for number in range(3):
                since = begin + timedelta(days=number)
                part = Selection(since=since, until=since + timedelta(days=1))
                audit = await ledger.audit(part, grace=NO_GRACE)
                found.append([debt.conversation.id.removeprefix(f"{day}-") for debt in audit.debts])
            assert found == [["before"], ["last", "second", "first"], ["after"]]


async def test_a_poison_head_takes_nobody_along_on_the_emulator(
    store: Store,
    access: Access,  # noqa: F811
    session: Any,  # noqa: F811
    clock: ManualClock,
) -> None:
    """F5: ev-1 is poison, ev-2 to ev-5 are good, one batch of ten: one letter, four signalled, none received twice."""
    async with open_client("sqs", access, session) as client:
        stream = SqsStream(client, await create_queues(client), clock)
        await putter(client, stream)("c1", "poison")
        await publish(stream, "c1@2", "c1@3", "c1@4", "c1@5")
        engine = Engine()
        bridge = Bridge(stream, engine, ("topics",), visibility=LEASE)
        assert await bridge.pump(Queue.MAIN, limit=10) == 5
        assert [one.occurred_at for one in engine.taken] == [at(5)]
        depth = await stream.depth()
        assert (depth.main, depth.dead_letters) == (0, 1)
