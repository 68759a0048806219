"""Every sample file of every provider over HTTP: what is stored, who is answered, and that a repeat changes nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.faults.channels_rig import Desk, opened, yes
from tests.unit.channels.channels import NOW, SAMPLES, here, sample
from tests.unit.channels.email.test_samples import EXPECTED as MAILS
from tests.unit.channels.provider_calls import sample_call

from afterturn.channels.responder import Responder
from afterturn.channels.types import SuppressReason

ELSEWHERE = {
    "graph/message-get-headers.json",
    "graph/message-get-response.json",
    "graph/validation-request.http",
    "email-reply-text/expected_visible.json",
}
"""Read in tests of the provider."""


@here
def test_every_file_has_an_outcome_somewhere() -> None:
    """Of mails in email/test_samples.py, of their quotes in email/test_replies.py, of webhooks here."""
    files = {str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*") if path.is_file()}
    files -= {"INDEX.json", "SOURCES.md"}
    assert {entry["file"] for entry in json.loads(sample("INDEX.json"))} == files
    vectors = {name for name in files if name.endswith((".meta.json", "signature-vectors.json"))}
    replies = {name for name in files if name.startswith("email-reply-text/") and name.endswith(".txt")}
    mails = {f"email-raw/{name}.eml" for name in MAILS}
    assert files == vectors | replies | mails | SAID.keys() | NOTHING | ELSEWHERE


Said = tuple[str, list[str], bool]
"""A conversation, what stands in it without answers of ours (``>``: said by ours), and whether a machine answers."""

SAID: dict[str, Said] = {
    "twilio/sms-plain-us.form.txt": ("sms:+15555550142", ["Hi"], True),
    "twilio/sms-plus-equals.form.txt": ("sms:+15555550189", ["hi there, 2+3=4"], True),
    "twilio/sms-gb-empty-geo.form.txt": ("sms:+447700900513", ["Ack"], True),
    "twilio/mms-image-empty-body.form.txt": ("sms:+15555550174", [""], True),
    "twilio/whatsapp-inbound-unicode.form.txt": ("whatsapp:+15555550127", ["Olá"], True),
    "telegram/text-private.json": ("telegram:484979196", ["4"], True),
    "telegram/text-link-preview-disabled.json": ("telegram:236190290", ["hello there"], True),
    "telegram/sticker-animated.json": ("telegram:299951728", [""], True),
    "telegram/photo-sizes.json": ("telegram:299951728", [""], True),
    "telegram/photo-caption-entities.json": ("telegram:27439075", ["www.example.com"], True),
    "telegram/reply-to-story-command.json": ("telegram:-1000344576320", ["/report"], True),
    "telegram/text-emoji-cyrillic.json": ("telegram:299951728", ["Лол кек 😂"], True),
    "telegram/docs-voice.json": ("telegram:1111111", [""], True),
    "telegram/docs-reply.json": ("telegram:1111111", ["/start"], True),
    "telegram/docs-document.json": ("telegram:1111111", [""], True),
    "telegram/voice-chatwoot.json": ("telegram:23", [""], True),
    "ses-sns/inbound-sns-utf8.json": ("mail:CAEPk3RKsi@mail.example.org", ["It's a body…"], True),
    "ses-sns/inbound-s3.json": (
        "mail:7543970D-5DCE-4C89-907C-CF003D767B7A@d239.example.net",
        ["Hello\n\n\n\n\n\n~Dana"],
        True,
    ),
    "ses-sns/docs-inner-notification-sns-action.json": (
        "mail:61967230-7A45-4A9D-BEC9-87CBCF2211C9@example.com",
        ["Example content"],
        True,
    ),
    "graph/message-created.json": ("mail:graph-AAQkADOUpag6yWs=", ["The group represents Nevada."], True),
    "voice/vapi-end-of-call-2024.json": (
        "voice:b3da4a7a-6302-4635-becf-2903fc83e289",
        [
            ">Hello. I'm Ava. How can I help you today?",
            "Hi, Eva. How are you?",
            ">Hello. I'm here to help. How can I assist you with Poshmark today?",
        ],
        False,
    ),
    "voice/vapi-status-ended.json": (
        "voice:0e33e75c-f693-406b-a7cb-7d15aec31b4e",
        [">Hello. I'm Eva. How can I help you today?"],
        False,
    ),
    "voice/vapi-docs-end-of-call.json": (
        "voice:59c2b23a946b1b31f20c64383c81b1b7",
        [">How can I help?", "What's the weather?"],
        False,
    ),
    "voice/retell-call-ended.json": (
        "voice:+15555550134",
        [">Hi, how are you?", "I need help with a refund."],
        False,
    ),
    "voice/twilio-voice-completed.form.txt": ("voice:+15555550103", [], False),
    "voice/livekit-agents-end-call-report.json": (
        "voice:+15550100000",
        [
            ">Hello John, how can I help you today?",
            "I need help with my order.",
            ">I'd be happy to help. What's your order number?",
        ],
        False,
    ),
}

NOTHING = {
    "twilio/status-delivered.form.txt",
    "telegram/group-migrate-to.json",
    "telegram/group-migrate-from.json",
    "telegram/my-chat-member-blocked.json",
    "telegram/unknown-update-kind.json",
    "telegram/pinned.json",
    "telegram/docs-edited-message.json",
    "telegram/channel-post-json-text.json",
    "ses-sns/bounce.json",
    "ses-sns/subscription-confirmation.json",
    "ses-sns/complaint.json",
    "graph/lifecycle-reauthorizationRequired.json",
    "graph/lifecycle-subscriptionRemoved.json",
    "voice/livekit-room-started.json",
}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with opened(tmp_path, responder=yes) as desk:
        yield desk


def tries(desk: Desk) -> int:
    """How often anything was sent to anybody, taken or not."""
    return len(desk.twilio.calls) + len(desk.telegram.calls) + len(desk.mailer.sent)


@here
@pytest.mark.parametrize("name", SAID)
async def test_a_webhook_says_what_it_says_and_is_answered_once_by_a_machine_if_at_all(desk: Desk, name: str) -> None:
    conversation, texts, answered = SAID[name]
    await desk.hear(sample_call(name))
    await desk.work(wait=timedelta(minutes=3))
    assert desk.conversations() == [conversation]
    found = await desk.backbone.store.messages(conversation)
    assert [(">" if one.direction == "outbound" else "") + one.text for one in found] == [
        *texts,
        *([f">Re: {texts[-1]}"] if answered else []),
    ]
    assert (await desk.turns(conversation), tries(desk)) == (1, answered)


@here
async def test_a_webhook_without_a_message_stores_none(desk: Desk) -> None:
    for name in sorted(NOTHING):
        await desk.hear(sample_call(name))
    await desk.work(wait=timedelta(minutes=3))
    assert (desk.conversations(), await desk.count(), tries(desk)) == ([], 0, 0)
    assert [event.action for event in desk.upkept] == ["reauthorize", "recreate", "confirm"]


@here
async def test_without_its_signature_no_sample_changes_anything(desk: Desk) -> None:
    before = desk.everything()
    for name in (*SAID, *NOTHING):
        call = sample_call(name)
        body = call.body.replace(b"secretClient", b"otherClient").replace(b'"Signature"', b'"Signatura"')
        await desk.hear(replace(call, headers={}, body=body), status=401)
    assert desk.everything() == before


SENDER_OF_ENVELOPE = {"attached-pdf": "bounces@tenants.example"}
"""Mails that say nothing of their sender, and what the envelope says."""


@here
@pytest.mark.parametrize("name", MAILS)
async def test_a_mail_is_answered_once_where_a_person_wrote_it_and_goes_to_them(desk: Desk, name: str) -> None:
    expected = MAILS[name]
    await desk.hear(sample_call(f"email-raw/{name}.eml"))
    await desk.work(wait=timedelta(minutes=3))
    [conversation] = desk.conversations()
    found = [one for one in await desk.backbone.store.messages(conversation) if one.direction == "inbound"]
    assert [one.text.startswith(expected.begins) for one in found] == [True]
    assert len(found[0].attachments) == len(expected.files)
    to = [part.recipients for part, _ in desk.mailer.sent]
    assert to == ([] if expected.suppress else [(SENDER_OF_ENVELOPE.get(name, expected.sender),)])
    assert expected.suppress in {
        None,
        SuppressReason.BOUNCE,
        SuppressReason.BULK,
        SuppressReason.AUTO_REPLY,
        SuppressReason.RECEIPT,
        SuppressReason.COMPLAINT,
    }


@here
@pytest.mark.parametrize("responder", [yes, None], ids=["answered", "not answered"])
async def test_no_sample_changes_anything_when_it_comes_again(tmp_path: Path, responder: Responder | None) -> None:
    """All of them, one after the other, and once more from the last to the first."""
    tick = timedelta(milliseconds=10)
    names = [*SAID, *sorted(NOTHING), *(f"email-raw/{name}.eml" for name in MAILS)]
    calls = [sample_call(name, NOW + number * tick) for number, name in enumerate(names)]
    async with opened(tmp_path, responder=responder) as desk:
        for call in calls:
            await desk.hear(call)
            desk.clock.advance(tick)
        await desk.work(wait=timedelta(minutes=3))
        await desk.work(wait=timedelta(minutes=1))
        before = desk.lasting()
        await desk.hear(*reversed(calls))
        await desk.work()
        assert desk.lasting() == before
