"""Arrivals into a real store: each once, in its conversation, whatever comes twice, late or in the wrong order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
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
from afterturn.channels.state import DISPATCH, DeliveryStatus, MessageDetails, Route
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
from afterturn.model import Channel, Direction, FlushMode, Role
from afterturn.testing import ManualClock

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OURS, THEIRS = "+15550100", "+15158226442"


@dataclass
class ChannelRig:
    """A store, and the parts of the channels on it."""

    backbone: Backbone
    clock: ManualClock
    directory: Directory
    responder: Responder | None = None
    wait: timedelta = timedelta(minutes=10)

    @property
    def ingest(self) -> Ingest:
        answers_automatically = self.responder is not None
        return Ingest(
            self.backbone, self.backbone.store, self.clock, directory=self.directory, auto_reply=answers_automatically
        )

    @property
    def auto_reply(self) -> JobRunner:
        store = self.backbone.store
        return auto_reply(self.backbone, store, store, self.clock, responder=self.responder)

    async def texts(self, conversation_id: str = f"sms:{THEIRS}") -> list[str]:
        return [one.text for one in await self.backbone.store.messages(conversation_id)]

    async def turns(self, conversation_id: str = f"sms:{THEIRS}") -> int:
        return len(await self.backbone.store.turns(conversation_id, limit=100))

    async def dispatched(self) -> list[Any]:
        return [one.value for one in await self.backbone.store.waiting_jobs(DISPATCH, limit=10)]


@asynccontextmanager
async def opened(folder: Path, clock: ManualClock) -> AsyncIterator[ChannelRig]:
    async with open_backbone(App(shipped=False), Settings(db=folder / "a.db"), clock=clock) as backbone:
        yield ChannelRig(backbone, clock, Directory(accounts={OURS: "oak"}))


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ChannelRig]:
    async with opened(tmp_path, ManualClock(NOW)) as rig:
        yield rig


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
    rig: ChannelRig,
) -> None:
    for _ in range(2):
        taken = await rig.ingest.handle(sms(1))
        assert (taken.outcome, taken.conversation_id) == ("settled", f"sms:{THEIRS}")
    found = await rig.backbone.store.conversation(f"sms:{THEIRS}")
    assert found is not None
    assert (found.property_id, found.channel, found.participants) == ("oak", Channel.SMS, (THEIRS,))
    assert (await rig.texts(), await rig.turns()) == (["Hello"], 1)


async def test_where_an_operator_has_put_a_person_the_next_conversation_goes(rig: ChannelRig) -> None:
    await rig.backbone.store.put(RoutingRule(key=THEIRS, property_id="elm"))
    await rig.ingest.handle(sms(1))
    found = await rig.backbone.store.conversation(f"sms:{THEIRS}")
    assert found is not None
    assert found.property_id == "elm"


async def test_a_directory_that_changes_moves_no_conversation(rig: ChannelRig) -> None:
    for property_id in ("oak", "elm"):
        rig.directory = Directory(accounts={"oak@example.com": property_id})
        await rig.ingest.handle(mail("one"))
        await rig.ingest.handle(mail(f"after-{property_id}", after=("one",)))
        await rig.ingest.handle(mail(f"new-{property_id}"))
    names = ("mail:one", "mail:new-oak", "mail:new-elm")
    conversations = [await rig.backbone.store.conversation(name) for name in names]
    assert [conversation and conversation.property_id for conversation in conversations] == ["oak", "oak", "elm"]


async def test_a_mail_that_comes_by_two_mailboxes_stays_where_it_came_first(rig: ChannelRig) -> None:
    rig.responder = _words("Yes")
    rig.directory = Directory(accounts={"oak@example.com": "oak", "elm@example.com": "elm"})
    for account in ("oak@example.com", "elm@example.com"):
        await rig.ingest.handle(mail("one", party=Party(account, "tenant@example.org")))
        await rig.auto_reply.once()
    conversation = await rig.backbone.store.conversation("mail:one")
    route = await rig.backbone.store.get(Route, "mail:one")
    assert conversation is not None
    assert route is not None
    assert (conversation.property_id, route.account) == ("oak", "oak@example.com")
    assert await rig.texts("mail:one") == ["I am one", "Yes"]


async def test_mail_goes_where_the_nearest_known_mail_before_it_is(rig: ChannelRig) -> None:
    await rig.ingest.handle(mail("one"))
    await rig.ingest.handle(mail("two", after=("unknown", "one")))
    await rig.ingest.handle(mail("three", after=("two",)))
    await rig.ingest.handle(mail("other"))
    assert await rig.texts("mail:one") == ["I am one", "I am two", "I am three"]
    assert await rig.texts("mail:other") == ["I am other"]


async def test_mail_that_names_no_other_goes_by_people_and_subject_for_a_time(rig: ChannelRig) -> None:
    await rig.ingest.handle(mail("one", subject="heating", at=NOW - timedelta(days=60)))
    await rig.ingest.handle(mail("two", subject="Heating", at=NOW - timedelta(days=50)))
    await rig.ingest.handle(mail("three", subject="heating", at=NOW - timedelta(days=20)))
    stranger = Party("oak@example.com", "stranger@example.org")
    await rig.ingest.handle(mail("four", subject="heating", party=stranger))
    assert await rig.texts("mail:one") == ["I am one", "I am two"]
    assert await rig.texts("mail:three") == ["I am three"]
    assert await rig.texts("mail:four") == ["I am four"]


async def test_what_is_not_said_is_kept_beside_a_message(rig: ChannelRig) -> None:
    """F20: the sender's own date is for show; recency is the time of receipt."""
    await rig.ingest.handle(mail("one", sent_at=datetime(2234, 6, 16, tzinfo=UTC), extra={"subject": "Hi"}))
    details = await rig.backbone.store.get(MessageDetails, "mail:one one")
    assert details is not None
    assert (details.facts, details.sent_at) == ({"subject": "Hi"}, datetime(2234, 6, 16, tzinfo=UTC))
    found = await rig.backbone.store.conversation("mail:one")
    assert found is not None
    assert found.last_message_at == NOW


async def test_of_a_mail_everything_is_kept_beside_what_is_new(rig: ChannelRig) -> None:
    whole = "Yes!\n> Shall we come at nine?"
    await rig.ingest.handle(mail("one", text="Yes!", full_text=whole))
    await rig.ingest.handle(mail("two", text="ü" * 100_000, full_text="ü" * 149_999))
    [one] = await rig.backbone.store.messages("mail:one")
    assert (one.text, one.whole) == ("Yes!", whole)
    [two] = await rig.backbone.store.messages("mail:two")
    assert two.whole == "ü" * 75_000


async def test_deliveries_never_go_back_and_are_no_turns(rig: ChannelRig) -> None:
    """F49: delivered, sent, delivered stays delivered; and an id seen in a state is no known message."""
    for state, rank in (("delivered", 40), ("sent", 20), ("delivered", 40)):
        taken = await rig.ingest.handle(DeliveryUpdate("SM1", state, rank, NOW))
        assert taken.outcome == "noted"
    status = await rig.backbone.store.get(DeliveryStatus, "SM1")
    assert status is not None
    assert status.state == "delivered"
    assert await rig.backbone.store.counts() == {**await rig.backbone.store.counts(), "turns": 0}
    assert (await rig.ingest.handle(sms(1))).outcome == "settled"


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


@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
async def test_a_call_that_ends_thrice_is_one_turn_with_its_transcript(rig: ChannelRig, order: tuple[int, ...]) -> None:
    """F31: completed without a transcript, ringing late, completed with it, in any order; and once more."""
    events = (call("completed"), call("ringing", seconds=-30), call("completed", "Hi", "Bye"))
    for number in order:
        await rig.ingest.handle(events[number])
    await rig.ingest.handle(call("completed", "Hi", "Bye"))
    rig.clock.advance(timedelta(minutes=10))
    await rig.auto_reply.once()
    voice = f"voice:{THEIRS}"
    assert (await rig.texts(voice), await rig.turns(voice)) == (["Hi", "Bye"], 1)
    [turn] = await rig.backbone.store.turns(voice, limit=9)
    assert (turn.flush_mode, turn.origin) == (FlushMode.IMMEDIATE, "voice")


async def test_what_a_state_tells_of_a_call_waits_for_the_report(rig: ChannelRig) -> None:
    """An end that comes before the whole transcript makes no turn of its own."""
    await rig.ingest.handle(replace(call("completed", "Hi"), whole=False))
    assert await rig.turns(f"voice:{THEIRS}") == 0
    await rig.ingest.handle(call("completed", "Hi", "Bye"))
    rig.clock.advance(timedelta(minutes=10))
    await rig.auto_reply.once()
    voice = f"voice:{THEIRS}"
    assert (await rig.texts(voice), await rig.turns(voice)) == (["Hi", "Bye"], 1)


async def test_a_call_whose_transcript_never_comes_is_settled_without(rig: ChannelRig) -> None:
    await rig.ingest.handle(call("completed"))
    assert await rig.turns(f"voice:{THEIRS}") == 0
    rig.clock.advance(timedelta(minutes=3))
    assert await rig.auto_reply.once() == 1
    for late in (call("ringing", seconds=-30), call("completed")):
        await rig.ingest.handle(late)
    rig.clock.advance(timedelta(minutes=4))
    assert await rig.auto_reply.once() == 0
    assert await rig.turns(f"voice:{THEIRS}") == 1


async def test_a_long_call_is_one_turn(rig: ChannelRig) -> None:
    await rig.ingest.handle(call("completed", *(f"word {number}" for number in range(75))))
    voice = f"voice:{THEIRS}"
    assert (len(await rig.texts(voice)), await rig.turns(voice)) == (75, 1)


def telegram(chat: str, number: int) -> InboundMessage:
    thread = Thread(f"telegram:{chat}")
    return sms(number, f"{chat} {number}", channel=Channel.TELEGRAM, provider_id=f"{chat}:{number}", thread=thread)


@pytest.mark.parametrize(
    "order", ["old move new", "old new move new", "old new move move", "new move old", "move new old"]
)
async def test_a_group_that_moved_is_one_conversation(rig: ChannelRig, order: str) -> None:
    """F34: its service messages come before, between or after what is said under the new id."""
    for number, what in enumerate(order.split(), 1):
        if what == "move":
            await rig.ingest.handle(ThreadMigrated("telegram:-45", "telegram:-100247", NOW))
        else:
            await rig.ingest.handle(telegram("-45" if what == "old" else "-100247", number))
    rows = (await rig.backbone.inbox.page(_everything())).rows
    assert len(rows) == 1
    said = order.split()
    expected = sorted(f"{'-45' if one == 'old' else '-100247'} {n}" for n, one in enumerate(said, 1) if one != "move")
    assert sorted(await rig.texts(rows[0].conversation.id)) == expected


def _everything() -> Any:
    from afterturn.inbox import InboxQuery

    return InboxQuery(limit=100)


async def test_an_edit_changes_what_is_stored_and_settles_nothing(rig: ChannelRig) -> None:
    """F8: an edit of nothing but its marks, then of its words, then the older one once more; and one of the unknown."""
    await rig.ingest.handle(telegram("-45", 10))
    edited = MessageEdited("-45:10", Thread("telegram:-45"), NOW + timedelta(seconds=20), "-45 10")
    for one in (
        edited,
        replace(edited, at=NOW + timedelta(seconds=40), text="go on"),
        replace(edited, at=NOW + timedelta(seconds=30), text="stop it"),
        replace(edited, provider_id="-45:11", text="who?"),
    ):
        assert (await rig.ingest.handle(one)).outcome == "edited"
    [message] = await rig.backbone.store.messages("telegram:-45")
    assert (message.text, message.edited_at) == ("go on", NOW + timedelta(seconds=40))
    assert await rig.turns("telegram:-45") == 1


async def test_an_edit_is_not_answered(rig: ChannelRig) -> None:
    """F8."""
    rig.responder = _words("Yes")
    await rig.ingest.handle(telegram("-45", 10))
    await rig.auto_reply.once()
    later = NOW + timedelta(seconds=40)
    await rig.ingest.handle(MessageEdited("-45:10", Thread("telegram:-45"), later, "go on"))
    rig.clock.advance(timedelta(minutes=5))
    assert await rig.auto_reply.once() == 0
    assert (await rig.texts("telegram:-45"), await rig.turns("telegram:-45")) == (["go on", "Yes"], 1)


async def test_what_means_nothing_is_nothing(rig: ChannelRig) -> None:
    assert (await rig.ingest.handle(Ignored("service"))).outcome == "nothing"
    assert (await rig.backbone.store.counts())["conversations"] == 0


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
    rig.responder = _words("Both.")
    await rig.ingest.handle(sms(1))
    await rig.ingest.handle(sms(2, "And the heating"))
    await rig.auto_reply.once()
    assert await rig.texts() == ["Hello", "And the heating", "Both."]
    assert await rig.auto_reply.once() == 0


async def test_the_parts_of_an_album_are_one_turn(rig: ChannelRig) -> None:
    """Also where nobody answers: they come one by one, within moments."""
    for number in range(3):
        await rig.ingest.handle(sms(number + 1, f"picture {number}", album="A1"))
    assert await rig.auto_reply.once() == 0
    rig.clock.advance(timedelta(seconds=3))
    assert await rig.auto_reply.once() == 1
    assert (len(await rig.texts()), await rig.turns()) == (3, 1)


@pytest.mark.parametrize("hush", list(SuppressReason))
async def test_what_a_machine_must_not_answer_is_stored_and_left_to_people(
    rig: ChannelRig, hush: SuppressReason
) -> None:
    """F16."""
    rig.responder = _words("No!")
    assert (await rig.ingest.handle(sms(1, suppress=hush))).outcome == "settled"
    assert await rig.auto_reply.once() == 0
    assert await rig.texts() == ["Hello"]


async def test_after_stop_no_machine_answers_until_start(rig: ChannelRig) -> None:
    rig.responder = _words("Hi")
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
    rig.responder = _words("Here I am")
    assert await rig.auto_reply.once() == 0
    rig.clock.advance(timedelta(minutes=3))
    assert await rig.auto_reply.once() == 1
    assert await rig.texts() == ["Hello", "Here I am"]
    assert len(await rig.dispatched()) == 1


def _words(text: str) -> Responder:
    async def answer(one: ReplyRequest) -> str:
        return text

    return answer


async def test_the_message_of_a_mail_that_we_sent_is_ours(rig: ChannelRig) -> None:
    await rig.ingest.handle(mail("one", extra={"direction": "outbound"}))
    [ours] = await rig.backbone.store.messages("mail:one")
    assert (ours.direction, ours.role) == (Direction.OUTBOUND, Role.AGENT)
