"""Who proves nothing, or proves it for something else, writes nothing: every door, over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.faults.channels_calls import (
    Call,
    graph_call,
    livekit_call,
    mail_call,
    mime,
    retell_call,
    said,
    sms,
    turn_call,
    twilio_voice,
    vapi_call,
    web_call,
)
from tests.faults.channels_rig import Desk, opened
from tests.unit.channels.channels import NOW

TURN = {
    "conversation": {"id": "t-1", "channel": "web"},
    "messages": [{"id": "m-1", "direction": "inbound", "role": "customer", "text": "Hi", "at": "2026-06-01T11:59:00Z"}],
}
REPORT = b'{"data": {"room_name": "r", "transcripts": [{"speaker": "user", "text": "Hi"}]}}'
CALL = {"call_id": "c-1", "transcript": "User: Hi"}

GOOD: dict[str, Call] = {
    "twilio": sms(1),
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
    return found


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with opened(tmp_path) as desk:
        yield desk


@pytest.mark.parametrize("name", GOOD)
async def test_only_the_very_thing_that_was_signed_comes_in(desk: Desk, name: str) -> None:
    before = desk.everything()
    for number, call in enumerate(forged(name)):
        answer = await desk.call(call)
        assert answer.status_code == 401, (number, answer.text)
        assert set(answer.json()["error"]) == {"code", "message"}
    assert desk.everything() == before
    await desk.hear(GOOD[name])
    assert await desk.count("messages") == 1


AGING = {
    "retell": timedelta(minutes=5, seconds=1),
    "livekit": timedelta(minutes=6, seconds=1),
    "web": timedelta(minutes=5, seconds=1),
    "turns": timedelta(minutes=5, seconds=1),
    "ses": timedelta(minutes=90, seconds=1),
}


@pytest.mark.parametrize("ahead", [False, True], ids=["old", "from the future"])
@pytest.mark.parametrize("name", AGING)
async def test_what_was_signed_at_another_time_is_let_in_no_more(desk: Desk, name: str, ahead: bool) -> None:
    desk.clock.set(NOW - AGING[name] if ahead else NOW + AGING[name])
    await desk.hear(GOOD[name], status=401)
    assert await desk.count("messages") == 0


async def test_of_a_batch_of_graph_only_what_names_our_secret_is_fetched(desk: Desk) -> None:
    good, bad = "Users/desk@homes.example/Messages/AAMk1", "Users/desk@homes.example/Messages/AAMk2"
    ours, theirs = json.loads(graph_call(good).body)["value"], json.loads(graph_call(bad, state="x").body)["value"]
    call = replace(graph_call(good), body=json.dumps({"value": [*theirs, *ours, *theirs]}).encode())
    await desk.hear(call, call)
    assert await desk.count("messages") == 1
    handshake = Call("/hooks/graph?validationToken=a%2Bb+c%3Ad", b"")
    for _ in range(2):
        answer = await desk.call(handshake)
        assert (answer.status_code, answer.text) == (200, "a+b c:d")
        assert answer.headers["content-type"].startswith("text/plain")


async def test_a_signature_for_one_door_opens_no_other(desk: Desk) -> None:
    texts, calls, web, turns = (GOOD[name] for name in ("twilio", "twilio voice", "web", "turns"))
    await desk.hear(replace(texts, target=calls.target), replace(calls, target=texts.target), status=401)
    # Web chat and turns may have one secret: what they say is told apart by its form.
    for call in (replace(web, target="/turns"), replace(turns, target="/hooks/web")):
        assert (await desk.call(call)).status_code in (400, 422)
    assert await desk.count("messages") == 0
