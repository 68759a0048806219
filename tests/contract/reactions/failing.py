"""What happens when reactions fail, hang, return nonsense, or die with their worker."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from tests.contract.reactions.rig import Engines, Probe, fail_times, forever, one_probe, registry_of
from tests.contract.samples import T0, at

from afterturn.errors import LeaseLost, NotFound, StoreError
from afterturn.model import Stamp
from afterturn.reactions.port import Signal
from afterturn.reactions.registry import ReactionContext, Registry, TurnWindow
from afterturn.reactions.state import ReactionState
from afterturn.testing import Crash

HOUR = timedelta(hours=1)


class FailureContract:
    """Retries with backoff, then failed: visible, and retried on demand. Never silently dropped."""

    async def test_a_failed_run_is_retried_with_growing_pauses(self, engines: Engines) -> None:
        probe = Probe(act=fail_times(4))
        async with engines(one_probe(probe)) as rig:
            await rig.register()
            await rig.settle("m0")
            await rig.advance(HOUR)
            assert [run.attempt for run in probe.runs] == [1, 2, 3, 4, 5]
            assert {run.messages for run in probe.runs} == {("m0",)}
            pauses = [later.at - earlier.at for earlier, later in pairwise(probe.runs)]
            for number, pause in enumerate(pauses):
                assert 2**number <= pause <= 2 ** (number + 1)
            assert await rig.state() is ReactionState.FRESH
            assert await rig.store.failures(limit=10) == ()

    async def test_after_the_last_attempt_it_has_failed_for_all_to_see(self, engines: Engines) -> None:
        """The error is told by its kind; its text could hold content."""
        probe = Probe(act=fail_times(99))
        async with engines(one_probe(probe, attempts=3)) as rig:
            await rig.register()
            settled = await rig.settle("m0")
            await rig.advance(HOUR)
            assert len(probe.runs) == 3
            assert await rig.state() is ReactionState.FAILED
            (failure,) = await rig.store.failures(limit=10)
            assert (failure.consumer, failure.failed_through, failure.error) == ("probe", settled, "ValueError")
            assert await rig.waiting() == 0

    async def test_a_repeated_signal_does_not_revive_what_has_failed(self, engines: Engines) -> None:
        probe = Probe(act=fail_times(99))
        async with engines(one_probe(probe, attempts=2)) as rig:
            await rig.register()
            settled = await rig.settle("m0")
            await rig.advance(HOUR)
            await rig.signal(Signal("probe", "c1", settled, immediate=True))
            await rig.advance(HOUR)
            assert len(probe.runs) == 2
            assert await rig.state() is ReactionState.FAILED

    async def test_a_newer_turn_gets_attempts_of_its_own(self, engines: Engines) -> None:
        """And its run sees what failed before."""
        probe = Probe(act=fail_times(3))
        async with engines(one_probe(probe, attempts=2)) as rig:
            await rig.register()
            await rig.settle("m0")
            await rig.advance(HOUR)
            assert await rig.state() is ReactionState.FAILED
            await rig.settle("m1")
            assert await rig.state() is ReactionState.OWED
            await rig.advance(HOUR)
            assert [(run.messages, run.attempt) for run in probe.runs] == [
                (("m0",), 1),
                (("m0",), 2),
                (("m0", "m1"), 1),
                (("m0", "m1"), 2),
            ]
            assert await rig.state() is ReactionState.FRESH
            assert await rig.store.failures(limit=10) == ()

    async def test_a_turn_that_settles_during_the_last_attempt_gets_attempts_of_its_own(self, engines: Engines) -> None:
        probe = Probe()
        async with engines(one_probe(probe, attempts=2)) as rig:
            await rig.register()

            async def act(_: TurnWindow, __: ReactionContext) -> None:
                if len(probe.runs) == 2:
                    await rig.settle("during")
                if len(probe.runs) <= 2:
                    raise ValueError

            probe.act = act
            await rig.settle("m0")
            await rig.advance(HOUR)
            assert [run.attempt for run in probe.runs] == [1, 2, 1]
            assert probe.runs[-1].messages == ("m0", "during")
            assert await rig.state() is ReactionState.FRESH

    async def test_a_failed_reaction_is_retried_on_demand(self, engines: Engines) -> None:
        """At once, with fresh attempts."""
        probe = Probe(act=fail_times(3))
        async with engines(one_probe(probe, attempts=2)) as rig:
            await rig.register()
            await rig.settle("m0")
            await rig.until(100)
            await rig.retry("probe", "c1")
            assert await rig.state() is ReactionState.OWED
            await rig.advance(timedelta(0))
            assert [(run.at >= 100, run.attempt) for run in probe.runs][2:] == [(True, 1)]
            await rig.advance(HOUR)
            assert [run.attempt for run in probe.runs] == [1, 2, 1, 2]
            assert await rig.state() is ReactionState.FRESH

    async def test_what_is_asked_for_again_gets_attempts_of_its_own(self, engines: Engines) -> None:
        """A replay takes the failure off the ledger and signals the same turn: it must not stay owed for ever."""
        probe = Probe(act=fail_times(3))
        async with engines(one_probe(probe, attempts=2)) as rig:
            await rig.register()
            settled = await rig.settle("m0")
            await rig.advance(HOUR)
            await rig.store.request("c1", ["probe"], now=rig.clock())
            assert await rig.state() is ReactionState.OWED
            await rig.signal(Signal("probe", "c1", settled))
            await rig.advance(HOUR)
            assert [run.attempt for run in probe.runs] == [1, 2, 1, 2]
            assert await rig.state() is ReactionState.FRESH

    async def test_only_what_has_failed_is_retried_on_demand(self, engines: Engines) -> None:
        async with engines(one_probe(Probe())) as rig:
            await rig.settle("m0")
            for conversation_id in ("c1", "unknown"):
                with pytest.raises(NotFound):
                    await rig.retry("probe", conversation_id)

    async def test_a_turn_during_a_backoff_does_not_hurry_it(self, engines: Engines) -> None:
        """A failing consumer is not hammered by a busy conversation."""
        probe = Probe(act=fail_times(2))
        async with engines(one_probe(probe, quiet="0s", max_wait="0s")) as rig:
            await rig.settle("m0")
            await rig.advance(timedelta(0))
            for tenth in range(1, 100):
                await rig.until(tenth / 10)
                await rig.settle(f"m{tenth}")
            await rig.advance(HOUR)
            first, second, third = (run.at for run in probe.runs[:3])
            assert second - first >= 1
            assert third - second >= 2
            assert probe.runs[1].attempt == 2


class NonsenseContract:
    """Whatever a consumer does, it fails as any other failure does, and harms nobody else."""

    @pytest.mark.parametrize(
        "returned",
        [{"topics": []}, "stamp", 5, Stamp, [Stamp()], Stamp(data={"long": "x" * 40_000})],
        ids=["dict", "text", "number", "class", "list", "oversized"],
    )
    async def test_what_is_no_stamp_is_a_failure(self, engines: Engines, returned: Any) -> None:
        async def act(_: TurnWindow, __: ReactionContext) -> Any:
            return returned

        async with engines(one_probe(Probe(act=act), attempts=2)) as rig:
            await rig.register()
            await rig.settle("m0")
            await rig.advance(HOUR)
            (failure,) = await rig.store.failures(limit=10)
            assert failure.error == "ConfigError"

    async def test_none_is_no_stamp(self, engines: Engines) -> None:
        async def forgets(_: TurnWindow, __: ReactionContext) -> Any:
            return None

        registry = Registry()
        registry.add("probe", forgets, attempts=1)
        async with engines(registry) as rig:
            await rig.register()
            await rig.settle("m0")
            await rig.advance(HOUR)
            assert await rig.state() is ReactionState.FAILED

    @pytest.mark.parametrize(
        "data", [{"text": "\ud83d"}, {"n": [{"deep": ["\ud83d"]}]}, {"n": float("nan")}, {"n": [float("-inf")]}]
    )
    async def test_a_stamp_that_cannot_be_stored_is_a_failure(self, engines: Engines, data: dict[str, Any]) -> None:
        """F19: a model cut a text in the middle of an emoji, or a mean of nothing was taken."""

        async def act(_: TurnWindow, __: ReactionContext) -> Stamp:
            return Stamp(data=data)

        async with engines(one_probe(Probe(act=act), attempts=2)) as rig:
            await rig.register()
            await rig.settle("m0")
            await rig.advance(HOUR)
            assert await rig.state() is ReactionState.FAILED

    @pytest.mark.parametrize(
        "error",
        [asyncio.CancelledError, TimeoutError, LeaseLost, StoreError, StopAsyncIteration, RecursionError, MemoryError],
    )
    async def test_whatever_is_raised_is_a_failure(self, engines: Engines, error: type[BaseException]) -> None:
        """Also what the engine itself might raise, or asyncio."""
        probe = Probe(act=fail_times(99, error))
        async with engines(one_probe(probe, attempts=2)) as rig:
            await rig.register()
            await rig.settle("m0")
            await rig.advance(HOUR)
            assert len(probe.runs) == 2
            assert await rig.state() is ReactionState.FAILED

    async def test_a_run_that_takes_too_long_is_cut_off(self, engines: Engines) -> None:
        probe = Probe(act=forever)
        async with engines(one_probe(probe, attempts=2, timeout="20ms")) as rig:
            await rig.register()
            await rig.settle("m0")
            await rig.advance(HOUR)
            assert len(probe.runs) == 2
            (failure,) = await rig.store.failures(limit=10)
            assert failure.error == "TimeoutError"

    async def test_a_failing_consumer_disturbs_no_other(self, engines: Engines) -> None:
        sick, well = Probe(act=fail_times(99)), Probe()
        policy = {"quiet": "5s", "max_wait": "60s"}
        async with engines(registry_of(sick=(sick, policy), well=(well, policy))) as rig:
            await rig.register()
            await rig.settle("m0")
            await rig.advance(HOUR)
            assert well.flushes == [(5, ("m0",))]
            assert await rig.state("well") is ReactionState.FRESH
            assert await rig.state("sick") is ReactionState.FAILED

    async def test_a_failing_conversation_disturbs_no_other(self, engines: Engines) -> None:
        async def act(turns: TurnWindow, _: ReactionContext) -> None:
            if turns.conversation.id == "bad":
                raise ValueError

        probe = Probe(act=act)
        async with engines(one_probe(probe)) as rig:
            await rig.register()
            for name in ("bad", "good"):
                await rig.settle("m0", name)
            await rig.advance(HOUR)
            assert await rig.state(conversation_id="good") is ReactionState.FRESH
            assert await rig.state(conversation_id="bad") is ReactionState.FAILED


class DeathContract:
    """A worker that dies in the middle of a run."""

    async def test_a_run_that_dies_with_its_worker_is_run_again(self, engines: Engines) -> None:
        """At least once, and no later than the lease of the dead worker ends."""
        probe = Probe(act=fail_times(1, Crash))
        async with engines(one_probe(probe)) as rig:
            await rig.register()
            await rig.settle("m0")
            await rig.until(5)
            assert len(probe.runs) == 1
            assert await rig.state() is ReactionState.OWED
            await rig.advance(rig.lease)
            assert probe.runs[1].messages == ("m0",)
            assert await rig.state() is ReactionState.FRESH

    async def test_a_turn_that_settles_after_the_death_is_not_lost(self, engines: Engines) -> None:
        probe = Probe(act=fail_times(1, Crash))
        async with engines(one_probe(probe)) as rig:
            await rig.register()
            await rig.settle("m0")
            await rig.until(6)
            await rig.settle("m6")
            await rig.advance(HOUR)
            stamp = await rig.stamp()
            assert stamp is not None
            assert (stamp.through, dict(stamp.data)) == (at(6), {"seen": 2})
            assert await rig.waiting() == 0

    async def test_stamps_never_move_back(self, engines: Engines) -> None:
        """A stamp that another run has overtaken is not written."""
        probe = Probe()
        async with engines(one_probe(probe)) as rig:

            async def overtake(turns: TurnWindow, _: ReactionContext) -> None:
                await rig.store.stamp("c1", "probe", Stamp(data={"by": "other"}), through=at(99), now=at(99))

            probe.act = overtake
            await rig.settle("m0")
            await rig.until(60)
            stamp = await rig.stamp()
            assert stamp is not None
            assert (stamp.through, dict(stamp.data)) == (at(99), {"by": "other"})
            assert at(99) > T0
