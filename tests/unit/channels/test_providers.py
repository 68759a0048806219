"""A channel may have several providers; the account that the customer wrote to selects one."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from afterturn import App
from afterturn.bootstrap import open_backbone
from afterturn.bootstrap.channels import open_channels
from afterturn.channels.provider import Provider, ProviderConnection, ProviderContext, SenderBinding, choose_sender
from afterturn.channels.registry import PROVIDERS
from afterturn.channels.responder import ReplyRequest
from afterturn.channels.sending import OutboundMessage, SendReceipt
from afterturn.channels.types import InboundMessage, Party, Rejected, Thread, WebhookRequest
from afterturn.channels.webhooks import WebhookEndpoint
from afterturn.clock import system_clock
from afterturn.config import Settings
from afterturn.model import Channel
from afterturn.setting_types import Words

CUSTOMER = "+15158226442"


class FakeSender:
    """Takes down what it is asked to send."""

    def __init__(self) -> None:
        self.sent: list[OutboundMessage] = []

    def parts(self, message: OutboundMessage) -> tuple[OutboundMessage, ...]:
        return (message,)

    async def send(self, part: OutboundMessage) -> SendReceipt:
        self.sent.append(part)
        return SendReceipt(f"{part.account}-{len(self.sent)}", system_clock())


class AcmeSettings(BaseModel):
    """A second SMS provider."""

    acme_token: SecretStr | None = Field(None, description="Token of the Acme account.")
    acme_numbers: Words = Field((), description="Numbers of the Acme account.")


class ZapSettings(BaseModel):
    """A second WhatsApp provider."""

    zap_token: SecretStr | None = Field(None, description="Token of the Zap account.")
    zap_numbers: Words = Field((), description="WhatsApp numbers of the Zap account.")


class ManySettings(AcmeSettings, ZapSettings, Settings):
    """As ``Settings`` is composed when both stand in the registry."""


def provider_module(name: str, prefix: str, sender: FakeSender, monkeypatch: pytest.MonkeyPatch) -> Provider:
    """A provider whose folder is made here: its webhook takes JSON, its sender keeps what it sends."""

    def parse(request: WebhookRequest, now: Any) -> tuple[InboundMessage, ...]:
        body = json.loads(request.body)
        return (
            InboundMessage(
                channel=Channel.SMS,
                provider_id=body["id"],
                party=Party(prefix + body["to"], prefix + body["from"]),
                thread=Thread(prefix + body["from"] if prefix else f"sms:{body['from']}"),
                at=now,
                text=body["text"],
                participants=(prefix + body["from"],),
            ),
        )

    @asynccontextmanager
    async def connect(settings: Any, context: ProviderContext) -> AsyncIterator[ProviderConnection]:
        token = getattr(settings, f"{name}_token").get_secret_value()

        def verify(request: WebhookRequest, now: Any) -> None:
            if request.headers.get("x-token") != token:
                raise Rejected(401, "the token is wrong")

        accounts = frozenset(prefix + number for number in getattr(settings, f"{name}_numbers"))
        yield ProviderConnection({name: WebhookEndpoint(verify, parse)}, [SenderBinding(Channel.SMS, sender, accounts)])

    module = ModuleType(f"afterturn_test_{name}")
    module.connect = connect  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    settings = {"acme": AcmeSettings, "zap": ZapSettings}[name]
    return Provider(name=name, settings=settings, opened_by=f"{name}_token", module=module.__name__)


async def test_a_second_sms_and_a_second_whatsapp_provider_take_one_registry_entry_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages come in by the provider's own webhook, and the reply goes out through the same provider."""
    monkeypatch.setenv("AFTERTURN_ACME_TOKEN", "acme-token")
    monkeypatch.setenv("AFTERTURN_ACME_NUMBERS", "+15550001111, +15550002222")
    monkeypatch.setenv("AFTERTURN_ZAP_TOKEN", "zap-token")
    monkeypatch.setenv("AFTERTURN_ZAP_NUMBERS", "+15550003333")
    acme, zap = FakeSender(), FakeSender()
    providers = (
        *PROVIDERS,
        provider_module("acme", "", acme, monkeypatch),
        provider_module("zap", "whatsapp:", zap, monkeypatch),
    )
    settings = ManySettings(db=tmp_path / "a.db")

    async def responder(request: ReplyRequest) -> str:
        return f"From {request.account}"

    async with (
        open_backbone(App(shipped=False), settings) as backbone,
        open_channels(
            backbone, backbone.store, settings, backbone.clock, responder=responder, providers=providers
        ) as channels,
    ):
        assert set(channels.router.endpoints) == {"/hooks/acme", "/hooks/zap"}
        for name, account in (("acme", "+15550002222"), ("zap", "+15550003333")):
            body = {"id": f"{name}-1", "from": CUSTOMER, "to": account, "text": "Hello"}
            request = WebhookRequest("POST", "", {"x-token": f"{name}-token"}, json.dumps(body).encode())
            assert (await channels.router(f"/hooks/{name}", request)).status == 200
            await channels.jobs.once()
            await channels.jobs.once()
    assert [(sent.account, sent.recipients, sent.text) for sent in acme.sent] == [
        ("+15550002222", (CUSTOMER,), "From +15550002222")
    ]
    assert [(sent.account, sent.recipients, sent.text) for sent in zap.sent] == [
        ("whatsapp:+15550003333", (f"whatsapp:{CUSTOMER}",), "From whatsapp:+15550003333")
    ]


def outbound(account: str) -> OutboundMessage:
    return OutboundMessage("c-1", "m-1", Channel.SMS, account, (CUSTOMER,), "Hello")


def test_the_claiming_provider_sends_then_one_that_takes_any_account_then_the_first_of_the_channel() -> None:
    any_account, claimed, mail = FakeSender(), FakeSender(), FakeSender()
    bindings = [
        SenderBinding(Channel.EMAIL, mail),
        SenderBinding(Channel.SMS, claimed, frozenset({"+15550002222"})),
        SenderBinding(Channel.SMS, any_account),
    ]
    assert choose_sender(bindings, outbound("+15550002222")) is claimed
    assert choose_sender(bindings, outbound("+15550009999")) is any_account
    assert choose_sender(bindings[:2], outbound("+15550009999")) is claimed
    assert choose_sender(bindings[:1], outbound("+15550002222")) is None


def test_every_setting_of_a_provider_is_a_setting_and_its_webhook_has_a_key() -> None:
    for provider in PROVIDERS:
        assert provider.settings.model_fields.keys() <= Settings.model_fields.keys()
        assert provider.opened_by in provider.settings.model_fields
        assert not provider.is_configured(Settings())
