"""The router of webhooks: what it refuses, what it answers when the store is out, what it logs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from tests.unit.channels.channel_rig import ChannelRig, opened
from tests.unit.channels.channels import here, request, sample
from tests.unit.channels.endpoints import endpoints_of

from afterturn.channels.types import WebhookRequest
from afterturn.channels.webhooks import MAX_BODY_BYTES, WebhookRouter
from afterturn.config import Settings
from afterturn.errors import StoreBusy
from afterturn.testing import ManualClock

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
"""When the signatures of the tests are made."""


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ChannelRig]:
    async with opened(tmp_path, ManualClock(NOW)) as rig:
        yield rig


@pytest.fixture
def router(rig: ChannelRig) -> WebhookRouter:
    return WebhookRouter(rig.ingest, rig.clock, endpoints_of(Settings(telegram_secret="hush")))


def update(body: bytes) -> WebhookRequest:
    return request(body, {"x-telegram-bot-api-secret-token": "hush"})


async def test_an_unknown_path_another_method_and_a_large_body_are_refused(router: WebhookRouter) -> None:
    assert (await router("/hooks/fax", request(b""))).status == 404
    assert (await router("/hooks/telegram", WebhookRequest("PUT", "https://x/", {}, b""))).status == 405
    assert (await router("/hooks/telegram", request(b"x" * (MAX_BODY_BYTES + 1)))).status == 413


@here
async def test_a_store_that_is_out_makes_the_provider_send_it_again(
    rig: ChannelRig, router: WebhookRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = update(sample("telegram/text-private.json"))

    async def busy(*_: object, **__: object) -> None:
        raise StoreBusy("the file is held")

    with monkeypatch.context() as broken:
        broken.setattr(rig.backbone, "settle", busy)
        response = await router("/hooks/telegram", message)
    assert (response.status, response.headers["retry-after"]) == (503, "30")
    assert (await router("/hooks/telegram", message)).status == 200
    assert (await rig.backbone.store.counts())["turns"] == 1


def test_a_channel_without_its_secret_is_closed() -> None:
    assert endpoints_of(Settings()) == {}
    assert set(endpoints_of(Settings(telegram_secret="x"))) == {"/hooks/telegram"}


@pytest.mark.parametrize("body", [b"\xffXyzzy", b"[]", b'{"message": "Xyzzy"}', b'{"message": {"text": "Xyzzy"}}'])
async def test_what_is_genuine_and_cannot_be_read_is_told_loudly_and_without_content(
    router: WebhookRouter, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    before = unreadable("telegram")
    assert (await router("/hooks/telegram", update(body))).status == 200, (
        "an error would make Telegram hold back everything that comes later"
    )
    [warning] = [one for one in caplog.records if one.levelname == "WARNING"]
    assert warning.getMessage() == "action=webhook_unreadable channel=telegram"
    assert unreadable("telegram") - before == 1
    assert "Xyzzy" not in caplog.text


def unreadable(channel: str) -> float:
    return REGISTRY.get_sample_value("afterturn_webhooks_unreadable_total", {"channel": channel}) or 0.0
