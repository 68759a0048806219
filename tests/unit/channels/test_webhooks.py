"""Every sample of every provider through its webhook into a real store: the response and the outcome are right."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from tests.unit.channels.channels import SAMPLES, here, request, sample, signed_sample
from tests.unit.channels.endpoints import endpoints_of
from tests.unit.channels.sns_rig import TOPIC, posted, signed
from tests.unit.channels.test_ingest import ChannelRig, opened
from tests.unit.channels.voice.test_signatures import retell_signed, token

from afterturn.channels.outlook import fetch as outlook_fetch
from afterturn.channels.ses import fetch as ses_fetch
from afterturn.channels.types import ChannelEvent, FetchRequest, SubscriptionEvent, WebhookRequest
from afterturn.channels.webhooks import MAX_BODY_BYTES, WebhookRouter
from afterturn.config import Settings
from afterturn.errors import StoreBusy
from afterturn.testing import ManualClock

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
"""When the signatures of the tests are made."""

SECRETS = Settings(
    twilio_auth_token="12345",
    telegram_secret="hush",
    sns_topics=(TOPIC,),
    graph_client_state="hush",
    vapi_secret="hush",
    retell_api_key="key_1",
    livekit_api_key="key_1",
    livekit_api_secret="hush",
    phone_region="US",
)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ChannelRig]:
    async with opened(tmp_path, ManualClock(NOW)) as rig:
        yield rig


class Front:
    """A router with every webhook; messages that a notification only names are read from the samples."""

    def __init__(self, rig: ChannelRig) -> None:
        self.kept: list[SubscriptionEvent] = []
        self.router = WebhookRouter(
            rig.ingest,
            rig.clock,
            endpoints_of(SECRETS),
            fetchers={"s3": self.from_s3, "graph": self.from_graph},
            subscriptions={"sns": self.keep, "graph": self.keep},
        )

    async def from_s3(self, asked: FetchRequest) -> ChannelEvent:
        return ses_fetch.parse_fetched(asked, sample("email-raw/iphone.eml"), now=NOW)

    async def from_graph(self, asked: FetchRequest) -> ChannelEvent:
        return outlook_fetch.parse_fetched(
            json.loads(sample("graph/message-get-response.json")), now=NOW, accounts=("a@b.example",)
        )

    async def keep(self, event: SubscriptionEvent) -> None:
        self.kept.append(event)


def called(name: str) -> tuple[str, WebhookRequest]:
    """The path and the signed request of a sample."""
    provider, file = name.split("/")
    body = sample(name)
    if provider == "twilio" or name.endswith(".form.txt"):
        request_, _ = signed_sample(name.removesuffix(".form.txt"))
        return "/hooks/twilio" if provider == "twilio" else "/hooks/twilio/voice", request_
    if provider == "telegram":
        return "/hooks/telegram", request(body, {"x-telegram-bot-api-secret-token": "hush"})
    if provider == "ses-sns":
        return "/hooks/ses", posted(_signed_anew(json.loads(body)))
    if provider == "graph":
        return "/hooks/graph", request(body)
    if file.startswith("vapi"):
        return "/hooks/vapi", request(body, {"x-vapi-secret": "hush"})
    if file.startswith("retell"):
        return "/hooks/retell", retell_signed(body, NOW)
    return "/hooks/livekit", request(body, {"authorization": token(body)})


def _signed_anew(envelope: dict[str, Any]) -> dict[str, Any]:
    """The samples' own signatures are examples; those of the documents are not in an envelope at all."""
    if "Type" not in envelope:
        return signed(Message=json.dumps(envelope))
    kept = {
        name: envelope[name] for name in ("Type", "Message", "Subject", "SubscribeURL", "Token") if name in envelope
    }
    return signed(**kept)


TURNS = {
    "twilio/sms-plain-us.form.txt": 1,
    "twilio/sms-plus-equals.form.txt": 1,
    "twilio/sms-gb-empty-geo.form.txt": 1,
    "twilio/mms-image-empty-body.form.txt": 1,
    "twilio/status-delivered.form.txt": 0,
    "twilio/whatsapp-inbound-unicode.form.txt": 1,
    "telegram/text-private.json": 1,
    "telegram/text-link-preview-disabled.json": 1,
    "telegram/sticker-animated.json": 1,
    "telegram/photo-sizes.json": 1,
    "telegram/group-migrate-to.json": 0,
    "telegram/group-migrate-from.json": 0,
    "telegram/photo-caption-entities.json": 1,
    "telegram/my-chat-member-blocked.json": 0,
    "telegram/unknown-update-kind.json": 0,
    "telegram/reply-to-story-command.json": 1,
    "telegram/text-emoji-cyrillic.json": 1,
    "telegram/pinned.json": 0,
    "telegram/docs-edited-message.json": 0,
    "telegram/docs-voice.json": 1,
    "telegram/docs-reply.json": 1,
    "telegram/docs-document.json": 1,
    "telegram/channel-post-json-text.json": 0,
    "telegram/voice-chatwoot.json": 1,
    "ses-sns/inbound-sns-utf8.json": 1,
    "ses-sns/inbound-s3.json": 1,
    "ses-sns/bounce.json": 0,
    "ses-sns/subscription-confirmation.json": 0,
    "ses-sns/complaint.json": 0,
    "ses-sns/docs-inner-notification-sns-action.json": 1,
    "graph/lifecycle-reauthorizationRequired.json": 0,
    "graph/lifecycle-subscriptionRemoved.json": 0,
    "graph/message-created.json": 1,
    "voice/vapi-end-of-call-2024.json": 1,
    "voice/vapi-status-ended.json": 0,
    "voice/vapi-docs-end-of-call.json": 1,
    "voice/retell-call-ended.json": 1,
    "voice/twilio-voice-completed.form.txt": 0,
    "voice/livekit-room-started.json": 0,
    "voice/livekit-agents-end-call-report.json": 1,
}
"""The turns that each makes at once. A call without a transcript waits for it; the rest is no turn at all."""

ELSEWHERE = {"graph/message-get-headers.json", "graph/message-get-response.json", "graph/validation-request.http"}


@here
def test_every_sample_of_a_webhook_is_called_here() -> None:
    folders = ("twilio", "telegram", "ses-sns", "graph", "voice")
    there = {f"{one}/{path.name}" for one in folders for path in (SAMPLES / one).iterdir()}
    assert {name for name in there if not name.endswith(("meta.json", "vectors.json"))} == TURNS.keys() | ELSEWHERE


@here
@pytest.mark.parametrize("name", TURNS)
async def test_a_sample_is_answered_with_success_and_makes_its_turns_once(rig: ChannelRig, name: str) -> None:
    path, request_ = called(name)
    front = Front(rig)
    for _ in range(2):
        answer = await front.router(path, request_)
        assert 200 <= answer.status < 300, answer.body
    counts = await rig.backbone.store.counts()
    assert counts["turns"] == TURNS[name]
    rig.clock.advance(rig.wait)
    await rig.auto_reply.once()
    waited = name in ("voice/twilio-voice-completed.form.txt", "voice/vapi-status-ended.json")
    assert (await rig.backbone.store.counts())["turns"] == TURNS[name] + waited
    kept = {"ses-sns/subscription-confirmation.json": 2, "graph/lifecycle-reauthorizationRequired.json": 2}
    assert len(front.kept) == kept.get(name, 2 * name.startswith("graph/lifecycle"))


@here
async def test_a_handshake_gets_what_it_asks_for(rig: ChannelRig) -> None:
    url = "https://example.com/hooks/graph?validationToken=abc%20def"
    answer = await Front(rig).router("/hooks/graph", WebhookRequest("POST", url, {}, b""))
    assert (answer.status, answer.body) == (200, "abc def")


@here
@pytest.mark.parametrize("name", TURNS)
async def test_without_its_signature_nothing_is_stored(rig: ChannelRig, name: str) -> None:
    path, request_ = called(name)
    body = request_.body.replace(b"secretClient", b"otherClient").replace(b'"Signature"', b'"Signatura"')
    answer = await Front(rig).router(path, WebhookRequest(request_.method, request_.url, {}, body))
    assert answer.status == 401
    assert set(json.loads(answer.body)["error"]) == {"code", "message"}
    counts = await rig.backbone.store.counts()
    assert (counts["messages"], counts["conversations"]) == (0, 0)


async def test_what_is_no_door_or_too_large_or_another_method_is_said(rig: ChannelRig) -> None:
    front = Front(rig)
    assert (await front.router("/hooks/fax", request(b""))).status == 404
    assert (await front.router("/hooks/telegram", WebhookRequest("PUT", "https://x/", {}, b""))).status == 405
    assert (await front.router("/hooks/telegram", request(b"x" * (MAX_BODY_BYTES + 1)))).status == 413


@here
async def test_a_store_that_is_out_makes_the_provider_send_it_again(
    rig: ChannelRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = Front(rig)
    path, request_ = called("telegram/text-private.json")

    async def busy(*_: object, **__: object) -> None:
        raise StoreBusy("the file is held")

    with monkeypatch.context() as broken:
        broken.setattr(rig.backbone, "settle", busy)
        answer = await front.router(path, request_)
    assert (answer.status, answer.headers["retry-after"]) == (503, "30")
    assert (await front.router(path, request_)).status == 200
    assert (await rig.backbone.store.counts())["turns"] == 1


def test_a_channel_without_its_secret_is_closed() -> None:
    assert endpoints_of(Settings()) == {}
    assert set(endpoints_of(Settings(telegram_secret="x"))) == {"/hooks/telegram"}


@pytest.mark.parametrize("body", [b"\xffXyzzy", b"[]", b'{"message": "Xyzzy"}', b'{"message": {"text": "Xyzzy"}}'])
async def test_what_is_genuine_and_cannot_be_read_is_told_loudly_and_without_content(
    rig: ChannelRig, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    before = unreadable("telegram")
    told = await Front(rig).router("/hooks/telegram", request(body, {"x-telegram-bot-api-secret-token": "hush"}))
    assert told.status == 200, "an error would make Telegram hold back everything that comes later"
    [warning] = [one for one in caplog.records if one.levelname == "WARNING"]
    assert warning.getMessage() == "action=webhook_unreadable channel=telegram"
    assert unreadable("telegram") - before == 1
    assert "Xyzzy" not in caplog.text


def unreadable(channel: str) -> float:
    return REGISTRY.get_sample_value("afterturn_webhooks_unreadable_total", {"channel": channel}) or 0.0
