"""Arrivals into a real store: each once, in its conversation, whatever comes twice, late or in the wrong order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.channels.job_runners import auto_reply

from afterturn import App, Settings
from afterturn.backbone import Backbone
from afterturn.bootstrap import open_backbone
from afterturn.channels.ingest import Ingest
from afterturn.channels.responder import ReplyRequest, Responder
from afterturn.channels.routing import Directory, RoutingRule
from afterturn.channels.state import DISPATCH, DeliveryStatus, MessageDetails
from afterturn.channels.types import (
    CallEvent,
    DeliveryUpdate,
    Ignored,
    InboundMessage,
    MessageEdited,
    Party,
    SuppressReason,
    Thread,
    ThreadMigrated,
    Utterance,
)
from afterturn.jobs.runner import JobRunner
from afterturn.model import Channel, Direction, Role
from afterturn.testing import ManualClock

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OURS, THEIRS = "+15550100", "+15158226442"


@dataclass
class House:
    """A file, a webhook function on it, and what somebody answers."""

    backbone: Backbone
    clock: ManualClock
    directory: Directory
    responder: Responder | None = None
    wait: timedelta = timedelta(minutes=10)

    @property
    def intake(self) -> Ingest:
        answering = self.responder is not None
        return Ingest(self.backbone, self.backbone.store, self.clock, directory=self.directory, auto_reply=answering)

    @property
    def answering(self) -> JobRunner:
        store = self.backbone.store
        return auto_reply(self.backbone, store, store, self.clock, responder=self.responder)

    async def texts(self, conversation_id: str = f"sms:{THEIRS}") -> list[str]:
        return [one.text for one in await self.backbone.store.messages(conversation_id)]

    async def turns(self, conversation_id: str = f"sms:{THEIRS}") -> int:
        return len(await self.backbone.store.turns(conversation_id, limit=100))

    async def dispatched(self) -> list[Any]:
        return [one.value for one in await self.backbone.store.waiting_jobs(DISPATCH, limit=10)]


@asynccontextmanager
async def opened(folder: Path, clock: ManualClock) -> AsyncIterator[House]:
    async with open_backbone(App(shipped=False), Settings(db=folder / "a.db"), clock=clock) as backbone:
        yield House(backbone, clock, Directory(accounts={OURS: "oak"}))


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with opened(tmp_path, ManualClock(NOW)) as house:
        yield house


def sms(number: int, text: str = "Hello", **more: Any) -> InboundMessage:
    given = InboundMessage(
        channel=Channel.SMS,
        provider_id=f"SM{number}",
        party=Party(OURS, THEIRS),
        thread=Thread(f"sms:{THEIRS}"),
        at=NOW + timedelta(seconds=number),
        text=text,
        participants=(THEIRS,),
    )
    return replace(given, **more)


def mail(name: str, *, after: tuple[str, ...] = (), subject: str | None = None, **more: Any) -> InboundMessage:
    given = InboundMessage(
        channel=Channel.EMAIL,
        provider_id=name,
        party=Party("oak@example.com", "tenant@example.org"),
        thread=Thread(f"mail:{name}", after, subject),
        at=NOW,
        text=f"I am {name}",
    )
    return replace(given, **more)


async def test_a_text_is_settled_in_the_conversation_of_its_sender_and_a_second_delivery_changes_nothing(
    house: House,
) -> None:
    for _ in range(2):
        taken = await house.intake.handle(sms(1))
        assert (taken.outcome, taken.conversation_id) == ("settled", f"sms:{THEIRS}")
    found = await house.backbone.store.conversation(f"sms:{THEIRS}")
    assert found is not None
    assert (found.property_id, found.channel, found.participants) == ("oak", Channel.SMS, (THEIRS,))
    assert (await house.texts(), await house.turns()) == (["Hello"], 1)


async def test_where_an_operator_has_put_a_person_the_next_conversation_goes(house: House) -> None:
    await house.backbone.store.put(RoutingRule(key=THEIRS, property_id="elm"))
    await house.intake.handle(sms(1))
    found = await house.backbone.store.conversation(f"sms:{THEIRS}")
    assert found is not None
    assert found.property_id == "elm"


async def test_mail_goes_where_the_nearest_known_mail_before_it_is(house: House) -> None:
    await house.intake.handle(mail("one"))
    await house.intake.handle(mail("two", after=("unknown", "one")))
    await house.intake.handle(mail("three", after=("two",)))
    await house.intake.handle(mail("other"))
    assert await house.texts("mail:one") == ["I am one", "I am two", "I am three"]
    assert await house.texts("mail:other") == ["I am other"]


async def test_mail_that_names_no_other_goes_by_people_and_subject_for_a_time(house: House) -> None:
    await house.intake.handle(mail("one", subject="heating", at=NOW - timedelta(days=60)))
    await house.intake.handle(mail("two", subject="Heating", at=NOW - timedelta(days=50)))
    await house.intake.handle(mail("three", subject="heating", at=NOW - timedelta(days=20)))
    stranger = Party("oak@example.com", "stranger@example.org")
    await house.intake.handle(mail("four", subject="heating", party=stranger))
    assert await house.texts("mail:one") == ["I am one", "I am two"]
    assert await house.texts("mail:three") == ["I am three"]
    assert await house.texts("mail:four") == ["I am four"]


async def test_what_is_not_said_is_kept_beside_a_message(house: House) -> None:
    """F20: the sender's own date is for show; recency is the time of receipt."""
    await house.intake.handle(mail("one", sent_at=datetime(2234, 6, 16, tzinfo=UTC), extra={"subject": "Hi"}))
    details = await house.backbone.store.get(MessageDetails, "mail:one one")
    assert details is not None
    assert (details.facts, details.sent_at) == ({"subject": "Hi"}, datetime(2234, 6, 16, tzinfo=UTC))
    found = await house.backbone.store.conversation("mail:one")
    assert found is not None
    assert found.last_message_at == NOW


async def test_of_a_mail_everything_is_kept_beside_what_is_new(house: House) -> None:
    whole = "Yes!\n> Shall we come at nine?"
    await house.intake.handle(mail("one", text="Yes!", full_text=whole))
    await house.intake.handle(mail("two", text="ü" * 100_000, full_text="ü" * 149_999))
    [one] = await house.backbone.store.messages("mail:one")
    assert (one.text, one.whole) == ("Yes!", whole)
    [two] = await house.backbone.store.messages("mail:two")
    assert two.whole == "ü" * 75_000


async def test_deliveries_never_go_back_and_are_no_turns(house: House) -> None:
    """F49: delivered, sent, delivered stays delivered; and an id seen in a state is no known message."""
    for state, rank in (("delivered", 40), ("sent", 20), ("delivered", 40)):
        taken = await house.intake.handle(DeliveryUpdate("SM1", state, rank, NOW))
        assert taken.outcome == "noted"
    status = await house.backbone.store.get(DeliveryStatus, "SM1")
    assert status is not None
    assert status.state == "delivered"
    assert await house.backbone.store.counts() == {**await house.backbone.store.counts(), "turns": 0}
    assert (await house.intake.handle(sms(1))).outcome == "settled"


def call(state: str, *said: str, seconds: int = 0) -> CallEvent:
    return CallEvent(
        provider_id="CA1",
        party=Party(OURS, THEIRS),
        thread=Thread(f"voice:{THEIRS}"),
        at=NOW + timedelta(seconds=seconds),
        state=state,
        ended=state == "completed",
        utterances=tuple(
            Utterance(f"CA1:{number}", Direction.INBOUND, Role.CUSTOMER, NOW + timedelta(seconds=number), text)
            for number, text in enumerate(said)
        ),
    )


async def test_a_call_that_ends_thrice_is_one_turn_with_its_transcript(house: House) -> None:
    """F31: completed without a transcript, ringing late, completed with it, and the same again."""
    for one in (call("completed"), call("ringing", seconds=-30), call("completed", "Hi", "Bye"), call("completed")):
        await house.intake.handle(one)
    await house.intake.handle(call("completed", "Hi", "Bye"))
    house.clock.advance(timedelta(minutes=10))
    await house.answering.once()
    voice = f"voice:{THEIRS}"
    assert (await house.texts(voice), await house.turns(voice)) == (["Hi", "Bye"], 1)


async def test_what_a_state_tells_of_a_call_waits_for_the_report(house: House) -> None:
    """An end that comes before the whole transcript makes no turn of its own."""
    await house.intake.handle(replace(call("completed", "Hi"), whole=False))
    assert await house.turns(f"voice:{THEIRS}") == 0
    await house.intake.handle(call("completed", "Hi", "Bye"))
    house.clock.advance(timedelta(minutes=10))
    await house.answering.once()
    voice = f"voice:{THEIRS}"
    assert (await house.texts(voice), await house.turns(voice)) == (["Hi", "Bye"], 1)


async def test_a_call_whose_transcript_never_comes_is_settled_without(house: House) -> None:
    await house.intake.handle(call("completed"))
    assert await house.turns(f"voice:{THEIRS}") == 0
    house.clock.advance(timedelta(minutes=3))
    assert await house.answering.once() == 1
    assert await house.answering.once() == 0
    assert await house.turns(f"voice:{THEIRS}") == 1


async def test_a_long_call_is_one_turn(house: House) -> None:
    await house.intake.handle(call("completed", *(f"word {number}" for number in range(75))))
    voice = f"voice:{THEIRS}"
    assert (len(await house.texts(voice)), await house.turns(voice)) == (75, 1)


def telegram(chat: str, number: int) -> InboundMessage:
    thread = Thread(f"telegram:{chat}")
    return sms(number, f"{chat} {number}", channel=Channel.TELEGRAM, provider_id=f"{chat}:{number}", thread=thread)


@pytest.mark.parametrize(
    "order", ["old move new", "old new move new", "old new move move", "new move old", "move new old"]
)
async def test_a_group_that_moved_is_one_conversation(house: House, order: str) -> None:
    """F34: its service messages come before, between or after what is said under the new id."""
    for number, what in enumerate(order.split(), 1):
        if what == "move":
            await house.intake.handle(ThreadMigrated("telegram:-45", "telegram:-100247", NOW))
        else:
            await house.intake.handle(telegram("-45" if what == "old" else "-100247", number))
    rows = (await house.backbone.inbox.page(_everything())).rows
    assert len(rows) == 1
    said = order.split()
    expected = sorted(f"{'-45' if one == 'old' else '-100247'} {n}" for n, one in enumerate(said, 1) if one != "move")
    assert sorted(await house.texts(rows[0].conversation.id)) == expected


def _everything() -> Any:
    from afterturn.inbox import InboxQuery

    return InboxQuery(limit=100)


async def test_an_edit_changes_what_is_stored_and_settles_nothing(house: House) -> None:
    """F8: an edit of nothing but its marks, then of its words, then the older one once more; and one of the unknown."""
    await house.intake.handle(telegram("-45", 10))
    edited = MessageEdited("-45:10", Thread("telegram:-45"), NOW + timedelta(seconds=20), "-45 10")
    for one in (
        edited,
        replace(edited, at=NOW + timedelta(seconds=40), text="go on"),
        replace(edited, at=NOW + timedelta(seconds=30), text="stop it"),
        replace(edited, provider_id="-45:11", text="who?"),
    ):
        assert (await house.intake.handle(one)).outcome == "edited"
    [message] = await house.backbone.store.messages("telegram:-45")
    assert (message.text, message.edited_at) == ("go on", NOW + timedelta(seconds=40))
    assert await house.turns("telegram:-45") == 1


async def test_what_means_nothing_is_nothing(house: House) -> None:
    assert (await house.intake.handle(Ignored("service"))).outcome == "nothing"
    assert (await house.backbone.store.counts())["conversations"] == 0


async def test_an_answer_is_settled_with_what_it_answers_and_waits_to_be_sent(house: House) -> None:
    asked: list[ReplyRequest] = []

    async def answer(one: ReplyRequest) -> str:
        asked.append(one)
        return "We are on it."

    house.responder = answer
    assert (await house.intake.handle(sms(1))).outcome == "saved"
    assert await house.turns() == 0
    assert await house.answering.once() == 1
    assert await house.texts() == ["Hello", "We are on it."]
    assert (await house.turns(), len(asked), asked[0].recipient) == (1, 1, THEIRS)
    [waiting] = await house.dispatched()
    assert waiting["automatic"] is True
    await house.intake.handle(sms(1))
    assert await house.answering.once() == 0
    assert await house.turns() == 1


async def test_what_comes_together_is_answered_once(house: House) -> None:
    house.responder = _words("Both.")
    await house.intake.handle(sms(1))
    await house.intake.handle(sms(2, "And the heating"))
    await house.answering.once()
    assert await house.texts() == ["Hello", "And the heating", "Both."]
    assert await house.answering.once() == 0


async def test_the_parts_of_an_album_are_one_turn(house: House) -> None:
    """Also where nobody answers: they come one by one, within moments."""
    for number in range(3):
        await house.intake.handle(sms(number + 1, f"picture {number}", album="A1"))
    assert await house.answering.once() == 0
    house.clock.advance(timedelta(seconds=3))
    assert await house.answering.once() == 1
    assert (len(await house.texts()), await house.turns()) == (3, 1)


@pytest.mark.parametrize("hush", list(SuppressReason))
async def test_what_a_machine_must_not_answer_is_stored_and_left_to_people(house: House, hush: SuppressReason) -> None:
    """F16."""
    house.responder = _words("No!")
    assert (await house.intake.handle(sms(1, suppress=hush))).outcome == "settled"
    assert await house.answering.once() == 0
    assert await house.texts() == ["Hello"]


async def test_after_stop_no_machine_answers_until_start(house: House) -> None:
    house.responder = _words("Hi")
    await house.intake.handle(sms(1, "STOP", suppress=SuppressReason.OPT_OUT, extra={"opt": "out"}))
    await house.intake.handle(sms(2, "Are you there?"))
    await house.answering.once()
    assert (await house.texts(), await house.turns()) == (["STOP", "Are you there?"], 2)
    await house.intake.handle(sms(3, "START", extra={"opt": "in"}))
    opt_out = await house.backbone.store.opt_out(Channel.SMS, THEIRS)
    assert opt_out is not None
    assert not opt_out.opted_out
    await house.answering.once()
    assert await house.texts() == ["STOP", "Are you there?", "START", "Hi"]


async def test_a_responder_that_fails_is_asked_again_later(house: House) -> None:
    tries = 0

    async def answer(one: ReplyRequest) -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionError
        return "At last"

    house.responder = answer
    await house.intake.handle(sms(1))
    for wait in (0, 5, 30):
        house.clock.advance(timedelta(seconds=wait))
        assert await house.answering.once() == 1
        assert await house.answering.once() == 0
    assert await house.texts() == ["Hello", "At last"]


async def test_whoever_dies_while_it_is_asked_leaves_the_answer_to_another_and_it_is_kept_once(house: House) -> None:
    """Killed before its answer was settled, and just after: the lease ends, somebody else is asked."""
    asked = asyncio.Event()

    async def hang(one: ReplyRequest) -> str:
        asked.set()
        await asyncio.Event().wait()
        return "never"

    house.responder = hang
    await house.intake.handle(sms(1))
    dying = asyncio.create_task(house.answering.once())
    await asked.wait()
    dying.cancel()
    await asyncio.wait([dying])
    house.responder = _words("Here I am")
    assert await house.answering.once() == 0
    house.clock.advance(timedelta(minutes=3))
    assert await house.answering.once() == 1
    assert await house.texts() == ["Hello", "Here I am"]
    assert len(await house.dispatched()) == 1


def _words(text: str) -> Responder:
    async def answer(one: ReplyRequest) -> str:
        return text

    return answer


async def test_the_message_of_a_mail_that_we_sent_is_ours(house: House) -> None:
    await house.intake.handle(mail("one", extra={"direction": "outbound"}))
    [ours] = await house.backbone.store.messages("mail:one")
    assert (ours.direction, ours.role) == (Direction.OUTBOUND, Role.AGENT)
