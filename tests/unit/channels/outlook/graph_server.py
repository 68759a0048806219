"""Microsoft Graph with mailboxes that are subscribed to and listed, as a strict server, with webhooks before it."""

from __future__ import annotations

import base64
import binascii
import email
import email.policy
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from pydantic import SecretStr
from tests.unit.channels.channels import json_request
from tests.unit.channels.sending.rig import NOW as SENT_AT
from tests.unit.channels.sending.rig import Call, Provider, ProviderAnswer, serving, told

from afterturn import App, Settings
from afterturn.backbone import Backbone
from afterturn.bootstrap import open_backbone
from afterturn.bootstrap.channels import Channels, open_channels
from afterturn.channels.http_client import HttpClient
from afterturn.channels.outlook.fetch import EXPAND, SELECT
from afterturn.channels.outlook.graph import GraphClient
from afterturn.channels.webhooks import WebhookResponse
from afterturn.clock import parse_time
from afterturn.testing import ManualClock

TENANT, CLIENT, SECRET = "84bd8158-6d4d-4958-8b9f-9d6445542f95", "client-1", "very-secret~value"
MAILBOX = "office@homes.example"
IMMUTABLE = 'IdType="ImmutableId"'


class Outlook(Provider):
    """https://learn.microsoft.com/graph/auth-v2-service, .../api/user-post-messages, .../api/message-send and
    .../api/message-get. ``lifetime``: of its tokens, in seconds; ``now``: its clock.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now: Callable[[], datetime] = lambda: SENT_AT
        self.lifetime = 3599
        self.tokens: dict[str, datetime] = {}
        self.drafts: dict[str, Any] = {}
        self.sent: list[Any] = []
        self.stored: dict[str, dict[str, Any]] = {}
        self.logins = 0

    def answer(self, call: Call) -> ProviderAnswer:
        if call.path == f"/{TENANT}/oauth2/v2.0/token":
            return self._login(call)
        token = call.headers.get("authorization", "").removeprefix("Bearer ")
        if self.tokens.get(token, self.now()) <= self.now():
            return failed(401, "InvalidAuthenticationToken")
        if call.path == f"/v1.0/users/{MAILBOX}/messages" and call.method == "POST":
            return self._draft(call)
        draft = re.fullmatch(rf"/v1\.0/users/{re.escape(MAILBOX)}/messages/(draft=[0-9]+)(/send)?", call.path)
        if draft and (call.method, draft[2]) in (("POST", "/send"), ("DELETE", None)):
            if draft[1] not in self.drafts or call.headers.get("prefer") != IMMUTABLE or call.body:
                return failed(404, "ErrorItemNotFound")
            mail = self.drafts.pop(draft[1])
            if call.method == "DELETE":
                return ProviderAnswer(204)
            self.sent.append(mail)
            return ProviderAnswer(202)
        if call.method == "GET" and call.query == {"$select": SELECT, "$expand": EXPAND}:
            found = self.stored.get(call.path.removeprefix("/v1.0/"))
            return told(200, found) if found else failed(404, "ErrorItemNotFound")
        return failed(404, "ResourceNotFound")

    def forget_tokens(self) -> None:
        """As after a change of the secret or of permissions."""
        self.tokens.clear()

    def _login(self, call: Call) -> ProviderAnswer:
        form = dict(call.form()) if call.headers.get("content-type") == "application/x-www-form-urlencoded" else {}
        scope = f"{self.url}/.default"
        expected = {"client_id": CLIENT, "client_secret": SECRET, "grant_type": "client_credentials", "scope": scope}
        if call.method != "POST" or form != expected:
            return told(401, {"error": "invalid_client", "error_description": f"AADSTS7000215: {form}"})
        self.logins += 1
        token = f"token-{self.logins}.very-secret"
        self.tokens[token] = self.now() + timedelta(seconds=self.lifetime)
        return told(200, {"token_type": "Bearer", "expires_in": self.lifetime, "access_token": token})

    def _draft(self, call: Call) -> ProviderAnswer:
        if call.headers.get("content-type") != "text/plain" or call.headers.get("prefer") != IMMUTABLE:
            return failed(400, "RequestBodyRead")
        try:
            raw = base64.b64decode(call.body, validate=True)
        except binascii.Error:
            return failed(400, "ErrorMimeContentInvalidBase64String")
        mail = email.message_from_bytes(raw, policy=email.policy.default)
        if not mail["From"] or not mail["To"] or mail.defects:
            return failed(400, "ErrorMimeContentInvalid")
        name = f"draft={len(self.drafts) + len(self.sent) + 1}"
        self.drafts[name] = mail
        return told(201, {"id": name, "isDraft": True, "internetMessageId": f"<{len(self.sent)}@prod.outlook.com>"})


def failed(status: int, code: str, **headers: str) -> ProviderAnswer:
    words = "about ada@tenant.example"
    return told(status, {"error": {"code": code, "message": words, "innerError": {"date": "…"}}}, **headers)


def access(http: HttpClient, outlook: Outlook, secret: str = SECRET) -> GraphClient:
    return GraphClient(
        http,
        tenant=TENANT,
        client_id=CLIENT,
        client_secret=SecretStr(secret),
        clock=outlook.now,
        api=outlook.url,
        login=outlook.url,
    )


HOOK = "https://hooks.example.com/hooks/graph"
STATE = "state-of-ours"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
USER = "7f180cbb-a5ae-457c-b7e8-6f5b42ba33e7"
LONGEST = timedelta(minutes=4230)
"""The lower of Graph's limits for mail."""

_FILTER = re.compile(r"receivedDateTime ge (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\Z")


def graph_time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


class Exchange(Outlook):
    """.../graph/api/subscription-post-subscriptions, -update, -delete and .../graph/api/user-list-messages.

    ``page``: so many mails it lists at a time at most; ``sick``: ids that it has trouble with.
    """

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.now = clock
        self.mailboxes = {MAILBOX}
        self.subscriptions: dict[str, dict[str, Any]] = {}
        self.mails: dict[str, list[dict[str, Any]]] = {}
        self.page = 500
        self.sick: set[str] = set()
        self.refuses_subscriptions: ProviderAnswer | None = None
        self._made = 0

    def answer(self, call: Call) -> ProviderAnswer:
        found = re.fullmatch(r"/v1\.0/(subscriptions(?:/([^/]+))?|users/([^/]+)/messages(?:/([^/]+))?)", call.path)
        token = call.headers.get("authorization", "").removeprefix("Bearer ")
        if found is None or self.tokens.get(token, self.now()) <= self.now():
            return super().answer(call)
        if found[1].startswith("subscriptions"):
            return self._subscription(call, found[2])
        if found[4] in self.sick:
            return failed(500, "InternalServerError")
        if found[4] is None and call.method == "GET":
            return self._list(call, found[3])
        return super().answer(call)

    def deliver(self, number: int, at: datetime, mailbox: str = MAILBOX, **more: Any) -> str:
        """A mail is in the mailbox from now on. Returns its id there."""
        name = f"AAMk{number}="
        mail: dict[str, Any] = {
            "id": name,
            "internetMessageId": f"<m{number}@tenant.example>",
            "receivedDateTime": graph_time(at),
            "subject": f"Subject {number}",
            "body": {"contentType": "text", "content": f"I am mail {number}."},
            "from": {"emailAddress": {"address": "ada@tenant.example"}},
            "toRecipients": [{"emailAddress": {"address": mailbox}}],
            "isDraft": False,
            **more,
        }
        self.mails.setdefault(mailbox, []).append(mail)
        self.stored[f"users/{mailbox}/messages/{name}"] = mail
        return name

    def ended(self, name: str) -> bool:
        return (
            name not in self.subscriptions or parse_time(self.subscriptions[name]["expirationDateTime"]) <= self.now()
        )

    def made(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method and "/subscriptions" in call.path]

    def _subscription(self, call: Call, name: str | None) -> ProviderAnswer:
        if self.refuses_subscriptions is not None:
            return self.refuses_subscriptions
        if call.method == "POST" and name is None:
            return self._subscribe(call)
        if name is None or self.ended(name):
            return failed(404, "ResourceNotFound")
        if call.method == "DELETE":
            del self.subscriptions[name]
            return ProviderAnswer(204)
        body = call.json()
        if call.method != "PATCH" or body.keys() != {"expirationDateTime"} or self._too_long(body):
            return failed(400, "InvalidRequest")
        self.subscriptions[name] |= body
        return told(200, self.subscriptions[name])

    def _subscribe(self, call: Call) -> ProviderAnswer:
        body = call.json()
        wanted = {"changeType", "notificationUrl", "lifecycleNotificationUrl", "resource", "expirationDateTime"}
        mailbox = re.fullmatch(r"users/([^/]+)/messages", body["resource"])
        if body.keys() != wanted | {"clientState"} or not mailbox or self._too_long(body):
            return failed(400, "InvalidRequest")
        if call.headers.get("prefer") != IMMUTABLE or not body["notificationUrl"].startswith("https://"):
            return failed(400, "InvalidRequest")
        if mailbox[1] not in self.mailboxes:
            return failed(403, "ErrorAccessDenied")
        self._made += 1
        made = {**body, "id": f"sub-{self._made}"}
        self.subscriptions[made["id"]] = made
        return told(201, made)

    def _too_long(self, body: Mapping[str, str]) -> bool:
        return not self.now() < parse_time(body["expirationDateTime"]) <= self.now() + LONGEST

    def _list(self, call: Call, mailbox: str) -> ProviderAnswer:
        since = _FILTER.fullmatch(call.query.get("$filter", ""))
        if since is None or call.query.get("$orderby") != "receivedDateTime asc" or "$top" not in call.query:
            return failed(400, "ErrorInvalidUrlQueryFilter")
        if mailbox not in self.mailboxes:
            return failed(403, "ErrorAccessDenied")
        columns = call.query["$select"].split(",")
        found = sorted(self.mails.get(mailbox, []), key=lambda one: str(one["receivedDateTime"]))
        found = [one for one in found if one["receivedDateTime"] >= since[1]]
        size = min(self.page, int(call.query["$top"]))
        value = [{name: one.get(name) for name in columns} for one in found[:size]]
        more = {"@odata.nextLink": f"{self.url}/v1.0/users/{mailbox}/messages?$skip={size}"}
        return told(200, {"value": value, **(more if len(found) > size else {})})


@dataclass
class OutlookRig:
    """A store, and a process that Graph notifies."""

    exchange: Exchange
    backbone: Backbone
    clock: ManualClock
    webhooks: Channels
    given: dict[str, Any] = field(default_factory=dict)

    async def keep(self, after: timedelta = timedelta(0)) -> None:
        self.clock.advance(after)
        while await self.webhooks.jobs.once():
            pass

    async def told(self, *notifications: Mapping[str, Any]) -> WebhookResponse:
        value = [{"clientState": STATE, **one} for one in notifications]
        return await self.webhooks.router("/hooks/graph", json_request({"value": value}))

    async def texts(self) -> list[str]:
        rows = await self.backbone.store.scan(limit=1000)
        found = [one.text for row in rows for one in await self.backbone.store.messages(row.id)]
        return sorted(found, key=lambda text: [int(word) for word in re.findall(r"\d+", text)])


def settings_of(folder: Path, exchange: Exchange, **more: Any) -> Settings:
    given: dict[str, Any] = {
        "db": folder / "a.db",
        "public_url": "https://hooks.example.com",
        "graph_tenant": TENANT,
        "graph_client_id": CLIENT,
        "graph_client_secret": SECRET,
        "graph_client_state": STATE,
        "graph_mailboxes": (MAILBOX,),
        "graph_api": exchange.url,
        "graph_login": exchange.url,
    }
    return Settings(**{**given, **more})


@asynccontextmanager
async def mailbox_owner(folder: Path, exchange: Exchange, clock: ManualClock, **more: Any) -> AsyncIterator[OutlookRig]:
    settings = settings_of(folder, exchange, **more)
    async with (
        open_backbone(App(shipped=False), settings, clock=clock) as backbone,
        open_channels(backbone, backbone.store, settings, clock) as webhooks,
    ):
        yield OutlookRig(exchange, backbone, clock, webhooks)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    monkeypatch.setattr("afterturn.channels.outlook.subscriptions.STARTUP_DELAY", timedelta(0))
    return ManualClock(NOW)


@pytest.fixture
async def exchange(clock: ManualClock) -> AsyncIterator[Exchange]:
    provider = Exchange(clock)
    async with serving(provider):
        yield provider


@pytest.fixture
async def rig(tmp_path: Path, exchange: Exchange, clock: ManualClock) -> AsyncIterator[OutlookRig]:
    async with mailbox_owner(tmp_path, exchange, clock) as found:
        yield found


def created(mail: str, subscription: str = "sub-1", user: str = USER) -> dict[str, Any]:
    resource = f"Users/{user}/Messages/{mail}"
    return {"subscriptionId": subscription, "changeType": "created", "resource": resource}


def lifecycle(event: str, subscription: str = "sub-1") -> dict[str, Any]:
    return {"subscriptionId": subscription, "lifecycleEvent": event}


def mail_found() -> float:
    return REGISTRY.get_sample_value("afterturn_mail_found_total") or 0.0
