"""An application that providers call, signed as they sign, and providers that take what it sends."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
from pydantic import SecretStr
from tests.unit.funnel.channels import NOW, sample
from tests.unit.funnel.sending import test_telegram, test_twilio
from tests.unit.funnel.sending.rig import calling, serving
from tests.unit.funnel.sns_rig import TOPIC, Served, certificate
from tests.unit.funnel.sns_rig import signed as sns_signed
from tests.unit.funnel.test_turns import SECRET
from tests.unit.funnel.test_turns import signed as webhook_signed
from tests.unit.funnel.test_voice_signatures import retell_signed, token

from afterturn import App, Settings
from afterturn.backbone import Backbone
from afterturn.build import open_backbone
from afterturn.clock import to_text
from afterturn.funnel.answering import Answering
from afterturn.funnel.arrivals import Arrival, Fetch, Upkeep
from afterturn.funnel.channels import Secrets, doors_of
from afterturn.funnel.directory import Directory
from afterturn.funnel.dispatching import Dispatching
from afterturn.funnel.doors import Doors
from afterturn.funnel.email import graph, ses
from afterturn.funnel.email.sns import Certificates
from afterturn.funnel.intake import Intake
from afterturn.funnel.responder import Asked, Responder
from afterturn.funnel.sending.mail import compose, one_part
from afterturn.funnel.sending.port import Outgoing, Sender, Sent
from afterturn.funnel.sending.telegram import TelegramSender
from afterturn.funnel.sending.twilio import TwilioSender
from afterturn.funnel.turns import TurnDoor
from afterturn.model import Channel
from afterturn.testing import ManualClock
from afterturn.web.access import Access
from afterturn.web.app import make_app
from afterturn.web.hooks import mount_hooks
from afterturn.web.roles import Role
from afterturn.web.tokens import Token, TokenFile, add_token, digest_of

PUBLIC = "https://h"
BEHIND = "http://10.0.0.7:8080"
"""What providers call, and what the application sees behind its proxy."""

OURS, THEIRS = "+15555550100", "+15158226442"
DESK, ELM = "desk@homes.example", "elm@homes.example"
BOT = "110201543"
CHAT = 279058397
AUTH_TOKEN = "12345"
LOGIN = {"authorization": "Bearer aft_desk"}

SECRETS = Secrets(
    twilio_auth_token=AUTH_TOKEN,
    telegram_secret="hush",
    telegram_bot=BOT,
    sns_topics=(TOPIC,),
    graph_client_states=("secretClientValue", "<secretClientState>"),
    vapi_secret="hush",
    retell_api_key="key_1",
    livekit_api_key="key_1",
    livekit_api_secret="hush",
    web_secret=SecretStr(SECRET),
    own=(DESK, ELM),
    region="US",
)


@dataclass(frozen=True)
class Call:
    """One request of a provider. ``target``: path and query, as it called it."""

    target: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"


class Mailer:
    """Composes each mail as SES and Graph senders do, and keeps it."""

    def __init__(self, clock: ManualClock) -> None:
        self.sent: list[tuple[Outgoing, bytes]] = []
        self._clock = clock

    def parts(self, message: Outgoing) -> tuple[Outgoing, ...]:
        return one_part(message, "ses")

    async def send(self, part: Outgoing) -> Sent:
        made = compose(part, "ses", sender=DESK, region="us-east-1", now=self._clock())
        self.sent.append((part, made))
        name = f"010001890abcdef0-12345678-1234-1234-1234-{len(self.sent):012x}-000000"
        return Sent(name, self._clock(), (f"{name}@email.amazonses.com",))


@dataclass
class Desk:
    """``front``: an HTTP client on the application; ``answer``: who answers; ``mailbox``: what Graph holds."""

    backbone: Backbone
    clock: ManualClock
    path: Path
    twilio: test_twilio.Twilio
    telegram: test_telegram.Telegram
    mailer: Mailer
    directory: Directory
    front: httpx.AsyncClient = field(init=False)
    doors: Doors = field(init=False)
    answering: Answering = field(init=False)
    dispatching: Dispatching = field(init=False)
    mailbox: dict[str, Any] = field(default_factory=dict)
    bucket: dict[str, bytes] = field(default_factory=dict)
    upkept: list[Upkeep] = field(default_factory=list)

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
            if not await self.answering.once() + await self.dispatching.once():
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

    def events(self) -> list[dict[str, Any]]:
        """What was published, in order."""
        return [json.loads(body) for (body,) in self.rows("SELECT body FROM stream_main ORDER BY position")]


async def yes(asked: Asked) -> str:
    return f"Re: {asked.messages[-1].text}"


@asynccontextmanager
async def opened(
    folder: Path, *, responder: Responder | None = None, directory: Directory | None = None
) -> AsyncIterator[Desk]:
    """With every channel set up. ``responder``: who answers; None leaves everything to people."""
    clock = ManualClock(NOW)
    path = folder / "desk.db"
    settings = Settings(db=path, phone_region="US")
    telegram, twilio = test_telegram.Telegram(), test_twilio.Twilio()
    async with AsyncExitStack() as stack:
        backbone = await stack.enter_async_context(open_backbone(App(shipped=False), settings, clock=clock))
        for provider in (telegram, twilio):
            await stack.enter_async_context(serving(provider))
        http = await stack.enter_async_context(calling())
        given = directory or Directory(accounts={OURS: "oak", DESK: "oak", ELM: "elm", BOT: "oak"})
        desk = Desk(backbone, clock, path, twilio, telegram, Mailer(clock), given)
        senders: dict[Channel, Sender] = {
            Channel.SMS: TwilioSender(
                http,
                account_sid=test_twilio.ACCOUNT,
                auth_token=SecretStr(test_twilio.TOKEN),
                clock=clock,
                api=twilio.url,
                region="US",
            ),
            Channel.TELEGRAM: TelegramSender(http, token=SecretStr(test_telegram.TOKEN), clock=clock, api=telegram.url),
            Channel.EMAIL: desk.mailer,
        }
        store = backbone.store
        desk.answering = Answering(backbone, store, store, clock, responder=responder)
        desk.dispatching = Dispatching(store, clock, lambda message: senders.get(message.channel))
        desk.doors = _doors(desk, answering=responder is not None)
        tokens = folder / "tokens.toml"
        if not tokens.exists():
            add_token(tokens, Token(name="desk", role=Role.ADMIN, sha256=digest_of("aft_desk"), created_at=NOW))
        app = make_app(backbone, Access(clock, TokenFile(tokens)))
        turns = TurnDoor(backbone.settle, SecretStr(SECRET), clock)
        mount_hooks(app, clock, desk.doors, turns=turns, public=PUBLIC)
        transport = httpx.ASGITransport(app)
        desk.front = await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url=BEHIND))
        yield desk


def _doors(desk: Desk, *, answering: bool) -> Doors:
    own = frozenset(SECRETS.own)

    async def from_s3(asked: Fetch, now: datetime) -> Arrival:
        raw = desk.bucket.get(asked.reference["key"]) or sample("email-raw/iphone.eml")
        return ses.fetched(asked, raw, now=now, own=own)

    async def from_graph(asked: Fetch, now: datetime) -> Arrival:
        resource = asked.reference["resource"]
        mailbox = resource.split("/")[1] if resource in desk.mailbox else DESK
        message = desk.mailbox.get(resource) or json.loads(sample("graph/message-get-response.json"))
        return graph.fetched(message, now=now, accounts=(mailbox,), own=own)

    async def keep(upkeep: Upkeep) -> None:
        desk.upkept.append(upkeep)

    backbone = desk.backbone
    return Doors(
        Intake(backbone, backbone.store, desk.clock, directory=desk.directory, answering=answering),
        desk.clock,
        doors_of(SECRETS, Certificates(Served(certificate()))),
        fetchers={"s3": from_s3, "graph": from_graph},
        upkeep={"sns": keep, "graph": keep},
    )


def twilio_call(fields: Sequence[tuple[str, str]], *, path: str = "/hooks/twilio", query: str = "") -> Call:
    """A form as Twilio posts and signs it, blanks included."""
    target = path + (f"?{query}" if query else "")
    return Call(target, urlencode(fields).encode(), {**_FORM, "x-twilio-signature": twilio_signature(target, fields)})


_FORM = {"content-type": "application/x-www-form-urlencoded"}


def twilio_signature(target: str, fields: Sequence[tuple[str, str]]) -> str:
    """https://www.twilio.com/docs/usage/security, over what Twilio called."""
    text = PUBLIC + target + "".join(name + value for name, value in sorted(set(fields)))
    return base64.b64encode(hmac.new(AUTH_TOKEN.encode(), text.encode(), hashlib.sha1).digest()).decode()


def sms(number: int, text: str = "Hello", *, sender: str = THEIRS, to: str = OURS, **more: str) -> Call:
    given = {"MessageSid": f"SM{number:032x}", "SmsStatus": "received", "From": sender, "To": to, "Body": text}
    return twilio_call([*(given | more).items()])


def status(number: int, state: str) -> Call:
    """How a message of ours fares."""
    return twilio_call([("MessageSid", f"SM{number:032x}"), ("MessageStatus", state), ("To", THEIRS), ("From", OURS)])


def twilio_voice(state: str, **more: str) -> Call:
    given = {"CallSid": f"CA{1:032x}", "CallStatus": state, "From": THEIRS, "To": OURS, "Direction": "inbound"}
    return twilio_call([*(given | more).items()], path="/hooks/twilio/voice")


def telegram_call(update: object) -> Call:
    headers = {"x-telegram-bot-api-secret-token": "hush", "content-type": "application/json"}
    return Call("/hooks/telegram", json.dumps(update).encode(), headers)


def said(
    update: int, number: int, text: str, *, chat: int = CHAT, kind: str = "message", at: datetime = NOW, **more: Any
) -> Call:
    """A message of a chat, or with another ``kind`` its edit."""
    message = {
        "message_id": number,
        "date": int(NOW.timestamp()) - 10,
        "chat": {"id": chat, "type": "private" if chat > 0 else "group"},
        "from": {"id": CHAT, "is_bot": False, "first_name": "Ada"},
        **({"edit_date": int(at.timestamp())} if kind.startswith("edited") else {}),
        **({"text": text} if text else {}),
        **more,
    }
    return telegram_call({"update_id": update, kind: message})


def mail_call(
    raw: bytes,
    number: int = 1,
    *,
    at: datetime = NOW,
    to: Sequence[str] = (DESK,),
    encoding: str = "BASE64",
    signed_at: datetime | None = None,
    **verdicts: str,
) -> Call:
    """A mail as SES hands it to SNS and SNS to us. ``number``: SES's own name of it."""
    receipt = {
        "timestamp": to_text(at),
        "recipients": list(to),
        "action": {"type": "SNS", "encoding": encoding},
        **{f"{name}Verdict": {"status": value} for name, value in verdicts.items()},
    }
    content = base64.b64encode(raw).decode() if encoding == "BASE64" else raw.decode()
    mail = {"messageId": f"ses{number:030x}", "timestamp": to_text(at), "source": "bounces@tenants.example"}
    return sns_call(
        {"notificationType": "Received", "mail": mail, "receipt": receipt, "content": content}, signed_at or at
    )


def sns_call(message: object, at: datetime = NOW) -> Call:
    body = sns_signed(Message=json.dumps(message), Timestamp=to_text(at))
    return Call("/hooks/ses", json.dumps(body).encode(), {"content-type": "text/plain; charset=UTF-8"})


def mime(
    body: bytes | str = "The boiler is cold.", *, name: str | None = "m1@tenants.example", **headers: str | bytes | None
) -> bytes:
    """A mail; headers by their names with ``_`` for ``-``; None leaves one out."""
    given: dict[str, str | bytes | None] = {
        "From": "Jo <jo@tenants.example>",
        "To": DESK,
        "Subject": "Boiler",
        "Message-ID": None if name is None else f"<{name}>",
        **{key.replace("_", "-"): value for key, value in headers.items()},
    }
    lines = [
        key.encode() + b": " + (value if isinstance(value, bytes) else value.encode())
        for key, value in given.items()
        if value is not None
    ]
    return b"\r\n".join([*lines, b"", body if isinstance(body, bytes) else body.encode()])


def graph_call(*resources: str, state: str = "secretClientValue") -> Call:
    value = [
        {
            "subscriptionId": "sub-1",
            "clientState": state,
            "changeType": "created",
            "resource": resource,
            "tenantId": "t-1",
            "resourceData": {"@odata.type": "#Microsoft.Graph.Message"},
        }
        for resource in resources
    ]
    return Call("/hooks/graph", json.dumps({"value": value}).encode(), {"content-type": "application/json"})


def vapi_call(message: object) -> Call:
    headers = {"x-vapi-secret": "hush", "content-type": "application/json"}
    return Call("/hooks/vapi", json.dumps({"message": message}).encode(), headers)


def retell_call(value: object, at: datetime = NOW) -> Call:
    request = retell_signed(json.dumps(value).encode(), at)
    return Call("/hooks/retell", request.body, request.headers)


def livekit_call(body: bytes) -> Call:
    return Call("/hooks/livekit", body, {"authorization": token(body)})


def web_call(conversation: str, number: int, text: str, at: datetime = NOW) -> Call:
    value = {"conversationId": conversation, "messageId": f"m-{number}", "text": text}
    request = webhook_signed(json.dumps(value).encode(), at=at)
    return Call("/hooks/web", request.body, request.headers)


def turn_call(value: object, at: datetime = NOW) -> Call:
    request = webhook_signed(json.dumps(value).encode(), at=at)
    return Call("/turns", request.body, request.headers)


def sample_call(name: str, at: datetime = NOW) -> Call:
    """A file of the samples by its door, signed for this application."""
    folder, file = name.split("/")
    body = sample(name)
    if name.endswith(".form.txt"):
        path = "/hooks/twilio" if folder == "twilio" else "/hooks/twilio/voice"
        fields = parse_qsl(body.decode(), keep_blank_values=True)
        return Call(path, body, {**_FORM, "x-twilio-signature": twilio_signature(path, fields)})
    if folder == "email-raw":
        return mail_call(body, sum(body), at=at)
    if folder == "telegram":
        return telegram_call(json.loads(body))
    if folder == "ses-sns":
        value = json.loads(body)
        if "Type" not in value:
            return sns_call(value)
        kept = ("Type", "Message", "Subject", "SubscribeURL", "Token")
        envelope = sns_signed(**{key: value[key] for key in kept if key in value})
        return Call("/hooks/ses", json.dumps(envelope).encode(), {"content-type": "text/plain; charset=UTF-8"})
    if folder == "graph":
        if file.endswith(".http"):
            target = urlsplit(body.decode().split(" ")[1])
            return Call(f"/hooks/graph?{target.query}", b"")
        return Call("/hooks/graph", body, {"content-type": "application/json"})
    if file.startswith("vapi"):
        return Call("/hooks/vapi", body, {"x-vapi-secret": "hush"})
    if file.startswith("retell"):
        request = retell_signed(body, NOW)
        return Call("/hooks/retell", request.body, request.headers)
    return livekit_call(body)
