"""Two processes that answer on one store: whoever asks about a conversation is the only one.

Each has a connection of its own; a process that is killed never gives back what it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from tests.contract.samples import T0
from tests.contract.store.factory import StoreFactory
from tests.unit.channels.channel_rig import sms
from tests.unit.channels.job_runners import auto_reply, combined, outbox

from afterturn.bootstrap.channels import Channels
from afterturn.channels.auto_reply import LEASE
from afterturn.channels.ingest import Ingest
from afterturn.channels.responder import ReplyRequest
from afterturn.channels.sending import OutboundMessage, Sender
from afterturn.channels.state import REPLY
from afterturn.channels.webhooks import WebhookRouter
from afterturn.event import TurnSettled
from afterturn.jobs.locks import Locks
from afterturn.model import Direction
from afterturn.settle import Settler
from afterturn.store.port import Store
from afterturn.testing import ManualClock

NOW = T0 + timedelta(days=200)
CONVERSATION = "sms:+15158226442"


class NullPublisher:
    """A stream that nobody reads."""

    async def publish(self, event: TurnSettled, *, consumer: str | None = None, emission: str | None = None) -> None:
        pass


class Process:
    """One of two on a store. ``hold``: what its agent waits for before it answers."""

    def __init__(self, store: Store, clock: ManualClock, said: list[list[str]]) -> None:
        self.store = store
        self.clock = clock
        self.said = said
        self.hold: asyncio.Event | None = None
        self.asked = asyncio.Event()
        writer = Settler(store, NullPublisher(), clock, "worker")
        self.ingest = Ingest(writer, store, clock, auto_reply=True)
        self.auto_reply = auto_reply(writer, store, store, clock, responder=self._answer)

    async def _answer(self, one: ReplyRequest) -> str:
        self.said.append([message.text for message in one.messages])
        number = len(self.said)
        self.asked.set()
        if self.hold is not None:
            await self.hold.wait()
        return f"Answer {number}"

    def webhooks(self) -> Channels:
        """Jobs only, without webhooks."""
        return Channels(
            WebhookRouter(self.ingest, self.clock, {}),
            combined(self.auto_reply, outbox(self.store, self.clock, _nobody)),
        )

    async def texts(self) -> list[str]:
        return [one.text for one in await self.store.messages(CONVERSATION)]

    async def answers(self) -> int:
        return sum(one.direction is Direction.OUTBOUND for one in await self.store.messages(CONVERSATION))

    async def until_done(self) -> None:
        for _ in range(10):
            self.clock.advance(timedelta(seconds=5))
            await self.auto_reply.once()
        assert not await self.store.waiting_jobs(REPLY, limit=5)


def _nobody(message: OutboundMessage) -> Sender | None:
    return None


@asynccontextmanager
async def two(factory: StoreFactory) -> AsyncIterator[tuple[Process, Process]]:
    clock, said = ManualClock(NOW), list[list[str]]()
    async with factory.open() as one, factory.open() as other:
        yield Process(one, clock, said), Process(other, clock, said)


class AskingContract:
    @pytest.fixture
    async def processes(self, factory: StoreFactory) -> AsyncIterator[tuple[Process, Process]]:
        async with two(factory) as pair:
            yield pair

    async def test_two_quick_messages_that_two_processes_take_are_answered_once(
        self, processes: tuple[Process, Process]
    ) -> None:
        one, other = processes
        for number in (1, 2):
            await one.ingest.handle(sms(number, f"part {number}", at=NOW))
        first, second = await one.auto_reply.lease(limit=1), await other.auto_reply.lease(limit=1)
        await asyncio.gather(one.auto_reply.do(first[0]), other.auto_reply.do(second[0]))
        await other.until_done()
        assert one.said == [["part 1", "part 2"]]
        assert await one.texts() == ["part 1", "part 2", "Answer 1"]

    async def test_what_comes_while_another_process_asks_waits_for_that_answer(
        self, processes: tuple[Process, Process]
    ) -> None:
        one, other = processes
        one.hold = asyncio.Event()
        await one.ingest.handle(sms(1, "one", at=NOW))
        asking = asyncio.create_task(one.auto_reply.once())
        await one.asked.wait()
        one.clock.advance(timedelta(seconds=1))
        await other.ingest.handle(sms(2, "two", at=one.clock()))
        assert await other.auto_reply.once() == 1
        assert one.said == [["one"]]
        one.hold.set()
        await asking
        await other.until_done()
        assert one.said[1:] == [["one", "two", "Answer 1"]]
        assert await one.answers() == 2

    async def test_two_funnels_that_run_give_each_message_one_answer_and_one_after_the_other(
        self, processes: tuple[Process, Process]
    ) -> None:
        clock, said, stop = processes[0].clock, processes[0].said, asyncio.Event()
        funnels = [each.webhooks() for each in processes]
        async with asyncio.timeout(240), asyncio.TaskGroup() as group:
            for webhooks in funnels:
                group.create_task(webhooks.jobs.run(stop, poll=0.02))
            for number in range(8):
                clock.advance(timedelta(milliseconds=300))
                await processes[number % 2].ingest.handle(sms(number, f"m{number}", at=clock()))
                funnels[number % 2].jobs.wake()
                await asyncio.sleep(0.01)
            while await processes[0].store.waiting_jobs(REPLY, limit=1):
                clock.advance(timedelta(milliseconds=200))
                await asyncio.sleep(0.02)
            stop.set()
        seen = [[text for text in each if text.startswith("m")] for each in said]
        assert seen[-1] == [f"m{number}" for number in range(8)]
        assert all(before == after[: len(before)] and before != after for before, after in pairwise(seen))
        for number, each in enumerate(said):
            assert [text for text in each if text.startswith("A")] == [f"Answer {one + 1}" for one in range(number)]

    async def test_a_process_that_is_killed_while_it_asks_is_waited_for_no_longer_than_its_lease(
        self, processes: tuple[Process, Process]
    ) -> None:
        one, other = processes
        assert await Locks(one.store, one.clock, REPLY).acquire(CONVERSATION, LEASE) is not None
        await other.ingest.handle(sms(1, "one", at=NOW))
        await other.auto_reply.once()
        one.clock.advance(LEASE - timedelta(seconds=1))
        await other.auto_reply.once()
        assert other.said == []
        await other.until_done()
        assert await other.texts() == ["one", "Answer 1"]

    async def test_one_of_many_who_want_it_gets_it_and_whoever_comes_too_late_takes_nothing_away(
        self, processes: tuple[Process, Process]
    ) -> None:
        one, other = processes
        span = timedelta(seconds=30)
        held: list[Any] = [Locks(each.store, one.clock, "any") for each in (one, other) for _ in range(3)]
        for _ in range(3):
            got = await asyncio.gather(*(each.acquire("c", span) for each in held))
            winner, *more = [(each, lease) for each, lease in zip(held, got, strict=True) if lease is not None]
            assert not more
            assert await held[0].acquire("c", span) is None
            one.clock.advance(span + timedelta(seconds=1))
            [later] = [lease for lease in [await held[0].acquire("c", span)] if lease is not None]
            await winner[0].release(winner[1])
            assert await held[-1].acquire("c", span) is None
            await held[0].release(later)
            await held[0].release(later)
