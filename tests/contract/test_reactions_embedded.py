"""The conformance suite of reaction engines on the embedded one, and what only the embedded one promises."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from tests.contract.machines import fast_folder
from tests.contract.reactions.effects import EffectContract, QuietContract
from tests.contract.reactions.embedded import LEASE, EmbeddedRig, open_rig
from tests.contract.reactions.failing import DeathContract, FailureContract, NonsenseContract
from tests.contract.reactions.rig import Engines, Probe, fail_times, one_probe, registry_of
from tests.contract.reactions.timing import RepeatContract, TimingContract
from tests.contract.samples import at

from afterturn.errors import ConfigError, StoreBusy
from afterturn.model import Stamp
from afterturn.reactions.embedded import EmbeddedWorker
from afterturn.reactions.embedded.worker import MAX_CRASHES
from afterturn.reactions.port import Signal
from afterturn.reactions.registry import ReactionContext, TurnWindow
from afterturn.reactions.state import ReactionState
from afterturn.testing import Crash, Fault, Faults, Moment, faulty


@pytest.fixture
def path() -> Iterator[Path]:
    with fast_folder() as folder:
        yield folder / "afterturn.db"


@pytest.fixture
def engines(path: Path) -> Engines:
    return partial(open_rig, path)


class TestTiming(TimingContract):
    pass


class TestRepeats(RepeatContract):
    pass


class TestFailures(FailureContract):
    pass


class TestNonsense(NonsenseContract):
    pass


class TestDeath(DeathContract):
    pass


class TestEffects(EffectContract):
    pass


class TestQuiet(QuietContract):
    pass


NOW = {"quiet": "0s", "max_wait": "0s"}


class Gate:
    """Holds runs up until it is opened; tells how many have come."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[str] = asyncio.Queue()
        self.open = asyncio.Event()

    async def __call__(self, turns: TurnWindow, _: ReactionContext) -> None:
        self.came.put_nowait(turns.conversation.id)
        await self.open.wait()


async def running(worker: EmbeddedWorker, stop: asyncio.Event) -> asyncio.Task[None]:
    return asyncio.create_task(worker.run(stop, poll=0.01))


async def until_stamped(rig: EmbeddedRig, consumer: str = "probe", conversation_id: str = "c1") -> None:
    while await rig.state(consumer, conversation_id) is not ReactionState.FRESH:  # noqa: ASYNC110 - asks a file
        await asyncio.sleep(0.005)


async def lease_end(rig: EmbeddedRig) -> str:
    return await rig.database.read(lambda c: str(c.execute("SELECT due_at FROM reactions").fetchone()[0]))


class TestLeases:
    """Several workers may share one file."""

    async def test_a_worker_that_lost_its_lease_cannot_stamp(self, path: Path) -> None:
        """It was only slow: the other one's stamp stays, and its own result is dropped whole."""
        probe, gate = Probe(), Gate()
        async with open_rig(path, one_probe(probe, **NOW)) as rig:
            await rig.register()

            async def slow(turns: TurnWindow, ctx: ReactionContext) -> Stamp:
                if len(probe.runs) == 1:
                    await gate(turns, ctx)
                return Stamp(data={"by": len(probe.runs)})

            probe.act = slow
            await rig.settle("m0")
            first = asyncio.create_task(rig.worker.run_due())
            await gate.came.get()
            rig.clock.advance(LEASE)
            assert await rig.another_worker("second").run_due() == 1
            gate.open.set()
            await first
            stamp = await rig.stamp()
            assert stamp is not None
            assert dict(stamp.data) == {"by": 2}
            assert await rig.waiting() == 0

    async def test_a_worker_that_lost_its_lease_cannot_mark_a_failure(self, path: Path) -> None:
        probe, gate = Probe(), Gate()
        async with open_rig(path, one_probe(probe, attempts=1, **NOW)) as rig:
            await rig.register()

            async def slow_and_sick(turns: TurnWindow, ctx: ReactionContext) -> None:
                if len(probe.runs) == 1:
                    await gate(turns, ctx)
                    raise ValueError

            probe.act = slow_and_sick
            await rig.settle("m0")
            first = asyncio.create_task(rig.worker.run_due())
            await gate.came.get()
            rig.clock.advance(LEASE)
            await rig.another_worker("second").run_due()
            gate.open.set()
            await first
            assert await rig.state() is ReactionState.FRESH

    async def test_nobody_takes_over_before_the_lease_ends(self, path: Path) -> None:
        probe = Probe(act=fail_times(1, Crash))
        async with open_rig(path, one_probe(probe, **NOW)) as rig:
            await rig.settle("m0")
            with pytest.raises(Crash):
                await rig.worker.run_due()
            other = rig.another_worker("second")
            rig.clock.advance(LEASE - timedelta(milliseconds=1))
            assert await other.run_due(eager=True) == 0
            rig.clock.advance(timedelta(milliseconds=1))
            assert await other.run_due() == 1

    async def test_a_living_worker_keeps_its_lease_however_long_a_run_takes(self, path: Path) -> None:
        probe, gate = Probe(), Gate()
        probe.act = gate
        async with open_rig(path, one_probe(probe, **NOW)) as rig:
            await rig.register()
            await rig.settle("m0")
            stop = asyncio.Event()
            task = await running(rig.another_worker("slow", lease=timedelta(milliseconds=30)), stop)
            await gate.came.get()
            before = await lease_end(rig)
            rig.clock.advance(timedelta(minutes=1))
            while await lease_end(rig) == before:  # noqa: ASYNC110 - asks a file
                await asyncio.sleep(0.005)
            assert await rig.another_worker("other").run_due() == 0
            gate.open.set()
            stop.set()
            await task
            assert await rig.state() is ReactionState.FRESH

    async def test_two_workers_share_the_work_and_double_none(self, path: Path) -> None:
        probe = Probe()
        async with open_rig(path, one_probe(probe, **NOW)) as rig:
            await rig.register()
            for number in range(40):
                await rig.settle("m0", f"c{number}")
            stop = asyncio.Event()
            tasks = [await running(rig.another_worker(name, slots=3), stop) for name in ("one", "two")]
            for number in range(40):
                await until_stamped(rig, conversation_id=f"c{number}")
            stop.set()
            await asyncio.gather(*tasks)
            assert sorted(run.conversation_id for run in probe.runs) == sorted(f"c{number}" for number in range(40))

    async def test_a_run_that_kills_every_worker_is_failed_in_the_end(self, path: Path) -> None:
        """Visible, and without taking one more worker down; a newer turn is tried again."""
        probe = Probe(act=fail_times(MAX_CRASHES, Crash))
        async with open_rig(path, one_probe(probe, attempts=2, **NOW)) as rig:
            await rig.register()
            await rig.settle("m0")
            await rig.advance(timedelta(hours=2))
            assert len(probe.runs) == MAX_CRASHES
            assert await rig.state() is ReactionState.FAILED
            stamp = await rig.stamp()
            assert stamp is not None
            assert stamp.error == "WorkerCrashed"
            await rig.settle("m1")
            await rig.worker.run_due()
            assert await rig.state() is ReactionState.FRESH

    async def test_a_window_that_cannot_be_read_uses_up_no_attempt(self, path: Path) -> None:
        probe = Probe()
        async with open_rig(path, one_probe(probe, attempts=2, **NOW)) as rig:
            await rig.register()
            await rig.settle("m0")
            faults = Faults.first(MAX_CRASHES + 2, Fault(Moment.BEFORE, StoreBusy), verb="window")
            rig.store = faulty(rig.store, faults)
            rig.worker = rig.another_worker("second")
            await rig.advance(timedelta(minutes=5))
            assert await rig.state() is ReactionState.FRESH
            assert [run.attempt for run in probe.runs] == [1]


class TestShutdown:
    async def test_stopping_lets_what_has_begun_finish_and_begins_nothing_new(self, path: Path) -> None:
        probe, gate = Probe(), Gate()
        probe.act = gate
        async with open_rig(path, one_probe(probe, **NOW)) as rig:
            await rig.register()
            for name in ("a", "b", "c"):
                await rig.settle("m0", name)
            stop = asyncio.Event()
            task = await running(rig.another_worker("one", slots=2), stop)
            for _ in range(2):
                await gate.came.get()
            stop.set()
            gate.open.set()
            await task
            states = [await rig.state(conversation_id=name) for name in ("a", "b", "c")]
            assert states.count(ReactionState.FRESH) == len(probe.runs) == 2
            assert await rig.waiting() == 1

    async def test_a_cancelled_worker_gives_its_claims_back(self, path: Path) -> None:
        """At once, for whoever comes next, and without using up an attempt."""
        probe, gate = Probe(), Gate()
        probe.act = gate
        async with open_rig(path, one_probe(probe, **NOW)) as rig:
            await rig.register()
            for name in ("a", "b"):
                await rig.settle("m0", name)
            task = await running(rig.another_worker("one"), asyncio.Event())
            for _ in range(2):
                await gate.came.get()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert await rig.waiting() == 2
            gate.open.set()
            assert await rig.another_worker("two").run_due() == 2
            assert [run.attempt for run in probe.runs] == [1, 1, 1, 1]

    async def test_what_settled_during_a_run_that_was_cut_off_is_not_lost(self, path: Path) -> None:
        probe, gate = Probe(), Gate()
        probe.act = gate
        async with open_rig(path, one_probe(probe, **NOW)) as rig:
            await rig.register()
            await rig.settle("m0")
            task = await running(rig.another_worker("one"), asyncio.Event())
            await gate.came.get()
            rig.clock.advance(timedelta(seconds=1))
            await rig.settle("m1")
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            gate.open.set()
            await rig.advance(timedelta(minutes=5))
            assert probe.runs[-1].messages == ("m0", "m1")
            stamp = await rig.stamp()
            assert stamp is not None
            assert stamp.through == at(1)
            assert await rig.waiting() == 0


class TestIndependence:
    async def test_a_consumer_that_hangs_delays_no_other(self, path: Path) -> None:
        """Each has slots of its own; the hanging one has filled all of its."""
        sick, well, gate = Probe(), Probe(), Gate()
        sick.act = gate
        async with open_rig(path, registry_of(sick=(sick, NOW), well=(well, NOW))) as rig:
            await rig.register()
            for number in range(10):
                await rig.settle("m0", f"c{number}")
            stop = asyncio.Event()
            task = await running(rig.another_worker("one", slots=3), stop)
            for number in range(10):
                await until_stamped(rig, "well", f"c{number}")
            assert len(sick.runs) == 3
            gate.open.set()
            for number in range(10):
                await until_stamped(rig, "sick", f"c{number}")
            stop.set()
            await task

    async def test_a_signal_wakes_a_worker_that_waits(self, path: Path) -> None:
        """Without waiting for the next poll, which is an hour away."""
        probe = Probe()
        async with open_rig(path, one_probe(probe, **NOW)) as rig:
            await rig.register()
            stop = asyncio.Event()
            task = asyncio.create_task(rig.worker.run(stop, poll=3600))
            await asyncio.sleep(0.05)
            await rig.settle("m0")
            await asyncio.wait_for(until_stamped(rig), 240)
            stop.set()
            await task

    async def test_a_crash_of_one_run_stops_nothing_else(self, path: Path) -> None:
        async def act(turns: TurnWindow, _: ReactionContext) -> None:
            if turns.conversation.id == "bad":
                raise Crash

        async with open_rig(path, one_probe(Probe(act=act), **NOW)) as rig:
            await rig.register()
            for name in ("bad", "good"):
                await rig.settle("m0", name)
            stop = asyncio.Event()
            task = await running(rig.another_worker("one"), stop)
            await until_stamped(rig, conversation_id="good")
            stop.set()
            await task
            assert await rig.state(conversation_id="bad") is ReactionState.OWED


class TestEager:
    async def test_eager_skips_quiet_periods_and_nothing_else(self, path: Path) -> None:
        """Back-offs and leases are waited for."""
        probe = Probe(act=fail_times(1))
        async with open_rig(path, one_probe(probe)) as rig:
            await rig.settle("m0")
            assert await rig.worker.run_due() == 0
            assert await rig.worker.run_due(eager=True) == 1
            assert await rig.worker.run_due(eager=True) == 0
            rig.clock.advance(timedelta(seconds=2))
            assert await rig.worker.run_due() == 1
            assert [run.attempt for run in probe.runs] == [1, 2]


class TestSignals:
    async def test_a_batch_is_taken_whole_or_not_at_all(self, path: Path) -> None:
        async with open_rig(path, one_probe(Probe())) as rig:
            with pytest.raises(ConfigError, match="stranger"):
                await rig.engine.signal([Signal("probe", "c1", at(0)), Signal("stranger", "c1", at(0))], [])
            assert await rig.waiting() == 0

    async def test_the_oldest_wait_is_told(self, path: Path) -> None:
        async with open_rig(path, one_probe(Probe())) as rig:
            assert await rig.engine.oldest() is None
            await rig.settle("m0")
            rig.clock.advance(timedelta(seconds=3))
            await rig.settle("m3", "c2")
            assert await rig.engine.oldest() == at(0)
