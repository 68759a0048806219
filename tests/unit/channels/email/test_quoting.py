"""What a chat shows above an answer is the message that it answers, however many came in since."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.unit.channels.job_runners import outbox
from tests.unit.channels.test_ingest import ChannelRig, rig, telegram
from tests.unit.channels.test_outbox import Provider, taken

from afterturn.channels.outbox import reply_jobs
from afterturn.channels.responder import ReplyRequest
from afterturn.channels.sending import OutboundMessage, SendReceipt
from afterturn.channels.types import SuppressReason
from afterturn.model import Direction, Message, Role, Turn

__all__ = ["rig"]


async def told(rig: ChannelRig) -> list[tuple[str, str | None]]:
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
    assert sorted(await told(rig)) == [(f"For -45 {number}", f"-45:{number}") for number in (1, 2, 3)]


async def test_an_answer_to_several_quotes_the_last_of_them_and_no_machine(rig: ChannelRig) -> None:
    async def answer(one: ReplyRequest) -> str:
        await rig.ingest.handle(telegram("-45", 4))
        return "To all of you."

    rig.responder = answer
    for number, hush in ((1, None), (2, None), (3, SuppressReason.AUTO_REPLY)):
        await rig.ingest.handle(replace(telegram("-45", number), suppress=hush))
    rig.clock.advance(timedelta(seconds=5))
    await rig.auto_reply.once()
    assert await told(rig) == [("To all of you.", "-45:2")]


async def test_what_a_person_writes_quotes_nothing(rig: ChannelRig) -> None:
    await rig.ingest.handle(telegram("-45", 1))
    meta = await rig.backbone.store.meta("telegram:-45")
    assert meta is not None
    said = Message(id="r-1", direction=Direction.OUTBOUND, role=Role.OPERATOR, text="I see to it.", at=rig.clock())
    jobs = await reply_jobs(rig.backbone.store, meta, said)
    await rig.backbone.settle(Turn(conversation=meta, messages=(said,)), jobs=jobs)
    assert await told(rig) == [("I see to it.", None)]
