"""When reactions run: the debounce, the same on every engine."""

from __future__ import annotations

from datetime import timedelta

from tests.contract.reactions.rig import Engines, Probe, one_probe, registry_of
from tests.contract.samples import T0, at

from afterturn.reactions.port import Signal
from afterturn.reactions.registry import ReactionContext, TurnWindow


class TimingContract:
    """Quiet period, maximum wait, immediate: exact timelines."""

    async def test_steady_traffic_is_flushed_at_the_maximum_wait(self, engines: Engines) -> None:
        """F13 (i): quiet 5 s, at most 60 s, a turn every 4 s for 5 minutes. Every turn is in exactly one flush."""
        probe = Probe()
        async with engines(one_probe(probe)) as rig:
            for second in range(0, 301, 4):
                await rig.until(second)
                await rig.settle(f"m{second}")
            await rig.until(400)
            assert [at for at, _ in probe.flushes] == [*range(60, 301, 60), 305]
            assert probe.flushes[0][1] == tuple(f"m{second}" for second in range(0, 60, 4))
            seen = [message for _, messages in probe.flushes for message in messages]
            assert seen == [f"m{second}" for second in range(0, 301, 4)]

    async def test_two_turns_are_flushed_one_quiet_period_after_the_second(self, engines: Engines) -> None:
        """F13 (ii): turns at 0 and 1 only: one flush at 6, not at 10."""
        probe = Probe()
        async with engines(one_probe(probe)) as rig:
            await rig.settle("m0")
            await rig.until(1)
            await rig.settle("m1")
            await rig.until(300)
            assert probe.flushes == [(6, ("m0", "m1"))]

    async def test_immediate_flushes_what_waits_and_nothing_later(self, engines: Engines) -> None:
        """F13 (iii): a voice call ends at 2 after a text at 0: one flush at 2 with both, and no empty one at 7."""
        probe = Probe()
        async with engines(one_probe(probe)) as rig:
            await rig.settle("m0")
            await rig.until(2)
            await rig.settle("m2", immediate=True)
            await rig.until(300)
            assert probe.flushes == [(2, ("m0", "m2"))]
            assert await rig.waiting() == 0

    async def test_nothing_runs_before_its_time(self, engines: Engines) -> None:
        probe = Probe()
        async with engines(one_probe(probe)) as rig:
            await rig.settle("m0")
            await rig.until(4.999)
            assert probe.runs == []
            assert await rig.waiting() == 1
            await rig.until(5)
            assert probe.flushes == [(5, ("m0",))]
            assert await rig.waiting() == 0

    async def test_conversations_are_debounced_apart(self, engines: Engines) -> None:
        probe = Probe()
        async with engines(one_probe(probe)) as rig:
            await rig.settle("m0", "a")
            await rig.until(3)
            await rig.settle("m0", "b")
            await rig.until(60)
            assert [(run.at, run.conversation_id) for run in probe.runs] == [(5, "a"), (8, "b")]

    async def test_consumers_have_policies_of_their_own(self, engines: Engines) -> None:
        fast, slow = Probe(), Probe()
        registry = registry_of(
            fast=(fast, {"quiet": "0s", "max_wait": "0s"}), slow=(slow, {"quiet": "1m", "max_wait": "10m"})
        )
        async with engines(registry) as rig:
            await rig.settle("m0")
            await rig.until(1)
            await rig.settle("m1")
            await rig.until(600)
            assert fast.flushes == [(0, ("m0",)), (1, ("m1",))]
            assert slow.flushes == [(61, ("m0", "m1"))]

    async def test_after_a_flush_the_debounce_begins_anew(self, engines: Engines) -> None:
        probe = Probe()
        async with engines(one_probe(probe)) as rig:
            await rig.settle("m0")
            await rig.until(20)
            await rig.settle("m20")
            await rig.until(60)
            assert probe.flushes == [(5, ("m0",)), (25, ("m20",))]

    async def test_a_turn_counts_from_when_it_was_signalled(self, engines: Engines) -> None:
        """An emitter whose clock is wrong, or history, neither holds a reaction back nor hurries it."""
        probe = Probe()
        async with engines(one_probe(probe)) as rig:
            await rig.settle("old", told=T0 - timedelta(days=400))
            await rig.until(60)
            assert probe.flushes == [(5, ("old",))]

    async def test_a_turn_that_settles_during_a_run_is_in_a_following_run(self, engines: Engines) -> None:
        """And it is debounced as any other: never swallowed, never run beside the first."""
        probe = Probe()
        async with engines(one_probe(probe)) as rig:

            async def settle_once(turns: TurnWindow, _: ReactionContext) -> None:
                if len(probe.runs) == 1:
                    await rig.settle("during")

            probe.act = settle_once
            await rig.settle("m0")
            await rig.until(60)
            assert probe.flushes == [(5, ("m0",)), (10, ("during",))]
            stamp = await rig.stamp()
            assert stamp is not None
            assert (stamp.through, dict(stamp.data)) == (at(5), {"seen": 2})


class RepeatContract:
    """At least once in, once out; and memory that does not grow."""

    async def test_a_repeated_signal_changes_nothing(self, engines: Engines) -> None:
        """F17: the same turn is signalled again while it waits, while it runs, and after it ran."""
        probe = Probe()
        async with engines(one_probe(probe)) as rig:
            again = Signal("probe", "c1", T0)

            async def signal_again(_: TurnWindow, __: ReactionContext) -> None:
                await rig.signal(again)

            probe.act = signal_again
            await rig.settle("m0")
            await rig.signal(again)
            await rig.until(60)
            assert probe.flushes == [(5, ("m0",))]
            await rig.signal(again)
            await rig.until(200)
            assert len(probe.runs) == 1
            assert await rig.waiting() == 0
            stamp = await rig.stamp()
            assert stamp is not None
            assert (stamp.through, stamp.at) == (T0, at(5))

    async def test_an_older_event_behind_a_newer_one_is_harmless(self, engines: Engines) -> None:
        """What a redrive or a sweep brings: the window reaches the newest settled turn whichever event it was."""
        probe = Probe()
        async with engines(one_probe(probe)) as rig:
            first = await rig.settle("m0")
            await rig.until(2)
            second = await rig.settle("m2")
            await rig.until(30)
            await rig.signal(Signal("probe", "c1", second))
            await rig.signal(Signal("probe", "c1", first))
            await rig.until(90)
            assert probe.flushes == [(7, ("m0", "m2"))]

    async def test_a_signal_for_an_unknown_conversation_is_forgotten(self, engines: Engines) -> None:
        probe = Probe()
        async with engines(one_probe(probe)) as rig:
            await rig.signal(Signal("probe", "unknown", T0))
            await rig.until(60)
            assert probe.runs == []
            assert await rig.waiting() == 0

    async def test_a_conversation_that_never_ends_costs_no_more(self, engines: Engines) -> None:
        """Six hundred turns, a run every hundred: what the engine holds stays the same."""
        probe = Probe()
        async with engines(one_probe(probe)) as rig:
            sizes = set()
            for number in range(600):
                await rig.settle(f"m{number}")
                if number % 100 == 99:
                    sizes.add(await rig.size())
                    await rig.advance(timedelta(seconds=10))
                    sizes.add(await rig.size())
            assert len(probe.runs) == 6
            assert len(sizes) <= 2
            stamp = await rig.stamp()
            assert stamp is not None
            assert dict(stamp.data) == {"seen": 600}
