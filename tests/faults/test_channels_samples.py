"""Every sample file of every provider over HTTP: what is stored, who is answered, and that a repeat changes nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.faults.channels_rig import ChannelApp, opened, yes
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
    assert files == vectors | replies | mails | MESSAGES | CALLS | NOTHING | ELSEWHERE


MESSAGES = {
    "twilio/sms-plain-us.form.txt",
    "twilio/sms-plus-equals.form.txt",
    "twilio/sms-gb-empty-geo.form.txt",
    "twilio/mms-image-empty-body.form.txt",
    "twilio/whatsapp-inbound-unicode.form.txt",
    "telegram/text-private.json",
    "telegram/text-link-preview-disabled.json",
    "telegram/sticker-animated.json",
    "telegram/photo-sizes.json",
    "telegram/photo-caption-entities.json",
    "telegram/reply-to-story-command.json",
    "telegram/text-emoji-cyrillic.json",
    "telegram/docs-voice.json",
    "telegram/docs-reply.json",
    "telegram/docs-document.json",
    "telegram/voice-chatwoot.json",
    "ses-sns/inbound-sns-utf8.json",
    "ses-sns/inbound-s3.json",
    "ses-sns/docs-inner-notification-sns-action.json",
    "graph/message-created.json",
}
CALLS = {
    "voice/vapi-end-of-call-2024.json",
    "voice/vapi-status-ended.json",
    "voice/vapi-docs-end-of-call.json",
    "voice/retell-call-ended.json",
    "voice/twilio-voice-completed.form.txt",
    "voice/livekit-agents-end-call-report.json",
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
async def channel_app(tmp_path: Path) -> AsyncIterator[ChannelApp]:
    async with opened(tmp_path, responder=yes) as channel_app:
        yield channel_app


def tries(channel_app: ChannelApp) -> int:
    """How often anything was sent to anybody, taken or not."""
    return len(channel_app.twilio.calls) + len(channel_app.telegram.calls) + len(channel_app.mailer.sent)


@here
@pytest.mark.parametrize("name", sorted(MESSAGES | CALLS))
async def test_a_webhook_is_stored_once_and_a_message_is_answered_once(channel_app: ChannelApp, name: str) -> None:
    """Whose texts it holds, and in which conversation, is asserted by the tests of its provider."""
    await channel_app.hear(sample_call(name), sample_call(name))
    await channel_app.work(wait=timedelta(minutes=3))
    [conversation] = channel_app.conversations()
    assert (await channel_app.turns(conversation), tries(channel_app)) == (1, name in MESSAGES)
    if name in MESSAGES:
        [text, reply] = await channel_app.texts(conversation)
        assert reply == f"Re: {text}"


@here
async def test_a_webhook_without_a_message_stores_none(channel_app: ChannelApp) -> None:
    for name in sorted(NOTHING):
        await channel_app.hear(sample_call(name))
    await channel_app.work(wait=timedelta(minutes=3))
    assert (channel_app.conversations(), await channel_app.count(), tries(channel_app)) == ([], 0, 0)
    assert [event.action for event in channel_app.upkept] == ["reauthorize", "recreate", "confirm"]


@here
async def test_without_its_signature_no_sample_changes_anything(channel_app: ChannelApp) -> None:
    before = channel_app.everything()
    for name in (*MESSAGES, *CALLS, *NOTHING):
        call = sample_call(name)
        body = call.body.replace(b"secretClient", b"otherClient").replace(b'"Signature"', b'"Signatura"')
        await channel_app.hear(replace(call, headers={}, body=body), status=401)
    assert channel_app.everything() == before


SENDER_OF_ENVELOPE = {"attached-pdf": "bounces@tenants.example"}
"""Mails that say nothing of their sender, and what the envelope says."""


@here
@pytest.mark.parametrize("name", MAILS)
async def test_a_mail_is_answered_once_where_a_person_wrote_it_and_goes_to_them(
    channel_app: ChannelApp, name: str
) -> None:
    expected = MAILS[name]
    await channel_app.hear(sample_call(f"email-raw/{name}.eml"))
    await channel_app.work(wait=timedelta(minutes=3))
    [conversation] = channel_app.conversations()
    found = [one for one in await channel_app.backbone.store.messages(conversation) if one.direction == "inbound"]
    assert [one.text.startswith(expected.begins) for one in found] == [True]
    assert len(found[0].attachments) == len(expected.files)
    to = [part.recipients for part, _ in channel_app.mailer.sent]
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
    names = [*sorted(MESSAGES | CALLS | NOTHING), *(f"email-raw/{name}.eml" for name in MAILS)]
    calls = [sample_call(name, NOW + number * tick) for number, name in enumerate(names)]
    async with opened(tmp_path, responder=responder) as channel_app:
        for call in calls:
            await channel_app.hear(call)
            channel_app.clock.advance(tick)
        await channel_app.work(wait=timedelta(minutes=3))
        await channel_app.work(wait=timedelta(minutes=1))
        before = channel_app.lasting()
        await channel_app.hear(*reversed(calls))
        await channel_app.work()
        assert channel_app.lasting() == before
