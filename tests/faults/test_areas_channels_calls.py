"""The known fault of calls (F31), as each provider of voice sends it, over HTTP, into a real store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from tests.faults.channels_calls import OURS, THEIRS, Call, livekit_call, retell_call, twilio_voice, vapi_call
from tests.faults.channels_rig import Desk, opened, yes
from tests.unit.channels.channels import NOW

from afterturn.clock import to_millis, to_text
from afterturn.model import FlushMode

VOICE = f"voice:{THEIRS}"
START = NOW - timedelta(minutes=3)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with opened(tmp_path, responder=yes) as desk:
        yield desk


def twilio() -> list[Call]:
    stamp = "Mon, 01 Jun 2026 11:5{}:00 +0000"
    whole = twilio_voice("completed", TranscriptionSid="TR1", TranscriptionText="The lift is stuck.", CallDuration="9")
    return [
        twilio_voice("completed", CallDuration="9", Timestamp=stamp.format(9)),
        twilio_voice("ringing", Timestamp=stamp.format(7)),
        whole,
        whole,
    ]


def vapi() -> list[Call]:
    call = {"id": "call-1", "customer": {"number": THEIRS}, "phoneNumber": {"number": OURS}}
    spoken = [{"role": "user", "message": "The lift is stuck.", "time": to_millis(START)}]
    status: dict[str, Any] = {"type": "status-update", "call": call, "startedAt": to_text(START)}
    whole = vapi_call({**status, "type": "end-of-call-report", "artifact": {"messages": spoken}})
    return [vapi_call({**status, "status": "ended"}), vapi_call({**status, "status": "ringing"}), whole, whole]


def retell() -> list[Call]:
    call = {
        "call_id": "call-1",
        "from_number": THEIRS,
        "to_number": OURS,
        "direction": "inbound",
        "start_timestamp": to_millis(START),
    }
    spoken = [{"role": "user", "content": "The lift is stuck.", "words": [{"start": 0.5}]}]
    whole = {"event": "call_analyzed", "call": {**call, "transcript_object": spoken}}
    return [
        retell_call({"event": "call_ended", "call": call}),
        retell_call({"event": "call_started", "call": call}),
        retell_call(whole),
        retell_call(whole),
    ]


def livekit() -> list[Call]:
    report = {"room_name": "call-1", "from_number": THEIRS, "to_number": OURS, "started_at": to_text(START)}
    spoken = [{"speaker": "user", "text": "The lift is stuck.", "timestamp": to_text(START)}]
    whole = livekit_call(json.dumps({"data": {**report, "transcripts": spoken}}).encode())
    return [
        livekit_call(json.dumps({"data": report}).encode()),
        livekit_call(json.dumps({"event": "room_started", "room": {"name": "call-1"}}).encode()),
        whole,
        whole,
    ]


PROVIDERS = {"twilio": twilio, "vapi": vapi, "retell": retell, "livekit": livekit}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
async def test_f31_a_call_that_ends_thrice_is_one_turn_flushed_once_with_its_words(
    desk: Desk, provider: str, order: tuple[int, ...]
) -> None:
    """Completed without words, ringing late, completed with them, and once more; in whatever order."""
    calls = PROVIDERS[provider]()
    for each in order:
        await desk.hear(calls[each])
    await desk.hear(calls[3])
    await desk.work(wait=timedelta(minutes=4))  # longer than words are waited for
    assert await desk.texts(VOICE) == ["The lift is stuck."]
    assert await desk.turns(VOICE) == 1
    [event] = desk.events()
    assert (event["flushMode"], event["origin"]) == (FlushMode.IMMEDIATE, "voice")
    assert (desk.conversations(), await desk.count()) == ([VOICE], 1)
    assert (desk.twilio.calls, desk.telegram.calls) == ([], [])


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_f31_a_call_without_words_is_one_turn_after_a_while_and_never_opens_again(
    desk: Desk, provider: str
) -> None:
    ended, ringing, *_ = PROVIDERS[provider]()
    await desk.hear(ended, ended)
    assert await desk.turns(VOICE) == 0
    await desk.work(wait=timedelta(minutes=4))
    again = PROVIDERS[provider]()
    await desk.hear(ringing, again[0])
    await desk.work(wait=timedelta(minutes=4))
    [event] = desk.events()
    assert (event["flushMode"], await desk.turns(VOICE)) == (FlushMode.IMMEDIATE, 1)
