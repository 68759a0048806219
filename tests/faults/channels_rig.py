"""An application that providers call, and providers that take what it sends."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr
from tests.unit.channels.channels import NOW, sample
from tests.unit.channels.endpoints import SECRETS, endpoints_of
from tests.unit.channels.job_runners import auto_reply, outbox
from tests.unit.channels.provider_calls import BEHIND, BOT, DESK, ELM, OURS, PUBLIC, Call
from tests.unit.channels.sending.rig import calling, serving
from tests.unit.channels.telegram import test_send as telegram_test
from tests.unit.channels.test_turns import SECRET
from tests.unit.channels.twilio import test_send as twilio_test

from afterturn import App, Settings
from afterturn.backbone import Backbone
from afterturn.bootstrap import open_backbone
from afterturn.bootstrap.channels import own_addresses
from afterturn.channels.email.compose import compose, single_part
from afterturn.channels.ingest import Ingest
from afterturn.channels.outlook import fetch as outlook_fetch
from afterturn.channels.responder import ReplyRequest, Responder
from afterturn.channels.routing import Directory
from afterturn.channels.sending import OutboundMessage, Sender, SendReceipt
from afterturn.channels.ses import fetch as ses_fetch
from afterturn.channels.state import EarlyEdit
from afterturn.channels.telegram.send import TelegramSender
from afterturn.channels.turns import TurnEndpoint
from afterturn.channels.twilio.send import TwilioSender
from afterturn.channels.types import ChannelEvent, FetchRequest, SubscriptionEvent
from afterturn.channels.webhooks import WebhookRouter
from afterturn.jobs.runner import JobRunner
from afterturn.model import Channel
from afterturn.testing import ManualClock
from afterturn.web.access import AccessControl
from afterturn.web.app import make_app
from afterturn.web.roles import CallerRole
from afterturn.web.tokens import Token, TokenFile, add_token, digest_of
from afterturn.web.webhooks import mount_webhooks


class Mailer:
    """Composes each mail as SES and Graph senders do, and keeps it."""

    def __init__(self, clock: ManualClock) -> None:
        self.sent: list[tuple[OutboundMessage, bytes]] = []
        self._clock = clock

    def parts(self, message: OutboundMessage) -> tuple[OutboundMessage, ...]:
        return single_part(message, "ses")

    async def send(self, part: OutboundMessage) -> SendReceipt:
        made = compose(part, "ses", sender=DESK, region="us-east-1", now=self._clock())
        self.sent.append((part, made))
        name = f"010001890abcdef0-12345678-1234-1234-1234-{len(self.sent):012x}-000000"
        return SendReceipt(name, self._clock(), (f"{name}@email.amazonses.com",))


@dataclass
class ChannelApp:
    """``front``: an HTTP client on the application; ``mailbox``, ``bucket``: what Graph and S3 hold."""

    backbone: Backbone
    clock: ManualClock
    path: Path
    twilio: twilio_test.Twilio
    telegram: telegram_test.Telegram
    mailer: Mailer
    directory: Directory
    front: httpx.AsyncClient = field(init=False)
    router: WebhookRouter = field(init=False)
    auto_reply: JobRunner = field(init=False)
    outbox: JobRunner = field(init=False)
    choose: Any = field(init=False)
    mailbox: dict[str, Any] = field(default_factory=dict)
    bucket: dict[str, bytes] = field(default_factory=dict)
    upkept: list[SubscriptionEvent] = field(default_factory=list)

    async def call(self, call: Call) -> httpx.Response:
        """As it comes through the proxy."""
        return await self.front.request(
            call.method, BEHIND + call.target, content=call.body or None, headers=dict(call.headers)
        )

    async def hear(self, *calls: Call, status: int | None = None) -> None:
        """Deliver each; all have to be answered with success, or with ``status``."""
        for call in calls:
            answer = await self.call(call)
            good = 200 <= answer.status_code < 300 if status is None else answer.status_code == status
            assert good, (call.target, answer.status_code, answer.text)

    async def work(self, *, wait: timedelta = timedelta(0)) -> None:
        """Answer and send whatever is due after a wait."""
        self.clock.advance(wait)
        for _ in range(100):
            if not await self.auto_reply.once() + await self.outbox.once():
                return
        raise AssertionError("there is always something to do")

    async def texts(self, conversation_id: str) -> list[str]:
        return [one.text for one in await self.backbone.store.messages(conversation_id)]

    async def turns(self, conversation_id: str) -> int:
        return len(await self.backbone.store.turns(conversation_id, limit=1000))

    async def count(self, what: str = "turns") -> int:
        return (await self.backbone.store.counts())[what]

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(sql, values).fetchall()

    def conversations(self) -> list[str]:
        """Those that anybody is shown."""
        return [name for (name,) in self.rows("SELECT id FROM conversations WHERE synthetic = 0 ORDER BY id")]

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table."""
        names = self.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%STRICT%'")
        return {name: sorted(self.rows(f"SELECT * FROM {name}"), key=repr) for (name,) in names}

    def lasting(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row but edits that wait for a day in case that the message they edit comes."""
        rows = self.everything()
        return rows | {"state": [row for row in rows["state"] if row[0] != EarlyEdit.kind]}

    def events(self) -> list[dict[str, Any]]:
        """What was published, in order."""
        return [json.loads(body) for (body,) in self.rows("SELECT body FROM stream_main ORDER BY position")]


async def yes(asked: ReplyRequest) -> str:
    return f"Re: {asked.messages[-1].text}"


@asynccontextmanager
async def opened(
    folder: Path, *, responder: Responder | None = None, directory: Directory | None = None
) -> AsyncIterator[ChannelApp]:
    """With every channel set up. ``responder``: who answers; None leaves everything to people."""
    clock = ManualClock(NOW)
    path = folder / "desk.db"
    settings = Settings(db=path, phone_region="US")
    telegram, twilio = telegram_test.Telegram(), twilio_test.Twilio()
    async with AsyncExitStack() as stack:
        backbone = await stack.enter_async_context(open_backbone(App(shipped=False), settings, clock=clock))
        for provider in (telegram, twilio):
            await stack.enter_async_context(serving(provider))
        http = await stack.enter_async_context(calling())
        given = directory or Directory(accounts={OURS: "oak", DESK: "oak", ELM: "elm", BOT: "oak"})
        channel_app = ChannelApp(backbone, clock, path, twilio, telegram, Mailer(clock), given)
        senders: dict[Channel, Sender] = {
            Channel.SMS: TwilioSender(
                http,
                account_sid=twilio_test.ACCOUNT,
                auth_token=SecretStr(twilio_test.TOKEN),
                clock=clock,
                api=twilio.url,
                region="US",
            ),
            Channel.TELEGRAM: TelegramSender(http, token=SecretStr(telegram_test.TOKEN), clock=clock, api=telegram.url),
            Channel.EMAIL: channel_app.mailer,
        }
        store = backbone.store
        channel_app.auto_reply = auto_reply(backbone, store, store, clock, responder=responder)
        channel_app.choose = lambda message: senders.get(message.channel)
        channel_app.outbox = outbox(store, clock, channel_app.choose)
        channel_app.router = _router(channel_app, auto_reply=responder is not None)
        tokens = folder / "tokens.toml"
        if not tokens.exists():
            add_token(tokens, Token(name="desk", role=CallerRole.ADMIN, sha256=digest_of("aft_desk"), created_at=NOW))
        app = make_app(backbone, AccessControl(clock, TokenFile(tokens)))
        turns = TurnEndpoint(backbone.settle, SecretStr(SECRET), clock)
        mount_webhooks(app, clock, channel_app.router, turns=turns, public=PUBLIC)
        transport = httpx.ASGITransport(app)
        channel_app.front = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url=BEHIND))
        yield channel_app


def _router(channel_app: ChannelApp, *, auto_reply: bool) -> WebhookRouter:
    own = frozenset(own_addresses(SECRETS))

    async def from_s3(asked: FetchRequest) -> ChannelEvent:
        raw = channel_app.bucket.get(asked.reference["key"]) or sample("email-raw/iphone.eml")
        return ses_fetch.parse_fetched(asked, raw, now=channel_app.clock(), own_addresses=own)

    async def from_graph(asked: FetchRequest) -> ChannelEvent:
        resource = asked.reference["resource"]
        mailbox = resource.split("/")[1] if resource in channel_app.mailbox else DESK
        message = channel_app.mailbox.get(resource) or json.loads(sample("graph/message-get-response.json"))
        return outlook_fetch.parse_fetched(message, now=channel_app.clock(), accounts=(mailbox,), own_addresses=own)

    async def keep(event: SubscriptionEvent) -> None:
        channel_app.upkept.append(event)

    backbone = channel_app.backbone
    return WebhookRouter(
        Ingest(backbone, backbone.store, channel_app.clock, directory=channel_app.directory, auto_reply=auto_reply),
        channel_app.clock,
        endpoints_of(SECRETS),
        fetchers={"s3": from_s3, "graph": from_graph},
        subscriptions={"sns": keep, "graph": keep},
    )
