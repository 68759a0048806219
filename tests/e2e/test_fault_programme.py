"""The fault programme, on the production path with real servers; each fault is followed by a check of every promise.

Where a fault strikes follows from the seed. What came back after it must be in order, once, and owed to nobody.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from tests.contract.reactions.temporal_servers import fast_forward
from tests.e2e.rig import (
    LANE,
    VISIBILITY,
    Journal,
    Lane,
    Reader,
    TemporalServer,
    cable,
    open_lane,
    provision,
    turn,
    until,
)
from tests.emulator import ROOT

from afterturn.aws.names import Names
from afterturn.aws.session import Access, open_client
from afterturn.bridge.bridge import Bridge
from afterturn.clock import system_clock
from afterturn.event import read_event
from afterturn.ledger.ledger import OwedState
from afterturn.model import Stamp
from afterturn.reactions.registry import ReactionContext, Registry, TurnWindow
from afterturn.reactions.temporal.protocol import reaction_id
from afterturn.settle import Settler
from afterturn.stream.port import MAX_RECEIVES, Queue
from afterturn.testing import Crash, Fault, Faults, Moment, faulty

SEED = int(os.environ.get("AFTERTURN_TEST_SEED", "20261130"))
NOW = timedelta(0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    made = TemporalServer(tmp_path_factory.mktemp("temporal"))
    made.start()
    yield made
    made.kill()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


class Work:
    """Turns of a few conversations, in an order that follows from the seed and the test's name."""

    def __init__(self, name: str, conversations: int = 3) -> None:
        self.chance = random.Random(f"{SEED} {name}")
        self.conversations = [f"{name}-{number}" for number in range(conversations)]
        self._turns = dict.fromkeys(self.conversations, 0)

    async def settle(self, lane: Lane | Settler, turns: int, only: Sequence[str] = ()) -> None:
        for _ in range(turns):
            chosen = self.chance.choice(only or self.conversations)
            self._turns[chosen] += 1
            await lane.settle(turn(chosen, self._turns[chosen]))

    def messages(self, conversation_id: str) -> list[str]:
        return [f"{conversation_id}.{number + 1}" for number in range(self._turns[conversation_id])]

    async def check(self, lane: Lane, journal: Journal, *, failed: Sequence[tuple[str, str]] = ()) -> None:
        """Everything was seen, in order; effects came once; nothing is owed, and exactly this has failed."""
        audit = await lane.ledger.audit(grace=NOW)
        assert {(reaction.consumer, reaction.conversation.id, reaction.state) for reaction in audit.reactions} == {
            (consumer, conversation, OwedState.FAILED) for consumer, conversation in failed
        }
        effects = []
        for conversation in self.conversations:
            for consumer in lane.registry.names:
                if self._turns[conversation] and (consumer, conversation) not in failed:
                    assert await lane.seen(consumer, conversation) == self.messages(conversation)
                    effects += [f"{consumer}:{conversation}:{one}" for one in self.messages(conversation)]
        assert sorted(journal.keys) == sorted(effects)


def registry_of(journal: Journal, *names: str, quiet: str = "0s") -> Registry:
    registry = Registry()
    for name in names:
        registry.add(name, Reader(journal), quiet=quiet, max_wait=quiet)
    return registry


async def test_temporal_killed_and_started_again(server: TemporalServer, access: Access, journal: Journal) -> None:
    """Timers that ran survive, settling waits for nothing, and what settles meanwhile is handled afterwards."""
    await provision(access)
    work = Work("outage")
    registry = registry_of(journal, "outage-a", "outage-b", quiet="1s")
    async with open_lane(access, server.target, registry) as lane:
        async with lane.running():
            await work.settle(lane, 4)
            await until(lane.engine.waiting)
            server.kill()
            await work.settle(lane, 4)
            await asyncio.sleep(1 + work.chance.random())
            server.start()
        left = await lane.drain()
        assert (left.streamed, left.waiting, left.dead_letters) == (0, 0, 0)
        await work.check(lane, journal)


async def test_the_queue_unreachable_for_a_while(server: TemporalServer, access: Access, journal: Journal) -> None:
    """Turns are settled all the same, and what could not be published is swept."""
    await provision(access)
    work = Work("cut")
    assert access.endpoint is not None
    async with cable(access.endpoint) as line:
        registry = registry_of(journal, "cut-a", "cut-b")
        async with open_lane(access, server.target, registry, queue_endpoint=line.endpoint) as lane:
            async with lane.running():
                await work.settle(lane, 3)
                line.cut()
                await work.settle(lane, 3)
                assert (await lane.ledger.audit(grace=NOW)).owed
                line.mend()
                await work.settle(lane, 2)
            left = await lane.drain()
            assert (left.streamed, left.waiting, left.dead_letters) == (0, 0, 0)
            await work.check(lane, journal)


async def test_the_bridge_killed_between_signal_and_acknowledgement(
    server: TemporalServer, access: Access, journal: Journal
) -> None:
    """Its records come again, the signals are repeated, and nothing else is."""
    await provision(access)
    work = Work("unacked")
    async with open_lane(access, server.target, registry_of(journal, "unacked-a", "unacked-b")) as lane:
        await work.settle(lane, 6)
        faults = Faults.first(1, Fault(Moment.BEFORE, Crash), verb="ack")
        dying = Bridge(faulty(lane.stream, faults), lane.engine, lane.registry.names, visibility=VISIBILITY)
        with pytest.raises(Crash):
            await dying.pump(Queue.MAIN, limit=10)
        assert await lane.engine.waiting()
        assert (await lane.stream.depth()).main == 6
        left = await lane.drain()
        assert (left.streamed, left.waiting, left.dead_letters) == (0, 0, 0)
        await work.check(lane, journal)


async def test_a_worker_killed_in_a_reaction(
    server: TemporalServer, access: Access, journal: Journal, tmp_path: Path
) -> None:
    """Another one takes the reaction over when the lease is up, and does not repeat its effect."""
    await provision(access)
    work = Work("killed", conversations=1)
    async with open_lane(access, server.target, registry_of(journal, "killed-a")) as lane:
        await work.settle(lane, 2)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.e2e.worker", str(access.endpoint), str(access.access_key)),
            *(server.target, "killed-a", str(tmp_path / "journal")),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        )
        assert process.stdout is not None
        said = await process.stdout.readline()
        process.kill()
        await process.wait()
        assert said == b"in the reaction\n"
        assert len(journal.keys) >= 1
        left = await lane.drain()
        assert (left.streamed, left.waiting, left.dead_letters) == (0, 0, 0)
        await work.check(lane, journal)


async def test_one_consumer_failing_for_its_first_twenty_tries(
    server: TemporalServer, access: Access, journal: Journal
) -> None:
    """The others do not wait for it; it is owed until it comes through, and nobody has to help."""
    await provision(access)
    work = Work("sick", conversations=2)
    tries = 0
    healthy = Reader(journal)

    async def sick(turns: TurnWindow, ctx: ReactionContext) -> Stamp:
        nonlocal tries
        tries += 1
        if tries <= 20:
            raise OSError("not today")
        return await healthy(turns, ctx)

    registry = registry_of(journal, "sick-a", "sick-b")
    registry.add("sick-c", sick, quiet="0s", max_wait="0s", attempts=30)
    async with open_lane(access, server.target, registry) as lane:
        async with lane.running():
            await work.settle(lane, 4)

            async def only_the_sick_one_is_behind() -> bool:
                return {reaction.consumer for reaction in (await lane.ledger.audit(grace=NOW)).reactions} == {"sick-c"}

            await until(only_the_sick_one_is_behind)
            assert tries < 20
            await work.settle(lane, 1)
            client = await lane.connection.client()
            sick_ones = [reaction_id(LANE, "sick-c", one) for one in work.conversations if work.messages(one)]
            while not await lane.owes_nothing():
                await fast_forward(client, sick_ones, timedelta(minutes=10))
                await asyncio.sleep(0.1)
        assert tries > 20
        await work.check(lane, journal)


async def test_a_reaction_that_fails_for_good_is_named_and_alone(
    server: TemporalServer, access: Access, journal: Journal
) -> None:
    await provision(access)
    work = Work("lost", conversations=2)
    registry = registry_of(journal, "lost-a")

    async def hopeless(turns: TurnWindow, ctx: ReactionContext) -> Stamp:
        raise OSError("never")

    registry.add("lost-b", hopeless, quiet="0s", max_wait="0s", attempts=1)
    async with open_lane(access, server.target, registry) as lane:
        for conversation in work.conversations:
            await work.settle(lane, 2, only=[conversation])
        await lane.drain()
        await work.check(lane, journal, failed=[("lost-b", one) for one in work.conversations])


async def test_a_poison_record_at_the_head_of_a_group_of_healthy_ones(
    server: TemporalServer, access: Access, journal: Journal
) -> None:
    """It goes to the dead letters alone and at once, and costs the others not even a receive."""
    await provision(access)
    work = Work("poison", conversations=2)
    async with open_lane(access, server.target, registry_of(journal, "poison-a", "poison-b")) as lane:
        await put(access, work.conversations[0], "{}")
        await work.settle(lane, 3, only=work.conversations[:1])
        await work.settle(lane, 3)
        async with lane.running():
            await until(lane.is_read)
            await until(lane.owes_nothing)
        letters = await lane.stream.dead_letters(limit=10)
        assert [(one.body, one.group) for one in letters] == [("{}", work.conversations[0])]
        assert "eventVersion" in letters[0].reason
        await work.check(lane, journal)


async def test_a_crash_between_commit_and_publish(server: TemporalServer, access: Access, journal: Journal) -> None:
    """The ledger knows the turn, and the sweep publishes it; also the turns behind it keep their order."""
    await provision(access)
    work = Work("unpublished")
    async with open_lane(access, server.target, registry_of(journal, "unpublished-a")) as lane:
        await work.settle(lane, work.chance.randint(1, 3))
        faults = Faults.first(1, Fault(Moment.BEFORE, Crash), verb="publish")
        dying = Settler(lane.store, faulty(lane.stream, faults), system_clock, "worker")
        with pytest.raises(Crash):
            await work.settle(dying, 1)
        left = await lane.drain()
        assert (left.streamed, left.waiting, left.dead_letters) == (0, 0, 0)
        await work.check(lane, journal)


async def test_redrive_inside_five_minutes(server: TemporalServer, access: Access, journal: Journal) -> None:
    """SQS still remembers the event's deduplication id; the redriven one gets through, late and changing no order."""
    await provision(access)
    work = Work("redriven", conversations=1)
    async with open_lane(access, server.target, registry_of(journal, "redriven-a")) as lane:
        await work.settle(lane, 1)
        for _ in range(MAX_RECEIVES):
            (delivery,) = await lane.stream.receive(Queue.MAIN, limit=10, visibility=VISIBILITY)
            await lane.stream.release([delivery.receipt], after=NOW)
        assert not await lane.stream.receive(Queue.MAIN, limit=10, visibility=VISIBILITY)
        (letter,) = await lane.stream.dead_letters(limit=10)
        assert read_event(letter.body).conversation_id == work.conversations[0]
        async with lane.running():
            await work.settle(lane, 1)
            await until(lane.owes_nothing)
            assert await lane.stream.redrive([letter.id]) == 1
            await until(lane.is_read)
        assert not await lane.stream.dead_letters(limit=10)
        await lane.drain()
        await work.check(lane, journal)


async def put(access: Access, conversation_id: str, body: str) -> None:
    """A record that no emitter of ours would write."""
    async with open_client("sqs", access) as client:
        url = (await client.get_queue_url(QueueName=Names.of(LANE).main))["QueueUrl"]
        await client.send_message(
            QueueUrl=url, MessageBody=body, MessageGroupId=conversation_id, MessageDeduplicationId="raw"
        )
