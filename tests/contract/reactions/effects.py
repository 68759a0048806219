"""What leaves the house, and how often: claims, pins, quiet history, shadow."""

from __future__ import annotations

from datetime import timedelta

from tests.contract.reactions.rig import Engines, Probe, one_probe
from tests.contract.samples import T0, work_order

from afterturn.model import Stamp, Urgency
from afterturn.reactions.registry import ReactionContext, TurnWindow
from afterturn.reactions.run import EffectsPolicy
from afterturn.store.port import ConsumerState
from afterturn.testing import Crash

HOUR = timedelta(hours=1)
YEAR = timedelta(days=365)


class EffectLog:
    """The world that effects reach: it keeps the idempotency keys that it was called with."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def send(self, key: str) -> None:
        self.calls.append(key)


class EffectContract:
    """An effect is done behind a claim."""

    async def test_an_effect_is_done_once(self, engines: Engines) -> None:
        """Also when its run fails afterwards and is repeated."""
        effects = EffectLog()
        done: list[bool] = []

        async def act(_: TurnWindow, ctx: ReactionContext) -> None:
            done.append(await ctx.once("alert", effects.send))
            if len(done) < 3:
                raise ValueError

        async with engines(one_probe(Probe(act=act))) as rig:
            await rig.settle("m0")
            await rig.advance(HOUR)
            assert done == [True, False, False]
            assert effects.calls == ["probe:c1:alert"]

    async def test_an_effect_that_failed_is_tried_again_with_the_same_key(self, engines: Engines) -> None:
        effects = EffectLog()

        async def flaky(key: str) -> None:
            await effects.send(key)
            if len(effects.calls) < 3:
                raise ConnectionError

        async def act(_: TurnWindow, ctx: ReactionContext) -> None:
            await ctx.once("alert", flaky)

        async with engines(one_probe(Probe(act=act))) as rig:
            await rig.settle("m0")
            await rig.advance(HOUR)
            assert effects.calls == ["probe:c1:alert"] * 3
            await rig.settle("m1")
            await rig.advance(HOUR)
            assert len(effects.calls) == 3

    async def test_a_death_between_effect_and_record_repeats_it_with_the_same_key(self, engines: Engines) -> None:
        """The receiver can tell the repeat: at least once out, once in."""
        effects = EffectLog()

        async def act(_: TurnWindow, ctx: ReactionContext) -> None:
            async def send_and_die(key: str) -> None:
                await effects.send(key)
                if len(effects.calls) == 1:
                    raise Crash

            await ctx.once("alert", send_and_die)

        async with engines(one_probe(Probe(act=act))) as rig:
            await rig.settle("m0")
            await rig.advance(HOUR)
            assert effects.calls == ["probe:c1:alert"] * 2

    async def test_keys_are_apart_by_conversation_and_by_key(self, engines: Engines) -> None:
        """Whatever characters they have."""
        effects = EffectLog()

        async def act(turns: TurnWindow, ctx: ReactionContext) -> None:
            await ctx.once({"a": "b:c", "a:b": "c", "a%3Ab": "c"}[turns.conversation.id], effects.send)

        async with engines(one_probe(Probe(act=act))) as rig:
            for name in ("a", "a:b", "a%3Ab"):
                await rig.settle("m0", name)
            await rig.advance(HOUR)
            assert len(effects.calls) == len(set(effects.calls)) == 3

    async def test_what_is_pinned_stays(self, engines: Engines) -> None:
        """A run after a crash repeats the very same effect, whatever it would decide now."""
        pinned: list[object] = []

        async def act(_: TurnWindow, ctx: ReactionContext) -> None:
            pinned.append(await ctx.pin("body", {"attempt": ctx.attempt}))
            if len(pinned) < 3:
                raise ValueError

        async with engines(one_probe(Probe(act=act))) as rig:
            await rig.settle("m0")
            await rig.advance(HOUR)
            assert pinned == [{"attempt": 1}] * 3


class QuietContract:
    """History and shadow send nothing out."""

    async def test_history_is_stamped_in_silence(self, engines: Engines) -> None:
        """A reaction whose newest turn is older than `effects_max_age` has no effects; a fresh one has."""
        effects = EffectLog()

        async def act(_: TurnWindow, ctx: ReactionContext) -> None:
            await ctx.once("alert", effects.send)

        probe = Probe(act=act)
        async with engines(one_probe(probe)) as rig:
            for name, age in (("old", YEAR), ("yesterday", timedelta(hours=23)), ("live", timedelta(0))):
                await rig.settle("m0", name, told=T0 - age)
            await rig.advance(HOUR / 2)
            quiet = {run.conversation_id: run.quiet for run in probe.runs}
            assert quiet == {"old": True, "yesterday": False, "live": False}
            assert sorted(effects.calls) == ["probe:live:alert", "probe:yesterday:alert"]
            for name in quiet:
                assert await rig.stamp(conversation_id=name) is not None

    async def test_a_live_turn_wakes_an_old_conversation(self, engines: Engines) -> None:
        """The newest turn counts; and a claim that history did not take is still free."""
        effects = EffectLog()

        async def act(_: TurnWindow, ctx: ReactionContext) -> None:
            await ctx.once("alert", effects.send)

        async with engines(one_probe(Probe(act=act))) as rig:
            await rig.settle("m0", told=T0 - YEAR)
            await rig.advance(HOUR)
            await rig.settle("m1")
            await rig.advance(HOUR)
            assert effects.calls == ["probe:c1:alert"]

    async def test_the_limit_can_be_lifted(self, engines: Engines) -> None:
        probe = Probe()
        async with engines(one_probe(probe), policy=EffectsPolicy(effects_max_age=None)) as rig:
            await rig.settle("m0", told=T0 - YEAR)
            await rig.advance(HOUR)
            assert [run.quiet for run in probe.runs] == [False]

    async def test_history_opens_work_orders_in_its_own_time(self, engines: Engines) -> None:
        """They are results, not effects: they stand in the store and wake nobody."""

        async def act(_: TurnWindow, __: ReactionContext) -> Stamp:
            return Stamp(work_orders=(work_order("w1", urgency=Urgency.URGENT),))

        async with engines(one_probe(Probe(act=act))) as rig:
            await rig.settle("m0", told=T0 - YEAR)
            await rig.advance(HOUR)
            assert [one.id for one in await rig.store.work_orders(limit=10)] == ["w1"]

    async def test_a_shadow_works_without_effects_until_it_is_promoted(self, engines: Engines) -> None:
        """Its stamps are kept apart from the start; its effects and work orders begin with the promotion."""
        effects = EffectLog()

        async def act(turns: TurnWindow, ctx: ReactionContext) -> Stamp:
            await ctx.once(turns.messages[-1].id, effects.send)
            return Stamp(data={"n": 1}, work_orders=(work_order(turns.messages[-1].id),))

        probe = Probe(act=act)
        async with engines(one_probe(probe, shadow=True)) as rig:
            await rig.register()
            assert (await rig.store.registrations())["probe"].state is ConsumerState.SHADOW
            await rig.settle("m0")
            await rig.advance(HOUR)
            stamp = await rig.stamp()
            assert stamp is not None
            assert dict(stamp.data) == {"n": 1}
            assert (effects.calls, await rig.store.work_orders(limit=10)) == ([], ())
            await rig.store.set_state("probe", ConsumerState.LIVE)
            await rig.settle("m1")
            await rig.advance(HOUR)
            assert [run.quiet for run in probe.runs] == [True, False]
            assert effects.calls == ["probe:c1:m1"]
            assert [one.id for one in await rig.store.work_orders(limit=10)] == ["m1"]
