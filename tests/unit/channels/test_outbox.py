"""Answers out of a real store: each part once, whoever dies, and what is not known is said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.channels.job_runners import outbox

from afterturn import App, Settings
from afterturn.backbone import Backbone
from afterturn.bootstrap import open_backbone
from afterturn.channels.auto_reply import send_job
from afterturn.channels.sending import OutboundMessage, Reason, SendReceipt, TryLater, Uncertain, Undeliverable
from afterturn.channels.state import MergedThread, Route, SendStatus, ThreadEntry
from afterturn.channels.types import ThreadMigrated
from afterturn.jobs.runner import JobRunner
from afterturn.model import Channel, ConversationMeta, Direction, Message, Role, SendProblem, Turn
from afterturn.store.state import OptOut
from afterturn.testing import ManualClock

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
Act = Callable[[OutboundMessage], Awaitable[SendReceipt]]


@dataclass
class Provider:
    """Takes down what it is sent; ``acts``: what it does at each call, the last one again and again."""

    acts: list[Act] = field(default_factory=list)
    got: list[tuple[str, int]] = field(default_factory=list)
    size: int = 100

    def parts(self, message: OutboundMessage) -> tuple[OutboundMessage, ...]:
        texts = [message.text[begin : begin + self.size] for begin in range(0, len(message.text), self.size)]
        return tuple(replace(message, text=text, part=number) for number, text in enumerate(texts))

    async def send(self, part: OutboundMessage) -> SendReceipt:
        act = self.acts.pop(0) if len(self.acts) > 1 else self.acts[0] if self.acts else taken
        sent = await act(part)
        self.got.append((part.text, part.part))
        return sent


async def taken(part: OutboundMessage) -> SendReceipt:
    return SendReceipt(f"P-{part.message_id}-{part.part}", NOW, (f"<{part.message_id}@out>",))


def failing(error: Exception) -> Act:
    async def act(part: OutboundMessage) -> SendReceipt:
        raise error

    return act


@dataclass
class OutboxRig:
    backbone: Backbone
    clock: ManualClock
    provider: Provider = field(default_factory=Provider)

    @property
    def outbox(self) -> JobRunner:
        return outbox(self.backbone.store, self.clock, lambda message: self.provider)

    async def answer(
        self, number: int = 1, text: str = "Coming.", *, channel: Channel = Channel.SMS, automatic: bool = True
    ) -> None:
        """A settled answer that waits to be sent."""
        meta = ConversationMeta(id="c-1", channel=channel)
        route = Route(key="c-1", account="ours", recipient="theirs", sender="theirs", references=("m-2", "m-1"))
        await self.backbone.store.put(route)
        message = Message(id=f"r-{number}", direction=Direction.OUTBOUND, role=Role.AGENT, text=text, at=self.clock())
        job = send_job("c-1", message, automatic=automatic)
        await self.backbone.settle(Turn(conversation=meta, messages=(message,)), jobs=[job])

    async def state(self, number: int = 1) -> Any:
        status = await self.backbone.store.get(SendStatus, f"c-1 r-{number}")
        return None if status is None else (status.state, status.reason)

    async def problem(self) -> SendProblem | None:
        """What the inbox shows."""
        conversation = await self.backbone.store.conversation("c-1")
        assert conversation is not None
        assert conversation.preview is not None
        return conversation.preview.send_problem


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[OutboxRig]:
    clock = ManualClock(NOW)
    async with open_backbone(App(shipped=False), Settings(db=tmp_path / "a.db"), clock=clock) as backbone:
        yield OutboxRig(backbone, clock)


async def test_an_answer_goes_out_once_by_the_way_the_question_came(rig: OutboxRig) -> None:
    seen: list[OutboundMessage] = []

    async def act(part: OutboundMessage) -> SendReceipt:
        seen.append(part)
        return await taken(part)

    rig.provider.acts = [act]
    await rig.answer()
    assert (await rig.outbox.once(), await rig.outbox.once()) == (1, 0)
    [one] = seen
    assert (one.account, one.recipients, one.in_reply_to, one.references) == (
        "ours",
        ("theirs",),
        "m-2",
        ("m-1", "m-2"),
    )
    assert await rig.state() == ("sent", None)


async def test_after_a_failure_in_the_middle_only_the_rest_is_sent(rig: OutboxRig) -> None:
    rig.provider.size = 3
    busy = TryLater("provider", Reason.THROTTLED, after=timedelta(seconds=40))
    rig.provider.acts = [taken, failing(busy), taken]
    await rig.answer(text="abcdefgh")
    await rig.outbox.once()
    assert await rig.state() == ("waiting", "throttled")
    rig.clock.advance(timedelta(seconds=39))
    assert await rig.outbox.once() == 0
    rig.clock.advance(timedelta(seconds=1))
    await rig.outbox.once()
    assert rig.provider.got == [("abc", 0), ("def", 1), ("gh", 2)]
    assert await rig.state() == ("sent", None)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (Undeliverable("provider", Reason.BLOCKED), ("undeliverable", "blocked")),
        (Uncertain("provider", Reason.RESPONSE_LOST), ("uncertain", "response-lost")),
    ],
)
async def test_what_cannot_be_sent_or_may_have_been_is_never_tried_again(
    rig: OutboxRig, error: Exception, state: tuple[str, str]
) -> None:
    rig.provider.acts = [failing(error)]
    await rig.answer()
    await rig.outbox.once()
    rig.clock.advance(timedelta(days=1))
    assert await rig.outbox.once() == 0
    assert await rig.state() == state


async def test_a_persons_reply_to_who_wrote_stop_is_refused_once_and_for_all(rig: OutboxRig) -> None:
    """Whether they meant the number that is written from, its provider knows."""
    await rig.backbone.store.put_opt_out(OptOut(channel=Channel.SMS, address="theirs", opted_out=True, at=NOW))
    rig.provider.acts = [taken, failing(Undeliverable("provider", Reason.OPTED_OUT, "21610"))]
    for number in (1, 2):
        await rig.answer(number, automatic=False)
        await rig.outbox.once()
    rig.clock.advance(timedelta(days=1))
    assert await rig.outbox.once() == 0
    assert [await rig.state(number) for number in (1, 2)] == [("sent", None), ("undeliverable", "opted-out")]


async def test_a_message_stored_by_a_process_that_died_is_sent_by_another(rig: OutboxRig) -> None:
    """Before the first part was begun: it is sent after all, once."""
    await rig.answer()
    store = rig.backbone.store
    assert len(await store.lease_jobs("send", now=NOW, lease=timedelta(minutes=5), limit=9)) == 1
    assert await rig.outbox.once() == 0
    rig.clock.advance(timedelta(minutes=16))
    await rig.outbox.once()
    assert rig.provider.got == [("Coming.", 0)]
    assert await rig.state() == ("sent", None)


async def test_whoever_dies_in_the_call_leaves_it_uncertain_and_nobody_is_told_twice(rig: OutboxRig) -> None:
    called = asyncio.Event()

    async def hang(part: OutboundMessage) -> SendReceipt:
        called.set()
        await asyncio.Event().wait()
        return await taken(part)

    rig.provider.acts = [hang]
    await rig.answer()
    dying = asyncio.create_task(rig.outbox.once())
    await called.wait()
    dying.cancel()
    await asyncio.wait([dying])
    rig.provider.acts = [taken]
    rig.clock.advance(timedelta(minutes=16))
    await rig.outbox.once()
    assert rig.provider.got == []
    assert await rig.state() == ("uncertain", "response-lost")


async def test_what_helps_nobody_any_more_is_given_up(rig: OutboxRig) -> None:
    rig.provider.acts = [failing(TryLater("provider", Reason.UNREACHABLE))]
    await rig.answer()
    for _ in range(100):
        await rig.outbox.once()
        rig.clock.advance(timedelta(hours=1))
    assert await rig.state() == ("given-up", "unreachable")
    assert await rig.backbone.store.waiting_jobs("send", limit=1) == ()


async def test_mail_that_answers_ours_finds_its_conversation(rig: OutboxRig) -> None:
    await rig.answer(channel=Channel.EMAIL)
    await rig.outbox.once()
    names = ["P-r-1-0", "<r-1@out>"]
    entries = await rig.backbone.store.get_all(ThreadEntry, names)
    assert [entries[name].conversation_id for name in names] == ["c-1", "c-1"]


async def test_a_chat_that_turns_out_to_have_moved_is_remembered(rig: OutboxRig) -> None:
    async def act(part: OutboundMessage) -> SendReceipt:
        return SendReceipt("P", NOW, moved=ThreadMigrated("telegram:-45", "telegram:-100247", NOW))

    rig.provider.acts = [act]
    await rig.answer(channel=Channel.TELEGRAM)
    await rig.outbox.once()
    merged = await rig.backbone.store.get(MergedThread, "telegram:-100247")
    assert merged is not None
    assert merged.conversation_id == "c-1"


async def test_two_machines_that_answer_each_other_are_stopped(rig: OutboxRig) -> None:
    """F16: automatic mail is capped; what a person writes is not."""
    for number in range(1, 7):
        await rig.answer(number, channel=Channel.EMAIL)
        await rig.outbox.once()
        rig.clock.advance(timedelta(seconds=5))
    assert len(rig.provider.got) == 4
    assert [await rig.state(number) for number in (4, 5, 6)] == [
        ("sent", None),
        ("waiting", "rate-limit"),
        ("waiting", "rate-limit"),
    ]
    await rig.answer(7, channel=Channel.EMAIL, automatic=False)
    await rig.outbox.once()
    assert await rig.state(7) == ("sent", None)


async def test_where_no_sender_is_set_up_people_are_told(rig: OutboxRig) -> None:
    await rig.answer()
    await outbox(rig.backbone.store, rig.clock, lambda message: None).once()
    assert await rig.state() == ("waiting", "channel-not-set-up")
    assert await rig.problem() == SendProblem(state="waiting", reason="channel-not-set-up")
    rig.clock.advance(timedelta(seconds=15))
    await rig.outbox.once()  # another process on the same store has it set up
    assert await rig.state() == ("sent", None)
    assert await rig.problem() is None
