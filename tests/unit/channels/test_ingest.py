"""Arrivals into a real store: each once, in its conversation, whatever comes twice, late or in the wrong order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from tests.unit.channels.channel_rig import NOW, THEIRS, ChannelRig, call, mail, sms, telegram, words
from tests.unit.channels.channels import json_request

from afterturn.channels.ingest import Ingest
from afterturn.channels.responder import ReplyRequest
from afterturn.channels.routing import Directory, RoutingRule
from afterturn.channels.state import (
    ContactName,
    DeliveryStatus,
    MessageDetails,
    Route,
    ThreadEntry,
    message_key,
)
from afterturn.channels.telegram.webhook import parse
from afterturn.channels.types import (
    DeliveryUpdate,
    Ignored,
    InboundMessage,
    MessageEdited,
    Party,
    SuppressReason,
    Thread,
    ThreadMigrated,
)
from afterturn.errors import StoreError
from afterturn.model import Channel, ConversationMeta, Direction, FlushMode, Message, Role, Turn
from afterturn.store.state import OptOut, StateRecord


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
    rig.responder = words("Yes")
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
        assert taken.outcome == "recorded"
    status = await rig.backbone.store.get(DeliveryStatus, "SM1")
    assert status is not None
    assert status.state == "delivered"
    assert await rig.backbone.store.counts() == {**await rig.backbone.store.counts(), "turns": 0}
    assert (await rig.ingest.handle(sms(1))).outcome == "settled"


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
    await rig.ingest.handle(replace(call("completed", "Hi"), is_final=False))
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


async def test_what_means_nothing_is_nothing(rig: ChannelRig) -> None:
    assert (await rig.ingest.handle(Ignored("service"))).outcome == "nothing"
    assert (await rig.backbone.store.counts())["conversations"] == 0


async def test_the_message_of_a_mail_that_we_sent_is_ours(rig: ChannelRig) -> None:
    await rig.ingest.handle(mail("one", extra={"direction": "outbound"}))
    [ours] = await rig.backbone.store.messages("mail:one")
    assert (ours.direction, ours.role) == (Direction.OUTBOUND, Role.AGENT)


@dataclass
class WatchingWriter:
    """A writer that looks, before it saves anything, at what is noted."""

    rig: ChannelRig
    seen: dict[str, list[str]] = field(default_factory=dict)

    async def save_messages(self, meta: ConversationMeta, messages: Sequence[Message], **more: Any) -> int:
        await self._look(meta, messages)
        return await self.rig.backbone.save_messages(meta, messages, **more)

    async def settle(self, turn: Turn, **more: Any) -> object:
        await self._look(turn.conversation, turn.messages)
        return await self.rig.backbone.settle(turn, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rig.backbone, name)

    async def _look(self, meta: ConversationMeta, messages: Sequence[Message]) -> None:
        store = self.rig.backbone.store
        for message in messages:
            keys: dict[type[StateRecord], list[str]] = {
                Route: [meta.id],
                MessageDetails: [message_key(meta.id, message.id)],
                ThreadEntry: [message.id],
            }
            known = await store.get_many(keys)
            self.seen[message.id] = sorted(kind.kind for kind in keys if known.all(kind))
            if await store.opt_out(Channel.SMS, THEIRS) is not None:
                self.seen[message.id].append("opt-out")


@pytest.mark.parametrize("answers_automatically", [True, False])
async def test_what_later_deliveries_need_is_remembered_before_the_message(
    rig: ChannelRig, *, answers_automatically: bool
) -> None:
    """A process that dies in between gets the message again; an immediate reply finds its route."""
    witness = WatchingWriter(rig)
    ingest = Ingest(witness, rig.backbone.store, rig.clock, directory=rig.directory, auto_reply=answers_automatically)
    await ingest.handle(sms(1, "STOP", suppress=SuppressReason.OPT_OUT, extra={"opt": "out"}))
    await ingest.handle(sms(2))
    await ingest.handle(mail("three", extra={"subject": "Hi"}))
    assert witness.seen == {
        "SM1": ["message-details", "route", "opt-out"],
        "SM2": ["route", "opt-out"],
        "three": ["message-details", "route", "thread", "opt-out"],
    }


class FailingStateStore:
    """A store that cannot write records of one kind, or opt-outs."""

    def __init__(self, rig: ChannelRig, kind: str) -> None:
        self._store = rig.backbone.store
        self._kind = kind

    async def put_all(self, records: Sequence[StateRecord]) -> Sequence[bool]:
        if any(record.kind == self._kind for record in records):
            raise StoreError("the disk is full")
        return await self._store.put_all(records)

    async def put_opt_out(self, opt_out: OptOut) -> bool:
        if self._kind == "opt-out":
            raise StoreError("the disk is full")
        return await self._store.put_opt_out(opt_out)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.parametrize("kind", [Route.kind, MessageDetails.kind, "opt-out"])
async def test_a_message_is_stored_only_after_what_belongs_to_it(rig: ChannelRig, kind: str) -> None:
    stop = sms(1, "STOP", suppress=SuppressReason.OPT_OUT, extra={"opt": "out"})
    with pytest.raises(StoreError, match="the disk is full"):
        await Ingest(rig.backbone, FailingStateStore(rig, kind), rig.clock).handle(stop)
    assert (await rig.backbone.store.counts())["conversations"] == 0
    await rig.ingest.handle(stop)
    assert await rig.texts() == ["STOP"]
    store = rig.backbone.store
    assert await store.get(Route, f"sms:{THEIRS}") is not None
    assert await store.get(MessageDetails, f"sms:{THEIRS} SM1") is not None
    assert await store.opt_out(Channel.SMS, THEIRS) is not None


MALLORY = Party("oak@example.com", "mallory@example.net")


async def to_recipient(one: ReplyRequest) -> str:
    return f"To {one.recipient}"


async def route(rig: ChannelRig, conversation_id: str = "mail:one") -> Route:
    route = await rig.backbone.store.get(Route, conversation_id)
    assert route is not None
    return route


@pytest.mark.parametrize(
    "forged",
    [
        mail("evil", after=("one",), party=MALLORY),
        mail("evil", after=("one",), party=MALLORY, participants=("mallory@example.net", "tenant@example.org")),
        mail("evil", after=("one",), party=MALLORY, suppress=SuppressReason.AUTO_REPLY),
        mail("one", party=MALLORY, text="The id of a mail that was taken"),
        replace(mail("evil", party=MALLORY), thread=mail("one").thread),
        mail("evil", after=("one",), participants=("mallory@example.net",), extra={"dmarc": "FAIL"}),
    ],
    ids=["names", "names and copies", "machine", "same id", "same root", "disowned"],
)
async def test_a_stranger_who_names_a_thread_is_shown_in_it_and_gets_no_answer_of_it(
    rig: ChannelRig, forged: InboundMessage
) -> None:
    """Neither now nor with what he sends next, and no reply of a person goes to him."""
    rig.responder = to_recipient
    await rig.ingest.handle(mail("one"))
    await rig.auto_reply.once()
    for number in range(2):
        again = replace(forged, provider_id=forged.provider_id if number == 0 else "evil-2", suppress=forged.suppress)
        await rig.ingest.handle(replace(again, suppress=forged.suppress if number == 0 else None))
        assert await rig.auto_reply.once() == 0
        assert (await route(rig)).recipient == "tenant@example.org"
    found = await rig.backbone.store.conversation("mail:one")
    assert found is not None
    assert found.participants == ("tenant@example.org",)
    assert "I am evil" in await rig.texts("mail:one") or forged.provider_id == "one"
    await rig.ingest.handle(mail("two", after=("one",), at=NOW + timedelta(seconds=1)))
    await rig.auto_reply.once()
    assert (await rig.texts("mail:one"))[-1] == "To tenant@example.org"


async def test_it_is_known_whose_words_a_stranger_s_are(rig: ChannelRig) -> None:
    await rig.ingest.handle(mail("one"))
    await rig.ingest.handle(mail("evil", after=("one",), party=MALLORY))
    details = await rig.backbone.store.get(MessageDetails, "mail:one evil")
    assert details is not None
    assert (details.suppress, details.facts) == ("not-in-thread", {"from": "mallory@example.net"})


async def test_a_stranger_brings_no_conversation_to_the_property_of_his_own(rig: ChannelRig) -> None:
    rig.directory = Directory(people={"mallory@example.net": "elm"})
    await rig.ingest.handle(mail("one"))
    await rig.ingest.handle(mail("evil", after=("one",), party=MALLORY))
    found = await rig.backbone.store.conversation("mail:one")
    assert found is not None
    assert found.property_id is None


async def test_whoever_was_in_copy_is_no_stranger(rig: ChannelRig) -> None:
    rig.responder = to_recipient
    await rig.ingest.handle(mail("one", participants=("flatmate@example.org",)))
    await rig.auto_reply.once()
    flatmate = Party("oak@example.com", "flatmate@example.org")
    await rig.ingest.handle(mail("two", after=("one",), party=flatmate, at=NOW + timedelta(seconds=1)))
    await rig.auto_reply.once()
    assert (await rig.texts("mail:one"))[-1] == "To flatmate@example.org"


async def test_what_was_signed_once_and_is_sent_again_revokes_nobody_s_last_word(rig: ChannelRig) -> None:
    """Twilio signs no time: a START of last month, sent again by whoever has read it, is as old as it was."""
    start, stop = (
        sms(1, "START", extra={"opt": "in"}),
        sms(2, "STOP", suppress=SuppressReason.OPT_OUT, extra={"opt": "out"}),
    )
    rig.clock.advance(timedelta(days=30))
    for one in (start, stop, replace(start, at=rig.clock())):
        await rig.ingest.handle(one)
    opt_out = await rig.backbone.store.opt_out(Channel.SMS, THEIRS)
    assert opt_out is not None
    assert opt_out.opted_out


async def test_a_second_delivery_stays_where_the_first_one_is_whatever_came_to_be_known(rig: ChannelRig) -> None:
    """The mail that it answers came after it, in another thread."""
    late = mail("late", after=("first",))
    await rig.ingest.handle(late)
    await rig.ingest.handle(mail("first"))
    await rig.ingest.handle(late)
    assert (await rig.texts("mail:late"), await rig.texts("mail:first")) == (["I am late"], ["I am first"])


async def test_an_old_mail_that_comes_again_does_not_turn_the_way_of_answers_back(rig: ChannelRig) -> None:
    one, two = mail("one"), mail("two", after=("one",), at=NOW + timedelta(seconds=5))
    for each in (one, two, one):
        await rig.ingest.handle(each)
    assert (await route(rig)).message_id == "two"


async def say(rig: ChannelRig, number: int, sender: dict[str, Any], at: timedelta = timedelta(0)) -> None:
    chat = {"id": 7, "type": "private"}
    message = {"message_id": number, "date": 1772366405, "chat": chat, "text": "Hi", **sender}
    [one] = parse(json_request({"update_id": number, "message": message}), now=NOW + at, bot="1")
    await rig.ingest.handle(one)


async def shown(rig: ChannelRig, *people: str) -> dict[str, str]:
    known = await rig.backbone.store.get_all(ContactName, people)
    return {person: name.text for person, name in known.items()}


async def test_somebody_on_telegram_is_shown_by_name_and_stays_the_same_address(rig: ChannelRig) -> None:
    await say(rig, 1, {"from": {"id": 77, "first_name": "Ada", "last_name": "Lovelace", "username": "ada"}})
    assert await shown(rig, "user77", "user78", "user77") == {"user77": "Ada Lovelace (@ada)"}
    found = await rig.backbone.store.conversation("telegram:7")
    assert found is not None
    assert (found.participants, found.contact_name) == (("user77",), "Ada Lovelace (@ada)")


async def test_the_newest_name_is_shown_whatever_comes_late(rig: ChannelRig) -> None:
    await say(rig, 1, {"from": {"id": 77, "first_name": "Ada King"}}, timedelta(seconds=9))
    await say(rig, 2, {"from": {"id": 77, "first_name": "Ada"}}, timedelta(seconds=5))
    assert await shown(rig, "user77") == {"user77": "Ada King"}


async def test_a_group_that_speaks_is_shown_by_its_title(rig: ChannelRig) -> None:
    bot = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
    await say(rig, 1, {"from": bot, "sender_chat": {"id": -100, "title": "ChannelRig 12"}})
    assert await shown(rig, "chat-100") == {"chat-100": "ChannelRig 12"}


async def test_who_bears_no_name_has_none_and_ours_are_not_told_as_theirs(rig: ChannelRig) -> None:
    await rig.ingest.handle(sms(1))
    await say(rig, 1, {"from": {"id": 77}})
    await rig.ingest.handle(replace(sms(2), extra={"name": "We", "direction": "outbound"}))
    assert await shown(rig, "user77", "+15158226442") == {}
    assert await shown(rig) == {}
