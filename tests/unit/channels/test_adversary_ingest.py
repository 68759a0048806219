"""Somebody who means ill writes mail, or sends again what was signed once: nobody else's answers come to him."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.channels.test_ingest import NOW, THEIRS, House, house, mail, sms

from afterturn.channels.responder import ReplyRequest
from afterturn.channels.routing import Directory
from afterturn.channels.state import MessageDetails, Route
from afterturn.channels.types import InboundMessage, Party, SuppressReason
from afterturn.model import Channel

__all__ = ["house"]

MALLORY = Party("oak@example.com", "mallory@example.net")


async def said(one: ReplyRequest) -> str:
    return f"To {one.recipient}"


async def route(house: House, conversation_id: str = "mail:one") -> Route:
    route = await house.backbone.store.get(Route, conversation_id)
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
    house: House, forged: InboundMessage
) -> None:
    """Neither now nor with what he sends next, and no reply of a person goes to him."""
    house.responder = said
    await house.intake.handle(mail("one"))
    await house.answering.once()
    for number in range(2):
        again = replace(forged, provider_id=forged.provider_id if number == 0 else "evil-2", suppress=forged.suppress)
        await house.intake.handle(replace(again, suppress=forged.suppress if number == 0 else None))
        assert await house.answering.once() == 0
        assert (await route(house)).recipient == "tenant@example.org"
    found = await house.backbone.store.conversation("mail:one")
    assert found is not None
    assert found.participants == ("tenant@example.org",)
    assert "I am evil" in await house.texts("mail:one") or forged.provider_id == "one"
    await house.intake.handle(mail("two", after=("one",), at=NOW + timedelta(seconds=1)))
    await house.answering.once()
    assert (await house.texts("mail:one"))[-1] == "To tenant@example.org"


async def test_it_is_known_whose_words_a_stranger_s_are(house: House) -> None:
    await house.intake.handle(mail("one"))
    await house.intake.handle(mail("evil", after=("one",), party=MALLORY))
    details = await house.backbone.store.get(MessageDetails, "mail:one evil")
    assert details is not None
    assert (details.suppress, details.facts) == ("stranger", {"from": "mallory@example.net"})


async def test_a_stranger_brings_no_conversation_to_the_property_of_his_own(house: House) -> None:
    house.directory = Directory(people={"mallory@example.net": "elm"})
    await house.intake.handle(mail("one"))
    await house.intake.handle(mail("evil", after=("one",), party=MALLORY))
    found = await house.backbone.store.conversation("mail:one")
    assert found is not None
    assert found.property_id is None


async def test_whoever_was_in_copy_is_no_stranger(house: House) -> None:
    house.responder = said
    await house.intake.handle(mail("one", participants=("flatmate@example.org",)))
    await house.answering.once()
    flatmate = Party("oak@example.com", "flatmate@example.org")
    await house.intake.handle(mail("two", after=("one",), party=flatmate, at=NOW + timedelta(seconds=1)))
    await house.answering.once()
    assert (await house.texts("mail:one"))[-1] == "To flatmate@example.org"


async def test_what_was_signed_once_and_is_sent_again_revokes_nobody_s_last_word(house: House) -> None:
    """Twilio signs no time: a START of last month, sent again by whoever has read it, is as old as it was."""
    start, stop = (
        sms(1, "START", extra={"opt": "in"}),
        sms(2, "STOP", suppress=SuppressReason.OPT_OUT, extra={"opt": "out"}),
    )
    house.clock.advance(timedelta(days=30))
    for one in (start, stop, replace(start, at=house.clock())):
        await house.intake.handle(one)
    opt_out = await house.backbone.store.opt_out(Channel.SMS, THEIRS)
    assert opt_out is not None
    assert opt_out.opted_out


async def test_a_second_delivery_stays_where_the_first_one_is_whatever_came_to_be_known(house: House) -> None:
    """The mail that it answers came after it, in another thread."""
    late = mail("late", after=("first",))
    await house.intake.handle(late)
    await house.intake.handle(mail("first"))
    await house.intake.handle(late)
    assert (await house.texts("mail:late"), await house.texts("mail:first")) == (["I am late"], ["I am first"])


async def test_an_old_mail_that_comes_again_does_not_turn_the_way_of_answers_back(house: House) -> None:
    one, two = mail("one"), mail("two", after=("one",), at=NOW + timedelta(seconds=5))
    for each in (one, two, one):
        await house.intake.handle(each)
    assert (await route(house)).message_id == "two"
