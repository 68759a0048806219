"""Calls by four providers: what was said in them, and what comes twice or out of order."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.channels.channels import (
    NOW,
    SAMPLES,
    form_request,
    here,
    json_request,
    only,
    request,
    sample,
)

from afterturn.channels.twilio.webhook import parse_call
from afterturn.channels.types import CallEvent, ChannelEvent, Ignored, Party, Rejected, WebhookRequest
from afterturn.channels.voice import livekit, retell, vapi
from afterturn.clock import to_millis
from afterturn.model import MAX_TEXT_BYTES, Direction, Role

READERS: dict[str, Callable[..., tuple[ChannelEvent, ...]]] = {
    "twilio-voice-completed.form.txt": parse_call,
    "vapi-end-of-call-2024.json": vapi.parse,
    "vapi-status-ended.json": vapi.parse,
    "vapi-docs-end-of-call.json": vapi.parse,
    "retell-call-ended.json": retell.parse,
    "livekit-room-started.json": livekit.parse,
    "livekit-agents-end-call-report.json": livekit.parse,
}
AGENT, CUSTOMER = (Direction.OUTBOUND, Role.AGENT), (Direction.INBOUND, Role.CUSTOMER)


def called(name: str) -> Any:
    return only(READERS[name](request(sample(f"voice/{name}")), now=NOW))


def said(call: CallEvent) -> list[tuple[tuple[Direction, Role], str]]:
    return [((entry.direction, entry.role), entry.text) for entry in call.utterances]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@here
def test_every_sample_is_tested() -> None:
    metas = {"twilio-voice-completed.meta.json", "livekit-room-started.meta.json"}
    assert {path.name for path in (SAMPLES / "voice").iterdir()} == READERS.keys() | metas


@here
def test_twilio_tells_that_a_call_ended_and_not_what_was_said() -> None:
    call = called("twilio-voice-completed.form.txt")
    assert (call.provider_id, call.state, call.ended) == ("CAd7fe2ad60939a04e564c0e4e3302ff5b", "completed", True)
    assert call.party == Party("+15555550136", "+15555550103")
    assert call.thread.conversation_id == "voice:+15555550103"
    assert (call.utterances, call.extra) == ((), {"seconds": "9"})


@here
def test_vapi_s_report_is_read_without_the_prompt() -> None:
    call = called("vapi-end-of-call-2024.json")
    assert (call.provider_id, call.state, call.ended) == ("b3da4a7a-6302-4635-becf-2903fc83e289", "completed", True)
    assert call.party == Party("00000000-0000-0000-0000-000000000002", "anonymous")
    assert call.thread.conversation_id == "voice:b3da4a7a-6302-4635-becf-2903fc83e289"
    assert said(call) == [
        (AGENT, "Hello. I'm Ava. How can I help you today?"),
        (CUSTOMER, "Hi, Eva. How are you?"),
        (AGENT, "Hello. I'm here to help. How can I assist you with Poshmark today?"),
    ]
    assert [entry.at for entry in call.utterances] == [
        at("2024-06-30T03:19:39.247"),
        at("2024-06-30T03:19:43.387"),
        at("2024-06-30T03:19:45.557"),
    ]
    assert call.extra == {
        "reason": "customer-ended-call",
        "recording": "https://recordings.example.com/b3da4a7a-mono.wav",
    }


@here
def test_vapi_s_status_ends_the_call_before_the_report_does() -> None:
    call = called("vapi-status-ended.json")
    assert (call.provider_id, call.state, call.ended) == ("0e33e75c-f693-406b-a7cb-7d15aec31b4e", "completed", True)
    assert said(call) == [(AGENT, "Hello. I'm Eva. How can I help you today?")]
    assert call.extra == {"reason": "silence-timed-out"}


@here
def test_vapi_s_documented_report_is_read_though_it_names_no_call() -> None:
    call, again = called("vapi-docs-end-of-call.json"), called("vapi-docs-end-of-call.json")
    assert said(call) == [(AGENT, "How can I help?"), (CUSTOMER, "What's the weather?")]
    assert call == again
    assert call.thread.conversation_id == f"voice:{call.provider_id}"


@here
def test_retell_s_account_is_read() -> None:
    call = called("retell-call-ended.json")
    assert (call.provider_id, call.state, call.ended) == ("Jabr9TXYYJHfvl6Syypi88rdAHYHmcq6", "completed", True)
    assert call.party == Party("+15555550135", "+15555550134")
    assert said(call) == [(AGENT, "Hi, how are you?"), (CUSTOMER, "I need help with a refund.")]
    assert {entry.at for entry in call.utterances} == {at("2024-05-02T00:07:55.945")}
    assert call.extra == {
        "reason": "user_hangup",
        "seconds": "16",
        "recording": "https://recordings.example.com/recording.wav",
    }


@here
def test_a_room_of_livekit_is_nothing_and_its_agent_s_report_is_a_call() -> None:
    assert called("livekit-room-started.json") == Ignored("room-started")
    call = called("livekit-agents-end-call-report.json")
    assert (call.provider_id, call.ended) == ("550e8400-e29b-41d4-a716-446655440000_abc123", True)
    assert call.party == Party("+15550200000", "+15550100000")
    assert [(entry.at, entry.text) for entry in call.utterances] == [
        (at("2024-01-15T10:00:01"), "Hello John, how can I help you today?"),
        (at("2024-01-15T10:00:05"), "I need help with my order."),
        (at("2024-01-15T10:00:08"), "I'd be happy to help. What's your order number?"),
    ]


# What comes twice and out of order


def vapi_report(*messages: tuple[str, str, int], **more: object) -> WebhookRequest:
    entries = [{"role": role, "message": text, "time": 1780300000000 + ms} for role, text, ms in messages]
    call = {"id": "c-1", "customer": {"number": "(515) 822-6442"}}
    return json_request({"message": {"type": "end-of-call-report", "call": call, "messages": entries} | more})


def vapi_status(status: str) -> WebhookRequest:
    call = {"id": "c-1", "customer": {"number": "+15158226442"}}
    return json_request({"message": {"type": "status-update", "status": status, "call": call}})


OURS, THEIRS = "+15555550100", "+15158226442"
PARTY = {"from_number": THEIRS, "to_number": OURS}


def twilio_call(state: str, **more: str) -> WebhookRequest:
    fields = {"CallSid": "c-1", "CallStatus": state, "From": THEIRS, "To": OURS, "Direction": "inbound"}
    return form_request(**fields, **more)


def retell_call(event: str, **more: object) -> WebhookRequest:
    return json_request({"event": event, "call": {"call_id": "c-1", "direction": "inbound", **PARTY, **more}})


def livekit_call(**more: object) -> WebhookRequest:
    return json_request({"data": {"room_name": "c-1", **PARTY, **more}})


@pytest.mark.parametrize(
    ("parse", "ended", "ringing", "whole"),
    [
        (
            parse_call,
            twilio_call("completed", CallDuration="9"),
            twilio_call("ringing"),
            twilio_call("completed", TranscriptionSid="TR1", TranscriptionText="It leaks"),
        ),
        (vapi.parse, vapi_status("ended"), vapi_status("ringing"), vapi_report(("user", "It leaks", 3_000))),
        (
            retell.parse,
            retell_call("call_ended"),
            retell_call("call_started"),
            retell_call("call_analyzed", transcript_object=[{"role": "user", "content": "It leaks"}]),
        ),
        (livekit.parse, livekit_call(), None, livekit_call(transcripts=[{"speaker": "user", "text": "It leaks"}])),
    ],
    ids=["twilio", "vapi", "retell", "livekit"],
)
def test_f31_an_ended_call_comes_again_with_its_transcript_and_never_opens_again(
    parse: Any, ended: WebhookRequest, ringing: WebhookRequest | None, whole: WebhookRequest
) -> None:
    deliveries = [ended, *([ringing] if ringing else []), whole, whole]
    calls = [only(parse(delivery, now=NOW, region="US")) for delivery in deliveries]
    assert {call.provider_id for call in calls} == {"c-1"}
    assert {call.thread.conversation_id for call in calls} == {f"voice:{THEIRS}"}
    assert [call.ended for call in calls] == [True, *([False] if ringing else []), True, True]
    assert [said(call) for call in calls[-2:]] == [[(CUSTOMER, "It leaks")]] * 2
    assert all(call.utterances == () for call in calls[:-2])
    assert calls[-1] == calls[-2]


def test_an_utterance_has_one_id_in_a_short_and_in_a_full_transcript() -> None:
    short = only(vapi.parse(vapi_report(("bot", "Hello", 0)), now=NOW))
    full = only(vapi.parse(vapi_report(("system", "Be kind", -1), ("bot", "Hello", 0), ("user", "Hi", 900)), now=NOW))
    assert short.utterances[0].provider_id == full.utterances[0].provider_id
    bare = {
        "event": "call_ended",
        "call": {"call_id": "r-1", "transcript_object": [{"role": "agent", "content": "Hi"}]},
    }
    whole = {"event": "call_analyzed", "call": {**bare["call"], "call_analysis": {"call_summary": "…"}}}  # type: ignore[dict-item]
    ended, analysed = (only(retell.parse(json_request(value), now=NOW)) for value in (bare, whole))
    assert ended.utterances == analysed.utterances


def test_two_utterances_of_one_moment_are_two_in_every_delivery() -> None:
    report = vapi_report(("user", "a", 5), ("bot", "b", 5), ("user", "c", 5))
    first, second = (only(vapi.parse(report, now=NOW)) for _ in range(2))
    assert [entry.text for entry in first.utterances] == ["a", "b", "c"]
    assert first == second


def test_twilio_s_callbacks_of_one_call_are_one_call() -> None:
    states = ["initiated", "ringing", "in-progress", "completed", "busy", "no-answer", "failed", "canceled", "odd"]
    calls = [
        only(parse_call(form_request(CallSid="CA1", CallStatus=state, From="+15158226442", To="+15555550100"), now=NOW))
        for state in states
    ]
    assert [call.state for call in calls] == [*states[:-1], "unknown"]
    assert [call.ended for call in calls] == [False] * 3 + [True] * 5 + [False]
    assert {(call.provider_id, call.thread.conversation_id) for call in calls} == {("CA1", "voice:+15158226442")}


# Who called, and what was said


@pytest.mark.parametrize("direction", ["inbound", "outbound-api", "outbound-dial"])
def test_the_customer_is_the_other_side_whoever_called(direction: str) -> None:
    ours, theirs = "+15555550100", "+15158226442"
    caller, dialled = (theirs, ours) if direction == "inbound" else (ours, theirs)
    form = form_request(CallSid="CA1", CallStatus="completed", Direction=direction, From=caller, To=dialled)
    assert only(parse_call(form, now=NOW)).party == Party(ours, theirs)
    call = {"call_id": "r", "direction": direction.partition("-")[0], "from_number": caller, "to_number": dialled}
    assert only(retell.parse(json_request({"event": "call_ended", "call": call}), now=NOW)).party == Party(ours, theirs)


@pytest.mark.parametrize("caller", ["", "anonymous", "Anonymous", "Restricted", "+266696687", "+7378742883", "unknown"])
def test_callers_without_a_number_are_not_taken_for_one_person(caller: str) -> None:
    calls = [
        only(parse_call(form_request(CallSid=sid, CallStatus="completed", From=caller, To="+1"), now=NOW))
        for sid in ("CA1", "CA2")
    ]
    assert [call.thread.conversation_id for call in calls] == ["voice:CA1", "voice:CA2"]
    assert {call.party.sender for call in calls} == {"anonymous"}


def test_a_message_on_tape_is_what_the_customer_said() -> None:
    form = form_request(
        CallSid="CA1",
        From="+15158226442",
        To="+15555550100",
        TranscriptionSid="TR1",
        TranscriptionText="The sink leaks",
        TranscriptionStatus="completed",
        RecordingUrl="https://api.twilio.com/RE1",
    )
    call = only(parse_call(form, now=NOW))
    assert (said(call), call.ended) == ([(CUSTOMER, "The sink leaks")], True)
    assert call.extra == {"recording": "https://api.twilio.com/RE1"}


NOISE = [
    "system",
    "developer",
    "tool",
    "tool_calls",
    "tool_call_result",
    "function",
    "tool_call_invocation",
    "",
    None,
    7,
]


@pytest.mark.parametrize("role", NOISE)
def test_neither_prompts_nor_tools_say_anything(role: object) -> None:
    entries = [
        {"role": role, "message": "secret", "content": "secret"},
        {"role": "user", "message": "Hi", "content": "Hi"},
    ]
    vapi_value = {"message": {"type": "end-of-call-report", "call": {"id": "c"}, "artifact": {"messages": entries}}}
    retell_value = {"event": "call_ended", "call": {"call_id": "c", "transcript_with_tool_calls": entries}}
    assert said(only(vapi.parse(json_request(vapi_value), now=NOW))) == [(CUSTOMER, "Hi")]
    assert said(only(retell.parse(json_request(retell_value), now=NOW))) == [(CUSTOMER, "Hi")]


@pytest.mark.parametrize(
    ("transcript", "expected"),
    [
        (
            "AI: Hello.\nUser: It leaks.\nBadly.\nAI: Soon.\n",
            [(AGENT, "Hello."), (CUSTOMER, "It leaks.\nBadly."), (AGENT, "Soon.")],
        ),
        (
            "AI: How can I help? User: What's the weather? ...",
            [(AGENT, "How can I help?"), (CUSTOMER, "What's the weather? ...")],
        ),
        ("User: at 10:30, note: urgent", [(CUSTOMER, "at 10:30, note: urgent")]),
        ("Somebody spoke", [(AGENT, "Somebody spoke")]),
        ("", []),
    ],
)
def test_a_transcript_that_is_one_text_is_better_than_none(transcript: str, expected: list[object]) -> None:
    message = {
        "type": "end-of-call-report",
        "call": {"id": "c"},
        "artifact": {"messages": [], "transcript": transcript},
    }
    assert said(only(vapi.parse(json_request({"message": message}), now=NOW))) == expected


def test_retell_s_text_is_read_where_it_sends_no_list() -> None:
    call = {"call_id": "c", "transcript": "Agent: Hi.\nUser: It leaks.\nTransfer Target: On my way."}
    found = said(only(retell.parse(json_request({"event": "call_ended", "call": call}), now=NOW)))
    assert found == [(AGENT, "Hi."), (CUSTOMER, "It leaks."), ((Direction.OUTBOUND, Role.OPERATOR), "On my way.")]


def test_utterances_keep_the_time_of_their_first_word() -> None:
    words = [{"word": "Hi", "start": 1.5, "end": 2}]
    entries = [{"role": "agent", "content": "Hi", "words": words}, {"role": "user", "content": "Yes"}]
    call = {"call_id": "c", "start_timestamp": 1780300000000, "transcript_object": entries}
    found = only(retell.parse(json_request({"event": "call_ended", "call": call}), now=NOW)).utterances
    assert [to_millis(entry.at) for entry in found] == [1780300001500] * 2


@pytest.mark.parametrize("time", [9_000_000_000_000, -1, "x", None, True, 1e400])
def test_no_clock_but_ours_makes_a_future(time: object) -> None:
    entries = [{"role": "user", "message": "Hi", "time": time}]
    message = {"type": "end-of-call-report", "call": {"id": "c"}, "messages": entries, "timestamp": time}
    assert only(vapi.parse(json_request({"message": message}), now=NOW)).utterances[0].at <= NOW


def test_an_utterance_that_no_record_can_hold_is_cut_and_said() -> None:
    call = only(vapi.parse(vapi_report(("user", "é" * 200_000, 0), ("bot", "Oh \ud83d", 1)), now=NOW))
    assert call.extra["cut"] == "400000"
    assert MAX_TEXT_BYTES - 2 < len(call.utterances[0].text.encode()) <= MAX_TEXT_BYTES
    assert call.utterances[1].text == "Oh \ufffd"


@pytest.mark.parametrize(
    ("reason", "state"),
    [("customer-busy", "busy"), ("customer-did-not-answer", "no-answer"), ("x y", "completed"), (None, "completed")],
)
def test_a_call_that_reached_nobody_says_so(reason: object, state: str) -> None:
    message = {"type": "status-update", "status": "ended", "call": {"id": "c"}, "endedReason": reason}
    assert only(vapi.parse(json_request({"message": message}), now=NOW)).state == state


@pytest.mark.parametrize(
    ("reason", "state"), [("dial_busy", "busy"), ("dial_no_answer", "no-answer"), ("dial_failed", "failed")]
)
def test_a_call_of_retell_that_reached_nobody_says_so(reason: str, state: str) -> None:
    call = {"call_id": "c", "disconnection_reason": reason}
    assert only(retell.parse(json_request({"event": "call_ended", "call": call}), now=NOW)).state == state


@pytest.mark.parametrize(
    ("read", "value", "reason"),
    [
        (vapi.parse, {"message": {"type": "conversation-update"}}, "conversation-update"),
        (vapi.parse, {"message": {"type": "tool-calls"}}, "tool-calls"),
        (vapi.parse, {"message": {"type": "of-next-year"}}, "of-next-year"),
        (vapi.parse, {"message": {"type": ["end-of-call-report"]}}, "unknown-kind"),
        (vapi.parse, {"message": []}, "unknown-kind"),
        (vapi.parse, {}, "unknown-kind"),
        (retell.parse, {"event": "transcript_updated", "call": {}}, "transcript-updated"),
        (retell.parse, {"event": "chat_ended", "chat": {}}, "chat-ended"),
        (retell.parse, {"event": "call_ended", "call": None}, "call-ended"),
        (retell.parse, {"event": {}}, "unknown-kind"),
        (livekit.parse, {"event": "participant_joined"}, "participant-joined"),
        (livekit.parse, {"event": "of_next_year"}, "of-next-year"),
        (livekit.parse, {"data": {}}, "unknown-kind"),
    ],
)
def test_what_ends_no_call_is_nothing_and_no_error(read: Any, value: object, reason: str) -> None:
    assert only(read(json_request(value), now=NOW)) == Ignored(reason)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"MessageSid": "SM1"}, "message"),
        ({"CallSid": "CA1", "RecordingSid": "RE1"}, "call-detail"),
        ({}, "unknown-kind"),
    ],
)
def test_what_is_no_call_of_twilio_is_nothing(form: dict[str, str], reason: str) -> None:
    assert only(parse_call(form_request(**form), now=NOW)) == Ignored(reason)


@pytest.mark.parametrize("read", [vapi.parse, retell.parse, livekit.parse])
@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b"call=1", b"1" * 5_000])
def test_what_is_not_json_is_refused(read: Any, body: bytes) -> None:
    with pytest.raises(Rejected) as answer:
        read(request(body), now=NOW)
    assert answer.value.status == 400
