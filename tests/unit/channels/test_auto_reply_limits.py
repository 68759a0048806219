"""Two machines that answer each other are stopped on every channel; what goes beyond the cap is left to people."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from tests.unit.channels.job_runners import auto_reply
from tests.unit.channels.test_ingest import NOW, ChannelRig, mail, rig, sms

from afterturn.channels.auto_reply import RateLimit
from afterturn.channels.responder import ReplyRequest
from afterturn.channels.state import ANSWER, MAX_REPLY_TIMES, MessageDetails, ReplyHistory
from afterturn.channels.types import InboundMessage, Thread
from afterturn.ids import digest
from afterturn.jobs.runner import JobRunner
from afterturn.model import Channel, Role
from afterturn.store.invariants import MAX_VALUE_BYTES
from afterturn.store.jobs import Job
from afterturn.store.state import dump_state

__all__ = ["rig"]

THREE = RateLimit(3, timedelta(minutes=10))


async def parrot(one: ReplyRequest) -> str:
    return f"You said: {one.messages[-1].text}"


def limited_runner(rig: ChannelRig, responder: Any = parrot) -> JobRunner:
    store = rig.backbone.store
    return auto_reply(rig.backbone, store, store, rig.clock, responder=responder, limit=THREE)


def on(channel: Channel, number: int, at: Any) -> InboundMessage:
    if channel is Channel.EMAIL:
        return mail(f"m{number}", after=("m1",) if number > 1 else (), at=at)
    return sms(number, f"n{number}", channel=channel, at=at, thread=Thread("c-1"))


@pytest.mark.parametrize("channel", [Channel.SMS, Channel.TELEGRAM, Channel.WEB, Channel.EMAIL])
async def test_a_machine_that_answers_ours_is_answered_until_the_cap_and_then_left_to_people(
    rig: ChannelRig, channel: Channel, caplog: pytest.LogCaptureFixture
) -> None:
    rig.responder = parrot
    conversation = "mail:m1" if channel is Channel.EMAIL else "c-1"
    before = counted(channel)
    for number in range(1, 6):
        rig.clock.advance(timedelta(seconds=5))
        await rig.ingest.handle(on(channel, number, rig.clock()))
        await limited_runner(rig).once()
    messages = await rig.backbone.store.messages(conversation)
    assert [one.role for one in messages].count(Role.AGENT) == 3
    assert [one.role for one in messages].count(Role.CUSTOMER) == 5
    assert not await rig.backbone.store.waiting_jobs(ANSWER, limit=5)
    found = await rig.backbone.store.conversation(conversation)
    assert found is not None
    assert found.settled_at is not None
    assert found.settled_at >= rig.clock(), "what nobody answers is settled, so that reactions see it"
    assert counted(channel) - before == 2
    assert caplog.text.count("action=auto_replies_limited") == 2
    key = f"{conversation} {messages[-1].id}"
    details = await rig.backbone.store.get(MessageDetails, key)
    assert details is not None
    assert details.suppress == "loop"


async def test_when_the_time_is_over_it_is_answered_again_and_people_may_write_all_along(rig: ChannelRig) -> None:
    rig.responder = parrot
    for number in range(1, 6):
        await rig.ingest.handle(sms(number, at=NOW))
        await limited_runner(rig).once()
    rig.clock.advance(timedelta(minutes=10, seconds=1))
    await rig.ingest.handle(sms(6, "Anybody there?", at=rig.clock()))
    await limited_runner(rig).once()
    assert (await rig.texts())[-1] == "You said: Anybody there?"
    assert len(await rig.dispatched()) == 4


async def test_a_message_that_gets_no_answer_counts_for_none(rig: ChannelRig) -> None:
    async def rarely(one: ReplyRequest) -> str | None:
        return "Yes" if "?" in one.messages[-1].text else None

    rig.responder = rarely
    for number, text in enumerate(["a", "b", "c", "d", "e?"], 1):
        await rig.ingest.handle(sms(number, text, at=NOW))
        await limited_runner(rig, rarely).once()
    assert (await rig.texts())[-1] == "Yes"


async def test_one_conversation_s_answers_do_not_count_for_another(rig: ChannelRig) -> None:
    rig.responder = parrot
    for number in range(1, 9):
        await rig.ingest.handle(replace(sms(number, at=NOW), thread=Thread(f"c-{number % 4}")))
        await limited_runner(rig).once()
    assert len(await rig.dispatched()) == 8


def test_a_reply_history_stays_small_and_counts_a_repeated_reply_once() -> None:
    job = Job(kind=ANSWER, key="k", conversation_id="c", value={"message": "m"}, due_at=NOW)
    history = ReplyHistory(key="c")
    for number in range(MAX_REPLY_TIMES + 5):
        for _ in range(2):
            history = history.with_reply(job.model_copy(update={"key": f"k{number}"}), ("d",) * 50, NOW)
        assert len(history.times) == min(number + 1, MAX_REPLY_TIMES)
    assert len(dump_state(history)) < MAX_VALUE_BYTES
    assert ReplyHistory(key="c", job="other", messages=(digest("m"),)).covers(job, "m")
    own = ReplyHistory(key="c", job="k", messages=(digest("m"),))
    assert not own.covers(job, "m"), "its own reply may have to be stored still"


def counted(channel: Channel) -> float:
    return REGISTRY.get_sample_value("afterturn_auto_replies_limited_total", {"channel": channel.value}) or 0.0
