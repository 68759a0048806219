"""Somebody who means ill writes mail, or sends again what was signed once: nobody else's answers come to him."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.channels.test_ingest import NOW, THEIRS, ChannelRig, mail, rig, sms

from afterturn.channels.responder import ReplyRequest
from afterturn.channels.routing import Directory
from afterturn.channels.state import MessageDetails, Route
from afterturn.channels.types import InboundMessage, Party, SuppressReason
from afterturn.model import Channel

__all__ = ["rig"]

MALLORY = Party("oak@example.com", "mallory@example.net")


async def said(one: ReplyRequest) -> str:
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
    rig.responder = said
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
    assert (details.suppress, details.facts) == ("stranger", {"from": "mallory@example.net"})


async def test_a_stranger_brings_no_conversation_to_the_property_of_his_own(rig: ChannelRig) -> None:
    rig.directory = Directory(people={"mallory@example.net": "elm"})
    await rig.ingest.handle(mail("one"))
    await rig.ingest.handle(mail("evil", after=("one",), party=MALLORY))
    found = await rig.backbone.store.conversation("mail:one")
    assert found is not None
    assert found.property_id is None


async def test_whoever_was_in_copy_is_no_stranger(rig: ChannelRig) -> None:
    rig.responder = said
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
