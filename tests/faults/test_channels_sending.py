"""Answers on their way out, while things change around them: STOP, a clock that steps back, a provider that fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.faults.channels_rig import ChannelApp, opened, yes
from tests.unit.channels.provider_calls import CHAT, OURS, THEIRS, mail_call, mime, said, sms
from tests.unit.channels.sending.rig import Told

from afterturn.channels.state import SendStatus

SMS = f"sms:{THEIRS}"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ChannelApp]:
    async with opened(tmp_path, responder=yes) as desk:
        yield desk


async def dispatched(desk: ChannelApp) -> list[tuple[str, str | None]]:
    found = desk.rows("SELECT value FROM state WHERE kind = ?", SendStatus.kind)
    told = [json.loads(value) for (value,) in found]
    return sorted((one["state"], one.get("reason")) for one in told)


@pytest.mark.parametrize("stop", ["STOP", "stop.", "Unsubscribe"])
async def test_what_a_machine_said_is_not_sent_after_stop(desk: ChannelApp, stop: str) -> None:
    """The answer was there, the provider was out; STOP came before the next try."""
    await desk.hear(sms(1))
    desk.twilio.next = [Told(503)]
    await desk.work()
    assert await dispatched(desk) == [("waiting", "unavailable")]
    await desk.hear(sms(2, stop))
    await desk.work(wait=timedelta(hours=1))
    assert desk.twilio.sent == []
    assert await dispatched(desk) == [("undeliverable", "opted-out")]
    await desk.hear(sms(3, "START"), sms(4, "Hello again"))
    await desk.work(wait=timedelta(minutes=1))
    assert [one["Body"] for one in desk.twilio.sent] == ["Re: Hello again"]


async def test_stop_while_somebody_is_being_asked_is_the_last_word(tmp_path: Path) -> None:
    async def slow(asked: Any) -> str:
        await one.hear(sms(2, "STOP"))
        return "As I was saying"

    async with opened(tmp_path, responder=slow) as one:
        await one.hear(sms(1))
        await one.work(wait=timedelta(seconds=1))
        assert one.twilio.sent == []


async def test_stop_counts_for_one_number_and_for_one_network(desk: ChannelApp) -> None:
    await desk.hear(
        sms(1, "STOP"),
        sms(2, "Hi", sender="+15550177000"),
        sms(3, "Hi", sender=f"whatsapp:{THEIRS}", to=f"whatsapp:{OURS}"),
    )
    await desk.work(wait=timedelta(seconds=1))
    assert sorted(one["To"] for one in desk.twilio.sent) == ["+15550177000", f"whatsapp:{THEIRS}"]


async def test_a_clock_that_was_ahead_delays_no_answer_and_loses_no_stop(desk: ChannelApp) -> None:
    """Somebody set it right: by a day."""
    right = desk.clock()
    desk.clock.set(right + timedelta(days=1))
    await desk.hear(sms(1), sms(2, "START"))
    await desk.work()
    desk.clock.set(right)
    await desk.hear(sms(3, "Again"))
    await desk.work(wait=timedelta(seconds=5))
    assert len(desk.twilio.sent) == 2
    await desk.hear(sms(4, "STOP"), sms(5, "Are you there?"))
    await desk.work(wait=timedelta(seconds=5))
    assert len(desk.twilio.sent) == 2


async def test_an_answer_goes_to_who_asked_whatever_comes_between(desk: ChannelApp) -> None:
    await desk.hear(sms(1, sender="+15550177000"), said(1, 1, "Hi"), mail_call(mime()), sms(2))
    await desk.work(wait=timedelta(seconds=1))
    assert sorted(one["To"] for one in desk.twilio.sent) == ["+15158226442", "+15550177000"]
    assert [one["chat_id"] for one in desk.telegram.sent] == [CHAT]
    assert [part.recipients for part, _ in desk.mailer.sent] == [("jo@tenants.example",)]


@pytest.mark.parametrize("place", range(4))
async def test_wherever_stop_comes_nothing_goes_out_after_it(desk: ChannelApp, place: int) -> None:
    """While the provider fails now and then, and everything is delivered twice."""
    calls = [sms(number, f"Text {number}") for number in range(3)]
    calls.insert(place, sms(9, "STOP"))
    for number, call in enumerate(calls):
        desk.twilio.next = [Told(503)] if number % 2 == 0 else []
        await desk.hear(call)
        if number == place:
            gone = len(desk.twilio.sent)
        await desk.work(wait=timedelta(seconds=20))
        await desk.hear(call)
    for _ in range(4):
        await desk.hear(*calls)
        await desk.work(wait=timedelta(hours=1))
    assert len(desk.twilio.sent) == gone


async def test_two_processes_that_hear_the_same_at_once_answer_it_once(tmp_path: Path) -> None:
    calls = [sms(1), sms(1), said(1, 1, "Hello"), said(1, 1, "Hello"), mail_call(mime()), mail_call(mime())]
    async with opened(tmp_path, responder=yes) as one, opened(tmp_path, responder=yes) as other:
        await asyncio.gather(*(desk.hear(call) for call in calls for desk in (one, other)))
        for _ in range(3):
            await asyncio.gather(*(desk.work(wait=timedelta(seconds=5)) for desk in (one, other)))
        assert [len(one.twilio.calls) + len(other.twilio.calls)] == [1]
        assert [len(one.telegram.calls) + len(other.telegram.calls)] == [1]
        assert [len(one.mailer.sent) + len(other.mailer.sent)] == [1]
        assert await one.count() == 3
