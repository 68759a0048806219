"""The process dies at each single call of the file, before or after its effect. Then everything is as promised."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest
from tests.contract.machines import fast_folder
from tests.contract.samples import T0, at
from tests.faults.rig import LEASE, EffectLog, RecordingConsumer, Rig, open_rig, registry_of

from afterturn.bridge.bridge import ReceiveOptions
from afterturn.errors import StoreBusy, StoreError, StreamUnavailable
from afterturn.model import Turn
from afterturn.reactions.registry import Registry
from afterturn.testing import Crash, Fault, Faults, ManualClock, Moment

CONSUMERS = ("topics", "grade")
TOLD = [("c1", "m1"), ("c2", "m2"), ("c1", "m3"), ("c1", "m4"), ("c2", "m5")]
EFFECTS = {f"{name}:{conversation}:{one}" for name in CONSUMERS for conversation, one in TOLD}
THREADS = {"c1": ["m1", "m3", "m4"], "c2": ["m2", "m5"]}


def consumers(effects: EffectLog) -> Registry:
    return registry_of(*CONSUMERS, consumer=RecordingConsumer(effects))


class Caller:
    """An agent that settles turns one by one, and repeats a call whose answer it did not get."""

    def __init__(self) -> None:
        self.clock = ManualClock(T0)
        self.turns: list[Turn] = []
        self.answered = 0

    async def tell(self, rig: Rig, *, between: bool = True) -> None:
        while self.answered < len(TOLD):
            if len(self.turns) == self.answered:
                self.clock.set(at(self.answered))
                self.turns.append(rig.turn(*TOLD[self.answered]))
            await rig.settler.settle(self.turns[self.answered])
            self.answered += 1
            if between and self.answered in (2, 3):
                await rig.work()
        if between:
            await rig.work()


async def check(rig: Rig, effects: EffectLog) -> None:
    """Every turn once and in order, every reaction at the head, every effect known by one key."""
    for conversation_id, thread in THREADS.items():
        assert [one.id for one in await rig.store.messages(conversation_id)] == thread
        assert len(await rig.store.turns(conversation_id, limit=100)) == len(thread)
        found = await rig.store.conversation(conversation_id)
        assert found is not None
        for name in CONSUMERS:
            assert found.reactions[name].through == found.settled_at
            assert found.reactions[name].data == {"seen": thread}
    assert set(effects.calls) == EFFECTS
    assert len(effects.calls) <= len(EFFECTS) + len(THREADS), "each run that was cut off repeats one effect at most"
    assert (await rig.ledger.audit()).clean
    depth = await rig.stream.depth()
    assert (depth.main, depth.retry, depth.dead_letters) == (0, 0, 0)


async def live_and_die(path: Path, faults: Faults, *, one_file: bool) -> None:
    effects, caller = EffectLog(), Caller()
    with suppress(Crash), open_rig(path, consumers(effects), caller.clock, one_file=one_file, faults=faults) as rig:
        await rig.register()
        await caller.tell(rig)
    with open_rig(path, consumers(effects), caller.clock, one_file=one_file) as rig:
        await rig.register()
        await caller.tell(rig, between=False)
        await rig.drain()
        await check(rig, effects)


async def count_calls(one_file: bool) -> int:
    faults = Faults.none()
    with fast_folder() as folder:
        await live_and_die(folder / "afterturn.db", faults, one_file=one_file)
    return len(faults.calls)


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("one_file", [True, False], ids=["one file", "apart"])
async def test_after_a_death_at_any_call_nothing_is_lost_and_nothing_doubled(one_file: bool, moment: Moment) -> None:
    """And with the rooms apart, where an acknowledgement is a step of its own."""
    calls = await count_calls(one_file)
    assert calls > 40
    for call in range(calls):
        with fast_folder() as folder:
            faults = Faults.at(call, Fault(moment, Crash))
            try:
                await live_and_die(folder / "afterturn.db", faults, one_file=one_file)
            except BaseException as error:
                error.add_note(f"died at call {call} ({faults.calls[-1]}), {moment}")
                raise


@pytest.mark.parametrize("one_file", [True, False], ids=["one file", "apart"])
@pytest.mark.parametrize("seed", range(12))
async def test_a_file_that_is_busy_now_and_then_loses_nothing(path: Path, seed: int, one_file: bool) -> None:
    """One call in five fails, half of them with the effect done. Everybody does what the errors say: try again.

    What was given up on meanwhile is there for all to see, and is retried on demand.
    """
    effects, caller = EffectLog(), Caller()
    faults = Faults.seeded(seed, 0.2, lambda: StoreBusy("busy"))
    chance = random.Random(seed)
    with open_rig(path, consumers(effects), caller.clock, one_file=one_file) as rig:
        await rig.register()
    with open_rig(path, consumers(effects), caller.clock, one_file=one_file, faults=faults) as rig:
        for _ in range(60):
            with suppress(StoreError, StreamUnavailable):
                await caller.tell(rig, between=chance.random() < 0.5)
            with suppress(StoreError, StreamUnavailable):
                await rig.work()
            caller.clock.advance(LEASE)
    assert caller.answered == len(TOLD)
    with open_rig(path, consumers(effects), caller.clock, one_file=one_file) as rig:
        await rig.drain()
        for failure in await rig.store.failures(limit=100):
            await rig.engine.retry(failure.consumer, failure.conversation_id)
        await rig.drain()
        for conversation_id, thread in THREADS.items():
            assert [one.id for one in await rig.store.messages(conversation_id)] == thread
            for name in CONSUMERS:
                assert await rig.seen(name, conversation_id) == thread
        assert set(effects.calls) == {
            f"{name}:{conversation}:{one}" for name in CONSUMERS for conversation, one in TOLD
        }
        assert (await rig.ledger.audit()).clean


async def test_the_running_service_survives_a_file_that_is_busy_now_and_then(path: Path) -> None:
    """Bridge and worker loops, as `afterturn up` runs them."""
    effects, caller = EffectLog(), Caller()
    faults = Faults.seeded(7, 0.1, lambda: StoreBusy("busy"))
    with open_rig(path, consumers(effects), caller.clock) as sound:
        await sound.register()
        rig = Rig(sound.database, consumers(effects), caller.clock, faults=faults)
        stop, wake = asyncio.Event(), asyncio.Event()
        loops = [
            asyncio.create_task(rig.bridge.run(stop, wake, ReceiveOptions(batch=10), poll=0.001)),
            asyncio.create_task(rig.worker.run(stop, poll=0.001)),
        ]
        await caller.tell(sound, between=False)
        for _ in range(50):
            caller.clock.advance(LEASE)
            await asyncio.sleep(0.01)
            if all([await sound.seen("topics", name) == thread for name, thread in THREADS.items()]):
                break
        stop.set()
        await asyncio.gather(*loops)
        for failure in await sound.store.failures(limit=100):
            await sound.engine.retry(failure.consumer, failure.conversation_id)
        await sound.drain()
        assert set(effects.calls) == EFFECTS
        for name in CONSUMERS:
            assert [await sound.seen(name, one) for one in THREADS] == list(THREADS.values())
