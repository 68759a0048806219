"""One run of a consumer, and how long to wait after a bad one."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any, cast

import pytest
from tests.contract.reactions.rig import Act, Probe, forever, one_probe
from tests.contract.samples import T0, at, message, work_order

from afterturn.errors import ConfigError
from afterturn.model import Conversation, Stamp, StoredStamp
from afterturn.reactions.registry import Claims, ReactionContext, TurnWindow
from afterturn.reactions.run import MAX_STAMP_BYTES, EffectsPolicy, report_failure, retry_delay, run_consumer
from afterturn.store.port import ReactionWindow

PREVIOUS = StoredStamp(through=at(-60), data={"seen": 4})
WINDOW = ReactionWindow(
    conversation=Conversation(id="c1", channel="sms", created_at=T0, settled_at=T0, reactions={"probe": PREVIOUS}),
    messages=(message("m1"),),
    through=T0,
)


async def run(act: Act | None, *, shadow: bool = False, now: float = 0, **policy: Any) -> tuple[Stamp, Probe]:
    probe = Probe(act=act)
    (consumer,) = one_probe(probe, **policy)
    stamp = await run_consumer(
        consumer,
        WINDOW,
        claims=cast("Claims", None),
        policy=EffectsPolicy(),
        now=at(now),
        attempt=2,
        shadow=shadow,
    )
    return stamp, probe


async def test_a_consumer_sees_its_window_and_its_own_last_stamp() -> None:
    seen: list[tuple[TurnWindow, ReactionContext]] = []

    async def act(turns: TurnWindow, ctx: ReactionContext) -> None:
        seen.append((turns, ctx))

    stamp, _ = await run(act)
    ((turns, ctx),) = seen
    assert (turns.messages, turns.through, turns.previous) == (WINDOW.messages, T0, PREVIOUS)
    assert (ctx.consumer, ctx.conversation_id, ctx.attempt, ctx.now, ctx.quiet) == ("probe", "c1", 2, T0, False)
    assert stamp == Stamp(data={"seen": 5})


@pytest.mark.parametrize(("hours", "quiet"), [(0, False), (24, False), (24.001, True), (-1, False)])
async def test_a_run_is_quiet_when_its_newest_turn_is_old(hours: float, quiet: bool) -> None:
    _, probe = await run(None, now=hours * 3600)
    assert probe.runs[0].quiet is quiet


def test_without_a_limit_nothing_is_quiet() -> None:
    assert not EffectsPolicy(effects_max_age=None).quiet(T0, at(10**9))


async def test_a_shadow_run_is_quiet_and_opens_no_work_orders() -> None:
    async def act(_: TurnWindow, ctx: ReactionContext) -> Stamp:
        assert ctx.quiet
        return Stamp(data={"n": 1}, work_orders=(work_order("w1"),))

    assert (await run(act, shadow=True))[0] == Stamp(data={"n": 1})
    with pytest.raises(AssertionError):
        await run(act)


async def test_a_stamp_fits_its_conversation() -> None:
    """Counted in UTF-8, as it is stored."""

    def stamping(text: str) -> Act:
        async def act(_: TurnWindow, __: ReactionContext) -> Stamp:
            return Stamp(data={"text": text})

        return act

    overhead = len('{"text": ""}')
    await run(stamping("x" * (MAX_STAMP_BYTES - overhead)))
    await run(stamping("é" * ((MAX_STAMP_BYTES - overhead) // 2)))
    for text in ("x" * (MAX_STAMP_BYTES - overhead + 1), "é" * (MAX_STAMP_BYTES // 2)):
        with pytest.raises(ConfigError, match="32000"):
            await run(stamping(text))


async def test_a_run_ends_at_its_timeout() -> None:
    with pytest.raises(TimeoutError):
        await run(forever, timeout="5ms")


async def test_a_run_that_is_cancelled_says_so() -> None:
    task = asyncio.create_task(run(forever))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_consumer_that_cancels_itself_has_failed() -> None:
    """Its CancelledError must not look like the shutdown of the worker."""

    async def act(_: TurnWindow, __: ReactionContext) -> None:
        raise asyncio.CancelledError

    with pytest.raises(ConfigError, match="'probe' ended in CancelledError"):
        await run(act)


@pytest.mark.parametrize(
    ("last", "action", "level"), [(False, "reaction_retried", "WARNING"), (True, "reaction_failed", "ERROR")]
)
def test_a_failed_run_is_logged_once_without_the_text_of_its_error(
    caplog: pytest.LogCaptureFixture, last: bool, action: str, level: str
) -> None:
    report_failure("probe", "c1", 2, ValueError("my door code is 1234"), last=last)
    (record,) = caplog.records
    line = record.getMessage()
    assert line.startswith(f"action={action} consumer=probe conversation_id=c1 attempt=2 error=ValueError")
    assert record.levelname == level
    assert "1234" not in line


def test_pauses_double_up_to_ten_minutes_and_half_of_each_is_chance() -> None:
    chance = random.Random(3)
    for attempt in range(1, 2_000):
        longest = min(2.0 * 2 ** min(attempt - 1, 20), 600)
        pause = retry_delay(attempt, chance).total_seconds()
        assert longest / 2 <= pause <= longest
    pauses = {retry_delay(5, chance) for _ in range(50)}
    assert len(pauses) > 40
    assert max(pauses) - min(pauses) > timedelta(seconds=8)
