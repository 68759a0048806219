"""A mailbox in Outlook is looked through for what nobody told of: all of it, once, whatever is in the way."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.channels.outlook.graph_server import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    Office,
    clock,
    created,
    exchange,
    house,
    mail_found,
)
from tests.unit.channels.sending.outlook import MAILBOX

__all__ = ["clock", "exchange", "house"]


async def test_however_much_came_it_is_read_page_by_page_and_nothing_is_passed_over(house: Office) -> None:
    """Several come in one second; the server gives fewer than asked for; some go while they are listed."""
    await house.keep()
    house.exchange.page = 4
    for number in range(1, 31):
        house.exchange.deliver(number, NOW + MINUTE + timedelta(seconds=number // 3))
    gone: list[str] = []
    whole = house.exchange._list

    def listed(call: Any, mailbox: str) -> Any:
        answer = whole(call, mailbox)
        if len(gone) < 3:  # read by us or not, somebody deletes the oldest one
            oldest = house.exchange.mails[MAILBOX].pop(0)
            house.exchange.stored.pop(f"users/{MAILBOX}/messages/{oldest['id']}")
            gone.append(oldest["id"])
        return answer

    house.exchange._list = listed  # type: ignore[method-assign]
    await house.keep(HOUR)
    assert gone == ["AAMk1=", "AAMk2=", "AAMk3="]
    assert await house.texts() == [f"I am mail {number}." for number in range(2, 31)], "two were read before they went"


async def test_a_page_of_mail_of_one_second_is_told_and_does_not_go_on_for_ever(
    house: Office, caplog: pytest.LogCaptureFixture
) -> None:
    await house.keep()
    house.exchange.page = 2
    for number in range(1, 5):
        house.exchange.deliver(number, NOW + MINUTE)
    house.exchange.deliver(5, NOW + 2 * MINUTE)
    await house.keep(HOUR)
    assert "I am mail 5." in await house.texts()
    assert "action=mailbox_mail_skipped" in caplog.text


async def test_drafts_are_passed_over_until_they_are_sent(house: Office) -> None:
    await house.keep()
    house.exchange.deliver(1, NOW + MINUTE, isDraft=True)
    await house.keep(HOUR)
    assert await house.texts() == []
    house.exchange.mails[MAILBOX].clear()
    house.exchange.deliver(1, NOW + HOUR)
    await house.keep(HOUR)
    assert await house.texts() == ["I am mail 1."]


async def test_mail_that_was_told_of_is_not_counted_as_found(house: Office) -> None:
    await house.keep()
    before = mail_found()
    mail = house.exchange.deliver(1, NOW + MINUTE)
    house.exchange.deliver(2, NOW + HOUR - MINUTE)
    await house.told(created(mail))
    await house.keep(HOUR)
    assert mail_found() - before == 1
    house.exchange.calls.clear()
    await house.keep(16 * MINUTE)
    read = [call.path for call in house.exchange.calls if call.method == "GET"]
    assert read == [f"/v1.0/users/{MAILBOX}/messages"], "what was taken in is not fetched again, only listed"


async def test_a_mail_that_cannot_be_had_holds_up_no_other_and_is_tried_for_days(
    house: Office, caplog: pytest.LogCaptureFixture
) -> None:
    await house.keep()
    for number in range(1, 4):
        house.exchange.deliver(number, NOW + MINUTE * number)
    house.exchange.sick = {"AAMk2="}
    await house.keep(HOUR)
    assert await house.texts() == ["I am mail 1.", "I am mail 3."]
    for _ in range(40):
        await house.keep(HOUR)
    house.exchange.sick = set()
    await house.keep(HOUR)
    assert await house.texts() == ["I am mail 1.", "I am mail 2.", "I am mail 3."]
    assert "action=mail_missing" in caplog.text
    assert "mail 2" not in caplog.text


async def test_a_mail_that_can_never_be_had_is_given_up_loudly(house: Office, caplog: pytest.LogCaptureFixture) -> None:
    await house.keep()
    house.exchange.deliver(1, NOW + MINUTE)
    house.exchange.sick = {"AAMk1="}
    for _ in range(80):
        await house.keep(HOUR)
    assert "ERROR" in {one.levelname for one in caplog.records if "mail_given_up" in one.getMessage()}
    caplog.clear()
    await house.keep(HOUR)
    assert not caplog.records


async def test_mail_that_came_before_a_long_outage_of_ours_is_tried_as_long_as_any(house: Office) -> None:
    await house.keep()
    house.exchange.deliver(1, NOW + HOUR)
    house.exchange.sick = {"AAMk1="}
    await house.keep(4 * DAY)
    house.exchange.sick = set()
    await house.keep(HOUR)
    assert await house.texts() == ["I am mail 1."]


async def test_however_many_mails_in_a_row_can_never_be_had_others_come_in_some_day(house: Office) -> None:
    await house.keep()
    for number in range(1, 22):
        house.exchange.deliver(number, NOW + MINUTE * number)
    house.exchange.sick = {f"AAMk{number}=" for number in range(1, 21)}
    for _ in range(20):
        await house.keep(4 * HOUR)
    assert await house.texts() == ["I am mail 21."]


@pytest.mark.parametrize("ahead", [5 * HOUR, 300 * DAY])
async def test_a_clock_of_ours_that_was_ahead_for_a_while_stops_no_looking(house: Office, ahead: timedelta) -> None:
    """What comes meanwhile is found where the clock was ahead by less than a day, what comes later in any case."""
    await house.keep()
    house.clock.advance(ahead)
    await house.keep()
    house.exchange.deliver(1, NOW + MINUTE)
    house.exchange.mailboxes.clear()
    await house.keep(HOUR)
    house.clock.advance(-ahead)
    house.exchange.mailboxes.add(MAILBOX)
    house.exchange.deliver(2, NOW + HOUR)
    await house.keep(16 * MINUTE)
    assert await house.texts() == (["I am mail 1.", "I am mail 2."] if ahead < DAY else ["I am mail 2."])
