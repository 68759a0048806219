"""Microsoft's login and Graph, as far as mail goes, as a strict server."""

from __future__ import annotations

import base64
import binascii
import email
import email.policy
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from pydantic import SecretStr
from tests.unit.channels.sending.rig import NOW, Call, Provider, Told, told

from afterturn.channels.http_client import HttpClient
from afterturn.channels.outlook.fetch import EXPAND, SELECT
from afterturn.channels.outlook.graph import GraphClient

TENANT, CLIENT, SECRET = "84bd8158-6d4d-4958-8b9f-9d6445542f95", "client-1", "very-secret~value"
MAILBOX = "office@homes.example"
IMMUTABLE = 'IdType="ImmutableId"'


class Outlook(Provider):
    """https://learn.microsoft.com/graph/auth-v2-service, .../api/user-post-messages, .../api/message-send and
    .../api/message-get. ``lifetime``: of its tokens, in seconds; ``now``: its clock.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now: Callable[[], datetime] = lambda: NOW
        self.lifetime = 3599
        self.tokens: dict[str, datetime] = {}
        self.drafts: dict[str, Any] = {}
        self.sent: list[Any] = []
        self.stored: dict[str, dict[str, Any]] = {}
        self.logins = 0

    def answer(self, call: Call) -> Told:
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
                return Told(204)
            self.sent.append(mail)
            return Told(202)
        if call.method == "GET" and call.query == {"$select": SELECT, "$expand": EXPAND}:
            found = self.stored.get(call.path.removeprefix("/v1.0/"))
            return told(200, found) if found else failed(404, "ErrorItemNotFound")
        return failed(404, "ResourceNotFound")

    def forget_tokens(self) -> None:
        """As after a change of the secret or of permissions."""
        self.tokens.clear()

    def _login(self, call: Call) -> Told:
        form = dict(call.form()) if call.headers.get("content-type") == "application/x-www-form-urlencoded" else {}
        scope = f"{self.url}/.default"
        expected = {"client_id": CLIENT, "client_secret": SECRET, "grant_type": "client_credentials", "scope": scope}
        if call.method != "POST" or form != expected:
            return told(401, {"error": "invalid_client", "error_description": f"AADSTS7000215: {form}"})
        self.logins += 1
        token = f"token-{self.logins}.very-secret"
        self.tokens[token] = self.now() + timedelta(seconds=self.lifetime)
        return told(200, {"token_type": "Bearer", "expires_in": self.lifetime, "access_token": token})

    def _draft(self, call: Call) -> Told:
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


def failed(status: int, code: str, **headers: str) -> Told:
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
