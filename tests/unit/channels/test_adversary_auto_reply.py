"""An agent that hangs, fails, or says what cannot be kept holds up nobody, and nobody is answered twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.channels.job_runners import auto_reply, combined, outbox
from tests.unit.channels.test_ingest import ChannelRig, rig, sms
from tests.unit.channels.test_outbox import Provider

from afterturn.bootstrap.channels import Channels
from afterturn.channels.responder import ReplyRequest
from afterturn.channels.sending import OutboundMessage, SendReceipt
from afterturn.channels.state import ANSWER
from afterturn.channels.types import Thread
from afterturn.channels.webhooks import WebhookRouter
from afterturn.errors import StoreError
from afterturn.model import MAX_TEXT_BYTES, Direction

__all__ = ["rig"]


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


async def test_an_agent_that_hangs_holds_up_no_other_conversation_and_nothing_that_is_to_be_sent(
    rig: ChannelRig,
) -> None:
    release = asyncio.Event()

    async def answer(one: ReplyRequest) -> str:
        said = [message.text for message in one.messages if message.direction is Direction.INBOUND]
        if said == ["hang"]:
            await release.wait()
        return f"For {said[-1]}"

    rig.responder = answer
    provider = Provider()
    async with running(rig, provider) as webhooks:
        await rig.ingest.handle(sms(1, "hang"))
        webhooks.jobs.wake()
        await rig.ingest.handle(other(2, text="you"))
        await until(lambda: _is(provider.got == [("For you", 0)]))
        await rig.ingest.handle(sms(3, "and this"))  # of the one that hangs: after it, and in order
        release.set()
        await until(lambda: _is(len(provider.got) == 3))
    assert (await rig.texts())[-2:] == ["For hang", "For and this"]


async def _is(value: bool) -> bool:
    return value


class Sick:
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
    rig.responder = _says("Yes")
    provider, state = Provider(), Sick(rig)
    async with running(rig, provider, state):
        await rig.ingest.handle(sms(1))
        await until(lambda: _is(state.failed))
        await rig.ingest.handle(other(2))
        await until(lambda: _is(len(provider.got) == 2))
        rig.clock.advance(timedelta(minutes=3))
        await until(lambda: _nothing_waits(rig))
    assert await rig.texts() == ["Hello", "Yes"]


async def _nothing_waits(rig: ChannelRig) -> bool:
    return not await rig.backbone.store.waiting_jobs(ANSWER, limit=10)


def _says(text: Any) -> Any:
    async def answer(one: ReplyRequest) -> Any:
        return text

    return answer


@pytest.mark.parametrize(
    ("text", "kept"),
    [("x" * 5_000_000, "xxx"), ("a\x00b", "a\ufffdb"), ("a\ud83d b", "a\ufffd b")],
    ids=["endless", "control", "surrogate"],
)
async def test_an_answer_that_no_record_can_hold_is_kept_as_far_as_one_can(
    rig: ChannelRig, text: str, kept: str
) -> None:
    rig.responder = _says(text)
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
    [waiting] = await store.waiting_jobs(ANSWER, limit=10)
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
    rig.responder = _says("Yes")
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
    rig.responder = _says("Yes")
    await rig.ingest.handle(sms(1))
    rig.responder = None
    await rig.auto_reply.once()
    assert (await rig.turns(), await rig.texts()) == (1, ["Hello"])
    rig.responder = _says("Yes")
    rig.clock.advance(timedelta(seconds=5))
    await rig.auto_reply.once()
    assert await rig.texts() == ["Hello", "Yes"]
    assert await _nothing_waits(rig)


async def test_who_dies_while_sending_keeps_from_others_that_one_message_alone(rig: ChannelRig) -> None:
    rig.responder = _says("Yes")
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
    rig.responder = _says("Nice") if has_responder else None
    for number in (1, 2):
        await rig.ingest.handle(sms(number, f"picture {number}", album="A1"))
    for later in (None, 1, 3, 3):
        if later is not None:
            await rig.ingest.handle(sms(later, f"picture {later}", album="A1"))
        rig.clock.advance(timedelta(seconds=3))
        await rig.auto_reply.once()
    assert await rig.turns() == 2
    assert [one for one in await rig.texts() if one != "Nice"] == ["picture 1", "picture 2", "picture 3"]
    assert (await rig.texts()).count("Nice") == (2 if has_responder else 0)
    assert await _nothing_waits(rig)
