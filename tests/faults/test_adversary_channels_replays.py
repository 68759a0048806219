"""What was signed once and is sent again, by a provider that heard nothing or whoever has read it: nothing changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.faults.channels_calls import (
    Call,
    livekit_call,
    mail_call,
    mime,
    retell_call,
    said,
    sample_call,
    sms,
    status,
    turn_call,
    twilio_voice,
    vapi_call,
    web_call,
)
from tests.faults.channels_rig import Desk, opened, yes
from tests.unit.channels.channels import NOW, SAMPLES, here
from tests.unit.channels.test_webhooks import TURNS

from afterturn.channels.state import EarlyEdit


@pytest.fixture(params=["people", "machine"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    async with opened(tmp_path, responder=yes if request.param == "machine" else None) as desk:
        yield desk


def kept(desk: Desk) -> dict[str, Any]:
    """Everything but edits that wait for a day in case that what they edit comes."""
    found = desk.everything()
    return found | {"state": [row for row in found["state"] if row[0] != EarlyEdit.kind]}


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {
        name: ([row for row in before[name] if row not in rows], [row for row in rows if row not in before[name]])
        for name, rows in after.items()
        if rows != before[name]
    }


SECOND, TICK = timedelta(seconds=1), timedelta(milliseconds=10)
TURN = {
    "conversation": {"id": "t-1", "channel": "web"},
    "messages": [
        {"id": "m-1", "direction": "inbound", "role": "customer", "text": "Hi", "at": "2026-06-01T11:59:00Z"},
    ],
}
CALL = {"id": "call-1", "customer": {"number": "+15158226442"}}
SERIES: dict[str, list[Call]] = {
    "twilio": [
        sms(1),
        sms(2, "And more"),
        sms(3, "STOP"),
        sms(4, "Hm"),
        sms(5, "START"),
        status(9, "delivered"),
        status(9, "sent"),
    ],
    "two numbers": [sms(1), sms(2, "To another", to="+15555550199")],
    "telegram": [
        said(1, 1, "One"),
        said(2, 2, "Two"),
        said(3, 1, "One!", kind="edited_message"),
        said(4, 1, "Uno", kind="edited_message", at=NOW + timedelta(seconds=1)),
    ],
    "mail": [
        mail_call(mime("One", name="a@x.example"), 1),
        mail_call(mime("Two", name="b@x.example", In_Reply_To="<a@x.example>"), 2, at=NOW + SECOND),
        mail_call(
            mime("Other", name="c@x.example", To="elm@homes.example"), 3, at=NOW + 2 * SECOND, to=["elm@homes.example"]
        ),
    ],
    "twilio voice": [twilio_voice("ringing"), twilio_voice("completed", TranscriptionText="Hi", TranscriptionSid="T1")],
    "vapi": [vapi_call({"type": "end-of-call-report", "call": CALL, "transcript": "AI: Hello\nUser: Hi"})],
    "retell": [retell_call({"event": "call_ended", "call": {"call_id": "c", "transcript": "User: Hi"}})],
    "livekit": [livekit_call(b'{"data": {"room_name": "r", "transcripts": [{"speaker": "user", "text": "Hi"}]}}')],
    "web": [web_call("v-1", 1, "Hi"), web_call("v-1", 2, "Still here")],
    "turns": [turn_call(TURN), turn_call({"conversation": {"id": "t-1", "channel": "web"}})],
}


@pytest.mark.parametrize("name", SERIES)
async def test_what_is_sent_again_changes_nothing(desk: Desk, name: str) -> None:
    for call in SERIES[name]:
        await desk.hear(call)
        desk.clock.advance(timedelta(seconds=1))
    await desk.work(wait=timedelta(minutes=3))
    before = kept(desk)
    sent = (len(desk.twilio.calls), len(desk.telegram.calls), len(desk.mailer.sent))
    for call in (*SERIES[name], *reversed(SERIES[name])):
        await desk.hear(call)
        await desk.work()
    assert differences(before, kept(desk)) == {}
    assert (len(desk.twilio.calls), len(desk.telegram.calls), len(desk.mailer.sent)) == sent


EVERY = [*TURNS, *(f"email-raw/{path.name}" for path in sorted((SAMPLES / "email-raw").glob("*.eml")))]


@here
async def test_no_sample_changes_anything_when_it_comes_again(desk: Desk) -> None:
    """All of them, one after the other, and once more from the last to the first."""
    calls = [sample_call(name, NOW + place * TICK) for place, name in enumerate(EVERY)]
    for call in calls:
        await desk.hear(call)
        desk.clock.advance(TICK)
    await desk.work(wait=timedelta(minutes=3))
    await desk.work(wait=timedelta(minutes=1))
    before = kept(desk)
    for call in reversed(calls):
        await desk.hear(call)
    await desk.work()
    assert differences(before, kept(desk)) == {}
