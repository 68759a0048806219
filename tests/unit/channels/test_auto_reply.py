"""Automatic replies: each message is answered once, whoever hangs, fails or dies; replies to machines are limited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from tests.unit.channels.channel_rig import NOW, THEIRS, ChannelRig, mail, sms, telegram, words
from tests.unit.channels.job_runners import auto_reply, combined, outbox
from tests.unit.channels.test_outbox import Provider, taken

from afterturn.bootstrap.channels import Channels
from afterturn.channels.auto_reply import CONCURRENCY, LEASE, AutoReply, RateLimit
from afterturn.channels.outbox import reply_jobs
from afterturn.channels.responder import ReplyRequest
from afterturn.channels.sending import OutboundMessage, SendReceipt
from afterturn.channels.state import (
    MAX_REPLY_TIMES,
    REPLY,
    MessageDetails,
    ReplyHistory,
)
from afterturn.channels.types import (
    InboundMessage,
    MessageEdited,
    SuppressReason,
    Thread,
)
from afterturn.channels.webhooks import WebhookRouter
from afterturn.errors import StoreError
from afterturn.ids import digest
from afterturn.jobs.locks import Locks
from afterturn.jobs.runner import JobBatch, JobRunner
from afterturn.model import MAX_TEXT_BYTES, Channel, Direction, Message, Role, Turn
from afterturn.store.invariants import MAX_VALUE_BYTES
from afterturn.store.jobs import Job, LeasedJob
from afterturn.store.state import dump_state


async def test_an_answer_is_settled_with_what_it_answers_and_waits_to_be_sent(rig: ChannelRig) -> None:
    asked: list[ReplyRequest] = []

    async def answer(one: ReplyRequest) -> str:
        asked.append(one)
        return "We are on it."

    rig.responder = answer
    assert (await rig.ingest.handle(sms(1))).outcome == "saved"
    assert await rig.turns() == 0
    assert await rig.auto_reply.once() == 1
    assert await rig.texts() == ["Hello", "We are on it."]
    assert (await rig.turns(), len(asked), asked[0].recipient) == (1, 1, THEIRS)
    [waiting] = await rig.dispatched()
    assert waiting["automatic"] is True
    await rig.ingest.handle(sms(1))
    assert await rig.auto_reply.once() == 0
    assert await rig.turns() == 1


async def test_what_comes_together_is_answered_once(rig: ChannelRig) -> None:
    rig.responder = words("Both.")
    await rig.ingest.handle(sms(1))
    await rig.ingest.handle(sms(2, "And the heating"))
    await rig.auto_reply.once()
    assert await rig.texts() == ["Hello", "And the heating", "Both."]
    assert await rig.auto_reply.once() == 0


@pytest.mark.parametrize("hush", list(SuppressReason))
async def test_what_a_machine_must_not_answer_is_stored_and_left_to_people(
    rig: ChannelRig, hush: SuppressReason
) -> None:
    """F16."""
    rig.responder = words("No!")
    assert (await rig.ingest.handle(sms(1, suppress=hush))).outcome == "settled"
    assert await rig.auto_reply.once() == 0
    assert await rig.texts() == ["Hello"]


async def test_after_stop_no_machine_answers_until_start(rig: ChannelRig) -> None:
    rig.responder = words("Hi")
    await rig.ingest.handle(sms(1, "STOP", suppress=SuppressReason.OPT_OUT, extra={"opt": "out"}))
    await rig.ingest.handle(sms(2, "Are you there?"))
    await rig.auto_reply.once()
    assert (await rig.texts(), await rig.turns()) == (["STOP", "Are you there?"], 2)
    await rig.ingest.handle(sms(3, "START", extra={"opt": "in"}))
    opt_out = await rig.backbone.store.opt_out(Channel.SMS, THEIRS)
    assert opt_out is not None
    assert not opt_out.opted_out
    await rig.auto_reply.once()
    assert await rig.texts() == ["STOP", "Are you there?", "START", "Hi"]


async def test_a_responder_that_fails_is_asked_again_later(rig: ChannelRig) -> None:
    tries = 0

    async def answer(one: ReplyRequest) -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionError
        return "At last"

    rig.responder = answer
    await rig.ingest.handle(sms(1))
    for wait in (0, 5, 30):
        rig.clock.advance(timedelta(seconds=wait))
        assert await rig.auto_reply.once() == 1
        assert await rig.auto_reply.once() == 0
    assert await rig.texts() == ["Hello", "At last"]


async def test_whoever_dies_while_it_is_asked_leaves_the_answer_to_another_and_it_is_kept_once(rig: ChannelRig) -> None:
    """Killed before its answer was settled, and just after: the lease ends, somebody else is asked."""
    asked = asyncio.Event()

    async def hang(one: ReplyRequest) -> str:
        asked.set()
        await asyncio.Event().wait()
        return "never"

    rig.responder = hang
    await rig.ingest.handle(sms(1))
    dying = asyncio.create_task(rig.auto_reply.once())
    await asked.wait()
    dying.cancel()
    await asyncio.wait([dying])
    rig.responder = words("Here I am")
    assert await rig.auto_reply.once() == 0
    rig.clock.advance(timedelta(minutes=3))
    assert await rig.auto_reply.once() == 1
    assert await rig.texts() == ["Hello", "Here I am"]
    assert len(await rig.dispatched()) == 1


async def test_an_edit_is_not_answered(rig: ChannelRig) -> None:
    """F8."""
    rig.responder = words("Yes")
    await rig.ingest.handle(telegram("-45", 10))
    await rig.auto_reply.once()
    later = NOW + timedelta(seconds=40)
    await rig.ingest.handle(MessageEdited("-45:10", Thread("telegram:-45"), later, "go on"))
    rig.clock.advance(timedelta(minutes=5))
    assert await rig.auto_reply.once() == 0
    assert (await rig.texts("telegram:-45"), await rig.turns("telegram:-45")) == (["go on", "Yes"], 1)


@asynccontextmanager
async def running(rig: ChannelRig, provider: Provider, state: Any = None) -> AsyncIterator[Channels]:
    store = rig.backbone.store
    replies = auto_reply(rig.backbone, state or store, store, rig.clock, responder=rig.responder)
    rig.clock.advance(timedelta(minutes=1))
    router = WebhookRouter(rig.ingest, rig.clock, {})
    webhooks = Channels(router, combined(replies, outbox(store, rig.clock, lambda message: provider)))
    stop = asyncio.Event()
    task = asyncio.create_task(webhooks.jobs.run(stop, poll=0.01))
    try:
        yield webhooks
    finally:
        stop.set()
        await task


async def until(condition: Any) -> None:
    async with asyncio.timeout(240):
        while not await condition():  # noqa: ASYNC110 - what it waits for is on disk
            await asyncio.sleep(0.01)


def other(number: int, **more: Any) -> Any:
    return sms(number, thread=Thread("sms:+15550199"), **more)


async def _is(value: bool) -> bool:
    return value


class UnfinishingStore:
    """A store that once cannot say that something is done."""

    def __init__(self, rig: ChannelRig) -> None:
        self._store = rig.backbone.store
        self.failed = False

    async def complete(self, taken: Any) -> bool:
        if not self.failed:
            self.failed = True
            raise StoreError("locked")
        return await self._store.complete(taken)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_a_store_that_is_out_in_the_wrong_moment_does_not_end_the_service(rig: ChannelRig) -> None:
    rig.responder = words("Yes")
    provider, state = Provider(), UnfinishingStore(rig)
    async with running(rig, provider, state):
        await rig.ingest.handle(sms(1))
        await until(lambda: _is(state.failed))
        await rig.ingest.handle(other(2))
        await until(lambda: _is(len(provider.got) == 2))
        rig.clock.advance(timedelta(minutes=3))
        await until(lambda: _nothing_waits(rig))
    assert await rig.texts() == ["Hello", "Yes"]


async def _nothing_waits(rig: ChannelRig) -> bool:
    return not await rig.backbone.store.waiting_jobs(REPLY, limit=10)


@pytest.mark.parametrize(
    ("text", "kept"),
    [("x" * 5_000_000, "xxx"), ("a\x00b", "a\ufffdb"), ("a\ud83d b", "a\ufffd b")],
    ids=["endless", "control", "surrogate"],
)
async def test_an_answer_that_no_record_can_hold_is_kept_as_far_as_one_can(
    rig: ChannelRig, text: str, kept: str
) -> None:
    rig.responder = words(text)
    await rig.ingest.handle(sms(1))
    await rig.auto_reply.once()
    [_, answer] = await rig.texts()
    assert answer.startswith(kept)
    assert len(answer.encode()) <= MAX_TEXT_BYTES
    assert await _nothing_waits(rig)


@pytest.mark.parametrize("fault", ["raises", "no text"])
async def test_what_was_said_is_settled_while_its_answer_fails_and_is_given_up_in_the_end(
    rig: ChannelRig, fault: str
) -> None:
    tries = 0

    async def answer(one: ReplyRequest) -> Any:
        nonlocal tries
        tries += 1
        if fault == "raises":
            raise ConnectionError
        return {"text": "not a text"}

    rig.responder = answer
    await rig.ingest.handle(sms(1))
    await rig.auto_reply.once()
    assert (await rig.turns(), await rig.texts(), tries) == (1, ["Hello"], 1)
    for _ in range(80):
        rig.clock.advance(timedelta(hours=1))
        await rig.auto_reply.once()
    assert await _nothing_waits(rig)
    assert (await rig.turns(), tries < 80) == (1, True)


async def test_an_agent_that_never_answers_has_failed(rig: ChannelRig) -> None:
    async def hang(one: ReplyRequest) -> str:
        await asyncio.Event().wait()
        return "never"

    store = rig.backbone.store
    quick = auto_reply(rig.backbone, store, store, rig.clock, responder=hang, lease=timedelta(milliseconds=20))
    await rig.ingest.handle(replace(sms(1), album=None))
    rig.responder = hang
    await rig.ingest.handle(sms(2))
    assert await quick.once() == 1
    assert await rig.turns() == 2
    [waiting] = await store.waiting_jobs(REPLY, limit=10)
    assert waiting.visible_at == rig.clock() + timedelta(seconds=5)


@pytest.mark.parametrize("together", [True, False])
async def test_what_was_in_sight_of_an_answer_is_not_answered_again(rig: ChannelRig, together: bool) -> None:
    """Its own answer failed, and came too late: an answer to what was said later has seen it."""
    sick = True
    asked: list[list[str]] = []

    async def answer(one: ReplyRequest) -> str:
        asked.append([message.text for message in one.messages])
        if sick:
            raise ConnectionError
        return "Both"

    rig.responder = answer
    await rig.ingest.handle(sms(1, "one"))
    if together:
        await rig.ingest.handle(sms(2, "two"))
    await rig.auto_reply.once()
    sick = False
    if not together:
        await rig.ingest.handle(sms(2, "two"))
        await rig.auto_reply.once()
    for wait in (5, 300, 300, 300):
        rig.clock.advance(timedelta(seconds=wait))
        await rig.auto_reply.once()
    assert await rig.texts() == ["one", "two", "Both"]
    assert len(asked) == 2
    assert await _nothing_waits(rig)


async def test_an_error_that_nobody_foresaw_keeps_nothing_else_from_being_sent(rig: ChannelRig) -> None:
    rig.responder = words("Yes")
    await rig.ingest.handle(sms(1))
    await rig.ingest.handle(other(2))
    rig.clock.advance(timedelta(minutes=1))
    await rig.auto_reply.once()
    got: list[str] = []

    async def act(part: OutboundMessage) -> SendReceipt:
        got.append(part.conversation_id)
        if len(got) == 1:
            raise RuntimeError("a library's own")
        return SendReceipt("P-1", rig.clock(), ())

    provider = Provider(acts=[act])
    sending = outbox(rig.backbone.store, rig.clock, lambda message: provider)
    assert await sending.once() == 2
    assert len(set(got)) == 2


async def test_a_process_without_an_agent_leaves_the_answer_to_one_that_has_it(rig: ChannelRig) -> None:
    """Somebody looks at the same file with a plain `up`."""
    rig.responder = words("Yes")
    await rig.ingest.handle(sms(1))
    rig.responder = None
    await rig.auto_reply.once()
    assert (await rig.turns(), await rig.texts()) == (1, ["Hello"])
    rig.responder = words("Yes")
    rig.clock.advance(timedelta(seconds=5))
    await rig.auto_reply.once()
    assert await rig.texts() == ["Hello", "Yes"]
    assert await _nothing_waits(rig)


async def test_who_dies_while_sending_keeps_from_others_that_one_message_alone(rig: ChannelRig) -> None:
    rig.responder = words("Yes")
    for one in (sms(1), other(2), sms(3, thread=Thread("sms:+15550177"))):
        await rig.ingest.handle(one)
    rig.clock.advance(timedelta(minutes=1))
    await rig.auto_reply.once()
    began = asyncio.Event()

    async def hang(part: OutboundMessage) -> SendReceipt:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError

    store = rig.backbone.store
    sending = outbox(store, rig.clock, lambda message: Provider(acts=[hang]))
    dying = asyncio.create_task(
        Channels(WebhookRouter(rig.ingest, rig.clock, {}), combined(rig.auto_reply, sending)).jobs.run(
            asyncio.Event(), poll=0.01
        )
    )
    await began.wait()
    dying.cancel()
    await asyncio.wait([dying])
    another = Provider()
    assert await outbox(store, rig.clock, lambda message: another).once() == 2
    assert len(another.got) == 2


@pytest.mark.parametrize("has_responder", [True, False])
async def test_a_part_of_an_album_that_comes_late_is_settled_and_one_that_comes_twice_is_not(
    rig: ChannelRig, has_responder: bool
) -> None:
    """Its provider could not reach us before."""
    rig.responder = words("Nice") if has_responder else None
    for number in (1, 2):
        await rig.ingest.handle(sms(number, f"picture {number}", album="A1"))
    assert await rig.auto_reply.once() == 0, "the parts of an album are waited for"
    for later in (None, 1, 3, 3):
        if later is not None:
            await rig.ingest.handle(sms(later, f"picture {later}", album="A1"))
        rig.clock.advance(timedelta(seconds=3))
        await rig.auto_reply.once()
    assert await rig.turns() == 2
    assert [one for one in await rig.texts() if one != "Nice"] == ["picture 1", "picture 2", "picture 3"]
    assert (await rig.texts()).count("Nice") == (2 if has_responder else 0)
    assert await _nothing_waits(rig)


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
            for one in await store.waiting_jobs(REPLY, limit=100)
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
    return not await rig.backbone.store.waiting_jobs(REPLY, limit=100)


async def test_who_waited_for_another_process_is_tried_again_soon_after_a_first_failure(rig: ChannelRig) -> None:
    async def fail(one: ReplyRequest) -> str:
        raise ConnectionError

    rig.responder, store = fail, rig.backbone.store
    await rig.ingest.handle(sms(1))
    leases = Locks(store, rig.clock, REPLY)
    lease = await leases.acquire("sms:+15158226442", LEASE)
    assert lease is not None
    for _ in range(8):
        assert await rig.auto_reply.once() == 1
        rig.clock.advance(timedelta(seconds=4))
    await leases.release(lease)
    assert await auto_reply(rig.backbone, store, store, rig.clock, responder=fail).once() == 1
    [waiting] = await store.waiting_jobs(REPLY, limit=5)
    assert waiting.visible_at - rig.clock() <= timedelta(minutes=2)


async def parrot(one: ReplyRequest) -> str:
    return f"You said: {one.messages[-1].text}"


class FullStore:
    """A store that is out when answers are settled."""

    async def settle(self, *given: object, **more: object) -> object:
        raise StoreError("the disk is full")


async def test_an_answer_whose_settling_failed_does_not_count_against_itself(rig: ChannelRig) -> None:
    rig.responder, store = parrot, rig.backbone.store
    await rig.ingest.handle(sms(1, "one"))
    one_only = {"responder": parrot, "limit": RateLimit(1, timedelta(hours=1))}
    await auto_reply(FullStore(), store, store, rig.clock, **one_only).once()
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


class KilledRunner(JobRunner):
    """Like a process that is killed when its answer is settled: no job is completed."""

    async def _complete(self, job: LeasedJob) -> None:
        return None


async def test_what_is_written_before_the_job_of_an_answered_message_comes_again_is_answered(rig: ChannelRig) -> None:
    rig.responder, store = parrot, rig.backbone.store
    await rig.ingest.handle(sms(1, "one"))
    replies = AutoReply(rig.backbone, store, store, rig.clock, responder=parrot)
    await KilledRunner(store, rig.clock, replies.handlers).once()
    assert await rig.texts() == ["one", "You said: one"]
    rig.clock.advance(timedelta(seconds=1))
    await rig.ingest.handle(sms(2, "two"))
    await rig.ingest.handle(sms(3, "three"))
    rig.clock.advance(2 * LEASE)
    await rig.auto_reply.once()
    assert await rig.texts() == ["one", "You said: one", "two", "three", "You said: three"]
    turns = await store.turns("sms:+15158226442", limit=10)
    assert len(turns) == 2, "and what was asked is settled with its answer"
    assert not await store.waiting_jobs(REPLY, limit=10)


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
    assert not await store.waiting_jobs(REPLY, limit=10)


THREE = RateLimit(3, timedelta(minutes=10))


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
    assert not await rig.backbone.store.waiting_jobs(REPLY, limit=5)
    found = await rig.backbone.store.conversation(conversation)
    assert found is not None
    assert found.settled_at is not None
    assert found.settled_at >= rig.clock(), "what nobody answers is settled, so that reactions see it"
    assert counted(channel) - before == 2
    assert caplog.text.count("action=auto_replies_limited") == 2
    key = f"{conversation} {messages[-1].id}"
    details = await rig.backbone.store.get(MessageDetails, key)
    assert details is not None
    assert details.suppress == "rate-limit"


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
    job = Job(kind=REPLY, key="k", conversation_id="c", value={"message": "m"}, due_at=NOW)
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


async def quoted(rig: ChannelRig) -> list[tuple[str, str | None]]:
    """What goes out when the outage is over, and what each quotes."""
    seen: list[tuple[str, str | None]] = []

    async def act(part: OutboundMessage) -> SendReceipt:
        seen.append((part.text, part.in_reply_to))
        return await taken(part)

    await outbox(rig.backbone.store, rig.clock, lambda message: Provider([act])).once()
    return seen


async def echo(one: ReplyRequest) -> str:
    return f"For {[said.text for said in one.messages if said.direction is Direction.INBOUND][-1]}"


async def test_answers_that_waited_quote_each_its_own_question(rig: ChannelRig) -> None:
    rig.responder = echo
    for number in (1, 2, 3):
        await rig.ingest.handle(telegram("-45", number))
        rig.clock.advance(timedelta(seconds=5))
        await rig.auto_reply.once()
    assert sorted(await quoted(rig)) == [(f"For -45 {number}", f"-45:{number}") for number in (1, 2, 3)]


async def test_an_answer_to_several_quotes_the_last_of_them_and_no_machine(rig: ChannelRig) -> None:
    async def answer(one: ReplyRequest) -> str:
        await rig.ingest.handle(telegram("-45", 4))
        return "To all of you."

    rig.responder = answer
    for number, hush in ((1, None), (2, None), (3, SuppressReason.AUTO_REPLY)):
        await rig.ingest.handle(replace(telegram("-45", number), suppress=hush))
    rig.clock.advance(timedelta(seconds=5))
    await rig.auto_reply.once()
    assert await quoted(rig) == [("To all of you.", "-45:2")]


async def test_what_a_person_writes_quotes_nothing(rig: ChannelRig) -> None:
    await rig.ingest.handle(telegram("-45", 1))
    meta = await rig.backbone.store.meta("telegram:-45")
    assert meta is not None
    said = Message(id="r-1", direction=Direction.OUTBOUND, role=Role.OPERATOR, text="I see to it.", at=rig.clock())
    jobs = await reply_jobs(rig.backbone.store, meta, said)
    await rig.backbone.settle(Turn(conversation=meta, messages=(said,)), jobs=jobs)
    assert await quoted(rig) == [("I see to it.", None)]
