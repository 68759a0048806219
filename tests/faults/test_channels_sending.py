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
from tests.unit.channels.sending.rig import ProviderAnswer

from afterturn.channels.state import SendStatus

SMS = f"sms:{THEIRS}"


@pytest.fixture
async def channel_app(tmp_path: Path) -> AsyncIterator[ChannelApp]:
    async with opened(tmp_path, responder=yes) as channel_app:
        yield channel_app


async def dispatched(channel_app: ChannelApp) -> list[tuple[str, str | None]]:
    found = channel_app.rows("SELECT value FROM state WHERE kind = ?", SendStatus.kind)
    told = [json.loads(value) for (value,) in found]
    return sorted((one["state"], one.get("reason")) for one in told)


@pytest.mark.parametrize("stop", ["STOP", "stop.", "Unsubscribe"])
async def test_what_a_machine_said_is_not_sent_after_stop(channel_app: ChannelApp, stop: str) -> None:
    """The answer was there, the provider was out; STOP came before the next try."""
    await channel_app.hear(sms(1))
    channel_app.twilio.next = [ProviderAnswer(503)]
    await channel_app.work()
    assert await dispatched(channel_app) == [("waiting", "unavailable")]
    await channel_app.hear(sms(2, stop))
    await channel_app.work(wait=timedelta(hours=1))
    assert channel_app.twilio.sent == []
    assert await dispatched(channel_app) == [("undeliverable", "opted-out")]
    await channel_app.hear(sms(3, "START"), sms(4, "Hello again"))
    await channel_app.work(wait=timedelta(minutes=1))
    assert [one["Body"] for one in channel_app.twilio.sent] == ["Re: Hello again"]


async def test_stop_while_somebody_is_being_asked_is_the_last_word(tmp_path: Path) -> None:
    async def slow(asked: Any) -> str:
        await one.hear(sms(2, "STOP"))
        return "As I was saying"

    async with opened(tmp_path, responder=slow) as one:
        await one.hear(sms(1))
        await one.work(wait=timedelta(seconds=1))
        assert one.twilio.sent == []


async def test_stop_counts_for_one_number_and_for_one_network(channel_app: ChannelApp) -> None:
    await channel_app.hear(
        sms(1, "STOP"),
        sms(2, "Hi", sender="+15550177000"),
        sms(3, "Hi", sender=f"whatsapp:{THEIRS}", to=f"whatsapp:{OURS}"),
    )
    await channel_app.work(wait=timedelta(seconds=1))
    assert sorted(one["To"] for one in channel_app.twilio.sent) == ["+15550177000", f"whatsapp:{THEIRS}"]


async def test_a_clock_that_was_ahead_delays_no_answer_and_loses_no_stop(channel_app: ChannelApp) -> None:
    """Somebody set it right: by a day."""
    right = channel_app.clock()
    channel_app.clock.set(right + timedelta(days=1))
    await channel_app.hear(sms(1), sms(2, "START"))
    await channel_app.work()
    channel_app.clock.set(right)
    await channel_app.hear(sms(3, "Again"))
    await channel_app.work(wait=timedelta(seconds=5))
    assert len(channel_app.twilio.sent) == 2
    await channel_app.hear(sms(4, "STOP"), sms(5, "Are you there?"))
    await channel_app.work(wait=timedelta(seconds=5))
    assert len(channel_app.twilio.sent) == 2


async def test_an_answer_goes_to_who_asked_whatever_comes_between(channel_app: ChannelApp) -> None:
    await channel_app.hear(sms(1, sender="+15550177000"), said(1, 1, "Hi"), mail_call(mime()), sms(2))
    await channel_app.work(wait=timedelta(seconds=1))
    assert sorted(one["To"] for one in channel_app.twilio.sent) == ["+15158226442", "+15550177000"]
    assert [one["chat_id"] for one in channel_app.telegram.sent] == [CHAT]
    assert [part.recipients for part, _ in channel_app.mailer.sent] == [("jo@tenants.example",)]


@pytest.mark.parametrize("place", range(4))
async def test_wherever_stop_comes_nothing_goes_out_after_it(channel_app: ChannelApp, place: int) -> None:
    """While the provider fails now and then, and everything is delivered twice."""
    calls = [sms(number, f"Text {number}") for number in range(3)]
    calls.insert(place, sms(9, "STOP"))
    for number, call in enumerate(calls):
        channel_app.twilio.next = [ProviderAnswer(503)] if number % 2 == 0 else []
        await channel_app.hear(call)
        if number == place:
            gone = len(channel_app.twilio.sent)
        await channel_app.work(wait=timedelta(seconds=20))
        await channel_app.hear(call)
    for _ in range(4):
        await channel_app.hear(*calls)
        await channel_app.work(wait=timedelta(hours=1))
    assert len(channel_app.twilio.sent) == gone


async def test_two_processes_that_hear_the_same_at_once_answer_it_once(tmp_path: Path) -> None:
    calls = [sms(1), sms(1), said(1, 1, "Hello"), said(1, 1, "Hello"), mail_call(mime()), mail_call(mime())]
    async with opened(tmp_path, responder=yes) as one, opened(tmp_path, responder=yes) as other:
        await asyncio.gather(*(channel_app.hear(call) for call in calls for channel_app in (one, other)))
        for _ in range(3):
            await asyncio.gather(*(channel_app.work(wait=timedelta(seconds=5)) for channel_app in (one, other)))
        assert [len(one.twilio.calls) + len(other.twilio.calls)] == [1]
        assert [len(one.telegram.calls) + len(other.telegram.calls)] == [1]
        assert [len(one.mailer.sent) + len(other.mailer.sent)] == [1]
        assert await one.count() == 3
