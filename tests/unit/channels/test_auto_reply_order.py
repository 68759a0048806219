"""Conversations are answered side by side: however much is said in one, the others do not wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from tests.unit.channels.job_runners import auto_reply
from tests.unit.channels.test_adversary_auto_reply import other, running, until
from tests.unit.channels.test_ingest import ChannelRig, rig, sms
from tests.unit.channels.test_outbox import Provider

from afterturn.channels.auto_reply import CONCURRENCY, LEASE
from afterturn.channels.responder import ReplyRequest
from afterturn.channels.state import ANSWER
from afterturn.jobs.locks import Locks
from afterturn.model import Direction

__all__ = ["rig"]


@asynccontextmanager
async def released(event: asyncio.Event) -> AsyncIterator[None]:
    """Whatever happens, nobody waits for it any more."""
    try:
        yield
    finally:
        event.set()


async def test_who_goes_on_writing_while_an_agent_hangs_takes_no_place_of_others(rig: ChannelRig) -> None:
    release = asyncio.Event()

    async def answer(one: ReplyRequest) -> str:
        said = [message.text for message in one.messages if message.direction is Direction.INBOUND]
        if said[0].startswith("hang"):
            await release.wait()
        return f"For {said[-1]}"

    async def is_taken(number: int) -> bool:
        return all(
            one.attempts or one.visible_at > one.due_at
            for one in await store.waiting_jobs(ANSWER, limit=100)
            if one.key == f"sms:SM{number}"
        )

    rig.responder, store, provider = answer, rig.backbone.store, Provider()
    async with running(rig, provider) as webhooks, released(release):
        for number in range(1, CONCURRENCY + 2):
            await rig.ingest.handle(sms(number, f"hang {number}"))
            webhooks.jobs.wake()
            await until(lambda number=number: is_taken(number))
        await rig.ingest.handle(other(100, text="you"))
        webhooks.jobs.wake()
        async with asyncio.timeout(240):
            while not provider.got:  # noqa: ASYNC110 - what it waits for is sent
                await asyncio.sleep(0.01)
        assert [text for text, _ in provider.got] == ["For you"]
        release.set()
        await until(lambda: is_answered(rig))
    assert (await rig.texts())[-1] == f"For hang {CONCURRENCY + 1}"


async def is_answered(rig: ChannelRig) -> bool:
    rig.clock.advance(timedelta(seconds=1))
    return not await rig.backbone.store.waiting_jobs(ANSWER, limit=100)


async def test_who_waited_for_another_process_is_tried_again_soon_after_a_first_failure(rig: ChannelRig) -> None:
    async def fail(one: ReplyRequest) -> str:
        raise ConnectionError

    rig.responder, store = fail, rig.backbone.store
    await rig.ingest.handle(sms(1))
    leases = Locks(store, rig.clock, ANSWER)
    lease = await leases.acquire("sms:+15158226442", LEASE)
    assert lease is not None
    for _ in range(8):
        assert await rig.auto_reply.once() == 1
        rig.clock.advance(timedelta(seconds=4))
    await leases.release(lease)
    assert await auto_reply(rig.backbone, store, store, rig.clock, responder=fail).once() == 1
    [waiting] = await store.waiting_jobs(ANSWER, limit=5)
    assert waiting.visible_at - rig.clock() <= timedelta(minutes=2)
