"""A mailbox in Outlook is looked through for what nobody told of: all of it, once, whatever is in the way."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.channels.outlook.graph_server import (
    DAY,
    HOUR,
    MAILBOX,
    MINUTE,
    NOW,
    OutlookRig,
    clock,
    created,
    exchange,
    mail_found,
    rig,
)

__all__ = ["clock", "exchange", "rig"]


async def test_however_much_came_it_is_read_page_by_page_and_nothing_is_passed_over(rig: OutlookRig) -> None:
    """Several come in one second; the server gives fewer than asked for; some go while they are listed."""
    await rig.keep()
    rig.exchange.page = 4
    for number in range(1, 31):
        rig.exchange.deliver(number, NOW + MINUTE + timedelta(seconds=number // 3))
    gone: list[str] = []
    whole = rig.exchange._list

    def listed(call: Any, mailbox: str) -> Any:
        answer = whole(call, mailbox)
        if len(gone) < 3:  # read by us or not, somebody deletes the oldest one
            oldest = rig.exchange.mails[MAILBOX].pop(0)
            rig.exchange.stored.pop(f"users/{MAILBOX}/messages/{oldest['id']}")
            gone.append(oldest["id"])
        return answer

    rig.exchange._list = listed  # type: ignore[method-assign]
    await rig.keep(HOUR)
    assert gone == ["AAMk1=", "AAMk2=", "AAMk3="]
    assert await rig.texts() == [f"I am mail {number}." for number in range(2, 31)], "two were read before they went"


async def test_a_page_of_mail_of_one_second_is_told_and_does_not_go_on_for_ever(
    rig: OutlookRig, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.keep()
    rig.exchange.page = 2
    for number in range(1, 5):
        rig.exchange.deliver(number, NOW + MINUTE)
    rig.exchange.deliver(5, NOW + 2 * MINUTE)
    await rig.keep(HOUR)
    assert "I am mail 5." in await rig.texts()
    assert "action=mailbox_mail_skipped" in caplog.text


async def test_drafts_are_passed_over_until_they_are_sent(rig: OutlookRig) -> None:
    await rig.keep()
    rig.exchange.deliver(1, NOW + MINUTE, isDraft=True)
    await rig.keep(HOUR)
    assert await rig.texts() == []
    rig.exchange.mails[MAILBOX].clear()
    rig.exchange.deliver(1, NOW + HOUR)
    await rig.keep(HOUR)
    assert await rig.texts() == ["I am mail 1."]


async def test_mail_that_was_told_of_is_not_counted_as_found(rig: OutlookRig) -> None:
    await rig.keep()
    before = mail_found()
    mail = rig.exchange.deliver(1, NOW + MINUTE)
    rig.exchange.deliver(2, NOW + HOUR - MINUTE)
    await rig.told(created(mail))
    await rig.keep(HOUR)
    assert mail_found() - before == 1
    rig.exchange.calls.clear()
    await rig.keep(16 * MINUTE)
    read = [call.path for call in rig.exchange.calls if call.method == "GET"]
    assert read == [f"/v1.0/users/{MAILBOX}/messages"], "what was taken in is not fetched again, only listed"


async def test_a_mail_that_cannot_be_had_holds_up_no_other_and_is_tried_for_days(
    rig: OutlookRig, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.keep()
    for number in range(1, 4):
        rig.exchange.deliver(number, NOW + MINUTE * number)
    rig.exchange.sick = {"AAMk2="}
    await rig.keep(HOUR)
    assert await rig.texts() == ["I am mail 1.", "I am mail 3."]
    for _ in range(40):
        await rig.keep(HOUR)
    rig.exchange.sick = set()
    await rig.keep(HOUR)
    assert await rig.texts() == ["I am mail 1.", "I am mail 2.", "I am mail 3."]
    assert "action=mail_missing" in caplog.text
    assert "mail 2" not in caplog.text


async def test_a_mail_that_can_never_be_had_is_given_up_loudly(
    rig: OutlookRig, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.keep()
    rig.exchange.deliver(1, NOW + MINUTE)
    rig.exchange.sick = {"AAMk1="}
    for _ in range(80):
        await rig.keep(HOUR)
    assert "ERROR" in {one.levelname for one in caplog.records if "mail_given_up" in one.getMessage()}
    caplog.clear()
    await rig.keep(HOUR)
    assert not caplog.records


async def test_mail_that_came_before_a_long_outage_of_ours_is_tried_as_long_as_any(rig: OutlookRig) -> None:
    await rig.keep()
    rig.exchange.deliver(1, NOW + HOUR)
    rig.exchange.sick = {"AAMk1="}
    await rig.keep(4 * DAY)
    rig.exchange.sick = set()
    await rig.keep(HOUR)
    assert await rig.texts() == ["I am mail 1."]


async def test_however_many_mails_in_a_row_can_never_be_had_others_come_in_some_day(rig: OutlookRig) -> None:
    await rig.keep()
    for number in range(1, 22):
        rig.exchange.deliver(number, NOW + MINUTE * number)
    rig.exchange.sick = {f"AAMk{number}=" for number in range(1, 21)}
    for _ in range(20):
        await rig.keep(4 * HOUR)
    assert await rig.texts() == ["I am mail 21."]


@pytest.mark.parametrize("ahead", [5 * HOUR, 300 * DAY])
async def test_a_clock_of_ours_that_was_ahead_for_a_while_stops_no_looking(rig: OutlookRig, ahead: timedelta) -> None:
    """What comes meanwhile is found where the clock was ahead by less than a day, what comes later in any case."""
    await rig.keep()
    rig.clock.advance(ahead)
    await rig.keep()
    rig.exchange.deliver(1, NOW + MINUTE)
    rig.exchange.mailboxes.clear()
    await rig.keep(HOUR)
    rig.clock.advance(-ahead)
    rig.exchange.mailboxes.add(MAILBOX)
    rig.exchange.deliver(2, NOW + HOUR)
    await rig.keep(16 * MINUTE)
    assert await rig.texts() == (["I am mail 1.", "I am mail 2."] if ahead < DAY else ["I am mail 2."])
