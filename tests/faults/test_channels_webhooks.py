"""Every webhook endpoint over HTTP: only what was signed comes in, nothing else is written, and it comes in once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.faults.channels_rig import ChannelApp, opened, yes
from tests.unit.channels.channels import NOW
from tests.unit.channels.provider_calls import (
    OURS,
    THEIRS,
    Call,
    graph_call,
    livekit_call,
    mail_call,
    mime,
    retell_call,
    said,
    sms,
    status,
    turn_call,
    twilio_call,
    twilio_signature,
    twilio_voice,
    vapi_call,
    web_call,
)

from afterturn.channels.responder import Responder

TURN = {
    "conversation": {"id": "t-1", "channel": "web"},
    "messages": [{"id": "m-1", "direction": "inbound", "role": "customer", "text": "Hi", "at": "2026-06-01T11:59:00Z"}],
}
REPORT = b'{"data": {"room_name": "r", "transcripts": [{"speaker": "user", "text": "Hi"}]}}'
CALL = {"call_id": "c-1", "transcript": "User: Hi"}

MMS = [("Body", "Hi"), ("FromCity", ""), ("NumMedia", "0"), ("MessageSid", "MM1"), ("From", THEIRS), ("To", OURS)]
MMS_QUERY = "b=2&a=hello+world"

GOOD: dict[str, Call] = {
    "twilio": sms(1),
    "twilio with blanks and a query": twilio_call(MMS, query=MMS_QUERY),
    "twilio voice": twilio_voice("completed", TranscriptionText="Hi", TranscriptionSid="T1"),
    "telegram": said(1, 1, "Hi"),
    "ses": mail_call(mime("Hi")),
    "graph": graph_call("Users/desk@homes.example/Messages/AAMk1"),
    "vapi": vapi_call({"type": "end-of-call-report", "call": {"id": "c-1"}, "transcript": "User: Hi"}),
    "retell": retell_call({"event": "call_ended", "call": CALL}),
    "livekit": livekit_call(REPORT),
    "web": web_call("v-1", 1, "Hi"),
    "turns": turn_call(TURN),
}
PROOF = {
    "twilio": "x-twilio-signature",
    "twilio with blanks and a query": "x-twilio-signature",
    "twilio voice": "x-twilio-signature",
    "telegram": "x-telegram-bot-api-secret-token",
    "vapi": "x-vapi-secret",
    "retell": "x-retell-signature",
    "livekit": "authorization",
    "web": "webhook-signature",
    "turns": "webhook-signature",
}
"""Where the proof is; of SNS and Graph it is in the body."""


def headed(call: Call, headers: Mapping[str, str]) -> Call:
    return replace(call, headers={**call.headers, **headers})


def forged(name: str) -> list[Call]:
    """What must not be let in, made of what is."""
    good = GOOD[name]
    if name == "graph":
        others = ("", "secretclientvalue", "secretClientValue ", "secretClientValu")
        return [graph_call("Users/desk@homes.example/Messages/AAMk1", state=other) for other in others]
    if name == "ses":
        body = json.loads(good.body)
        changed = [
            {"Signature": ""},
            {"Signature": body["Signature"][:-8] + "AAAAAA=="},
            {"Message": body["Message"].replace("ses0", "ses1")},
            {"TopicArn": "arn:aws:sns:us-east-1:222222222222:theirs"},
            {"SigningCertURL": "https://sns.us-east-1.amazonaws.com.mallory.example/SimpleNotificationService-a.pem"},
            {"SignatureVersion": "3"},
            {"Timestamp": "2026-06-01T12:00:01.000Z"},
        ]
        raw = headed(good, {"x-amz-sns-rawdelivery": "true"})
        return [*(replace(good, body=json.dumps({**body, **one}).encode()) for one in changed), raw]
    proof = PROOF[name]
    value = good.headers[proof]
    spelt = [value[:-1], value + "A", value.swapcase(), " ", "null", value[:-2] + ("A=" if value[-2] != "A" else "B=")]
    found = [
        replace(good, headers={key: text for key, text in good.headers.items() if key != proof}),
        *(headed(good, {proof: wrong}) for wrong in spelt),
    ]
    if name not in ("telegram", "vapi"):  # their proof is a word, whatever the body
        found.append(replace(good, body=good.body.replace(b"Hi", b"Ho").replace(b"Hello", b"Bye")))
    if proof == "x-twilio-signature":
        found += [replace(good, target=good.target + "?Body=Other"), replace(good, body=good.body + b"&Body=Other")]
    if "query" in name:
        for target, fields in (
            (f"/hooks/twilio?{MMS_QUERY}", [pair for pair in MMS if pair[1]]),
            ("/hooks/twilio?a=hello+world&b=2", MMS),
            ("/hooks/twilio?b=2&a=hello%20world", MMS),
            ("/hooks/twilio", MMS),
        ):
            found.append(headed(good, {proof: twilio_signature(target, fields)}))
    return found


@pytest.fixture
async def channel_app(tmp_path: Path) -> AsyncIterator[ChannelApp]:
    async with opened(tmp_path) as channel_app:
        yield channel_app


@pytest.mark.parametrize("name", GOOD)
async def test_only_the_request_that_was_signed_comes_in(channel_app: ChannelApp, name: str) -> None:
    before = channel_app.everything()
    for number, call in enumerate(forged(name)):
        answer = await channel_app.call(call)
        assert answer.status_code == 401, (number, answer.text)
        assert set(answer.json()["error"]) == {"code", "message"}
    assert channel_app.everything() == before
    await channel_app.hear(GOOD[name])
    assert await channel_app.count("messages") == 1


AGING = {
    "retell": timedelta(minutes=5, seconds=1),
    "livekit": timedelta(minutes=6, seconds=1),
    "web": timedelta(minutes=5, seconds=1),
    "turns": timedelta(minutes=5, seconds=1),
    "ses": timedelta(minutes=90, seconds=1),
}


@pytest.mark.parametrize("ahead", [False, True], ids=["old", "from the future"])
@pytest.mark.parametrize("name", AGING)
async def test_a_signature_of_another_time_is_refused(channel_app: ChannelApp, name: str, ahead: bool) -> None:
    channel_app.clock.set(NOW - AGING[name] if ahead else NOW + AGING[name])
    await channel_app.hear(GOOD[name], status=401)
    assert await channel_app.count("messages") == 0


async def test_only_notifications_of_a_graph_batch_with_our_secret_are_fetched(channel_app: ChannelApp) -> None:
    good, bad = "Users/desk@homes.example/Messages/AAMk1", "Users/desk@homes.example/Messages/AAMk2"
    ours, theirs = json.loads(graph_call(good).body)["value"], json.loads(graph_call(bad, state="x").body)["value"]
    call = replace(graph_call(good), body=json.dumps({"value": [*theirs, *ours, *theirs]}).encode())
    await channel_app.hear(call, call)
    assert await channel_app.count("messages") == 1
    handshake = Call("/hooks/graph?validationToken=a%2Bb+c%3Ad", b"")
    for _ in range(2):
        answer = await channel_app.call(handshake)
        assert (answer.status_code, answer.text) == (200, "a+b c:d")
        assert answer.headers["content-type"].startswith("text/plain")


async def test_a_signature_is_good_for_one_endpoint(channel_app: ChannelApp) -> None:
    texts, calls, web, turns = (GOOD[name] for name in ("twilio", "twilio voice", "web", "turns"))
    await channel_app.hear(replace(texts, target=calls.target), replace(calls, target=texts.target), status=401)
    # Web chat and turns may have one secret: what they say is told apart by its form.
    for call in (replace(web, target="/turns"), replace(turns, target="/hooks/web")):
        assert (await channel_app.call(call)).status_code in (400, 422)
    assert await channel_app.count("messages") == 0


SECOND = timedelta(seconds=1)
VAPI_CALL = {"id": "call-1", "customer": {"number": THEIRS}}
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
        said(4, 1, "Uno", kind="edited_message", at=NOW + SECOND),
    ],
    "mail": [
        mail_call(mime("One", name="a@x.example"), 1),
        mail_call(mime("Two", name="b@x.example", In_Reply_To="<a@x.example>"), 2, at=NOW + SECOND),
        mail_call(
            mime("Other", name="c@x.example", To="elm@homes.example"),
            3,
            at=NOW + 2 * SECOND,
            to=["elm@homes.example"],
        ),
    ],
    "twilio voice": [twilio_voice("ringing"), twilio_voice("completed", TranscriptionText="Hi", TranscriptionSid="T1")],
    "vapi": [
        vapi_call(
            {
                "type": "end-of-call-report",
                "call": {"id": "call-1", "customer": {"number": "+15158226442"}},
                "transcript": "AI: Hello\nUser: Hi",
            }
        )
    ],
    "retell": [retell_call({"event": "call_ended", "call": {"call_id": "c", "transcript": "User: Hi"}})],
    "livekit": [livekit_call(b'{"data": {"room_name": "r", "transcripts": [{"speaker": "user", "text": "Hi"}]}}')],
    "web": [web_call("v-1", 1, "Hi"), web_call("v-1", 2, "Still here")],
    "turns": [turn_call(TURN), turn_call({"conversation": {"id": "t-1", "channel": "web"}})],
}


@pytest.mark.parametrize("responder", [yes, None], ids=["answered", "not answered"])
@pytest.mark.parametrize("name", SERIES)
async def test_webhooks_that_are_sent_again_change_nothing(
    tmp_path: Path, name: str, responder: Responder | None
) -> None:
    async with opened(tmp_path, responder=responder) as channel_app:
        for call in SERIES[name]:
            await channel_app.hear(call)
            channel_app.clock.advance(SECOND)
        await channel_app.work(wait=timedelta(minutes=3))
        before = channel_app.lasting()
        sent = (len(channel_app.twilio.calls), len(channel_app.telegram.calls), len(channel_app.mailer.sent))
        for call in (*SERIES[name], *reversed(SERIES[name])):
            await channel_app.hear(call)
            await channel_app.work()
        assert channel_app.lasting() == before
        assert (len(channel_app.twilio.calls), len(channel_app.telegram.calls), len(channel_app.mailer.sent)) == sent
