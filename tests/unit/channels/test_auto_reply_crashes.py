"""A message is answered although a process dies, whatever was written meanwhile."""

from __future__ import annotations

from datetime import timedelta

from tests.unit.channels.job_runners import auto_reply
from tests.unit.channels.test_ingest import ChannelRig, rig, sms

from afterturn.channels.auto_reply import LEASE, AutoReply, RateLimit
from afterturn.channels.responder import ReplyRequest
from afterturn.channels.state import ANSWER
from afterturn.errors import StoreError
from afterturn.jobs.runner import JobBatch, JobRunner
from afterturn.store.jobs import LeasedJob

__all__ = ["rig"]


async def parrot(one: ReplyRequest) -> str:
    return f"You said: {one.messages[-1].text}"


class Full:
    """A store that is out when answers are settled."""

    async def settle(self, *given: object, **more: object) -> object:
        raise StoreError("the disk is full")


async def test_an_answer_whose_settling_failed_does_not_count_against_itself(rig: ChannelRig) -> None:
    rig.responder, store = parrot, rig.backbone.store
    await rig.ingest.handle(sms(1, "one"))
    one_only = {"responder": parrot, "limit": RateLimit(1, timedelta(hours=1))}
    await auto_reply(Full(), store, store, rig.clock, **one_only).once()
    rig.clock.advance(2 * LEASE)
    await auto_reply(rig.backbone, store, store, rig.clock, **one_only).once()
    assert await rig.texts() == ["one", "You said: one"]


async def test_answers_that_were_given_while_a_clock_was_ahead_stop_none(rig: ChannelRig) -> None:
    async def answer(one: ReplyRequest) -> str:
        return f"I heard {len(one.messages)}"

    rig.responder, store = answer, rig.backbone.store
    day = timedelta(days=1)
    runner = auto_reply(rig.backbone, store, store, rig.clock, responder=answer, limit=RateLimit(1, timedelta(hours=1)))
    rig.clock.advance(30 * day)
    await rig.ingest.handle(sms(1, "one"))
    await runner.once()
    rig.clock.advance(-29 * day)
    await rig.ingest.handle(sms(2, "two"))
    await runner.once()
    assert sorted(await rig.texts()) == ["I heard 1", "I heard 3", "one", "two"]


class Dies(JobRunner):
    """Like a process that is killed when its answer is settled: no job is completed."""

    async def _complete(self, job: LeasedJob) -> None:
        return None


async def test_what_is_written_before_the_job_of_an_answered_message_comes_again_is_answered(rig: ChannelRig) -> None:
    rig.responder, store = parrot, rig.backbone.store
    await rig.ingest.handle(sms(1, "one"))
    replies = AutoReply(rig.backbone, store, store, rig.clock, responder=parrot)
    await Dies(store, rig.clock, replies.handlers).once()
    assert await rig.texts() == ["one", "You said: one"]
    rig.clock.advance(timedelta(seconds=1))
    await rig.ingest.handle(sms(2, "two"))
    await rig.ingest.handle(sms(3, "three"))
    rig.clock.advance(2 * LEASE)
    await rig.auto_reply.once()
    assert await rig.texts() == ["one", "You said: one", "two", "three", "You said: three"]
    turns = await store.turns("sms:+15158226442", limit=10)
    assert len(turns) == 2, "and what was asked is settled with its answer"
    assert not await store.waiting_jobs(ANSWER, limit=10)


async def test_what_is_written_while_an_answered_message_waits_for_another_process_is_answered(rig: ChannelRig) -> None:
    """The second message was in sight of the answer to the first one, and waits until that is known."""
    rig.responder, store = parrot, rig.backbone.store
    other = rig.auto_reply
    waiting: list[JobBatch] = []

    async def slow(one: ReplyRequest) -> str:
        for each in waiting:
            await other.do(each)
        return await parrot(one)

    await rig.ingest.handle(sms(1, "one"))
    this = auto_reply(rig.backbone, store, store, rig.clock, responder=slow)
    [first] = await this.lease(limit=5)
    await rig.ingest.handle(sms(2, "two"))
    waiting += await other.lease(limit=5)
    await this.do(first)
    assert await rig.texts() == ["one", "two", "You said: two"]
    await rig.ingest.handle(sms(3, "three"))
    rig.clock.advance(timedelta(seconds=2))
    await other.once()
    assert await rig.texts() == ["one", "two", "You said: two", "three", "You said: three"]
    assert not await store.waiting_jobs(ANSWER, limit=10)
