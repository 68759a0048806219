"""Calls to Microsoft Graph as an application: https://learn.microsoft.com/graph/auth-v2-service.

A token is used until it expires; one that Graph refuses is renewed once.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

from pydantic import SecretStr

from afterturn.channels.http_client import HttpClient, HttpResponse, failure_of, seconds, send_once, send_repeatable
from afterturn.channels.sanitize import clean_label, clean_string, get_path
from afterturn.channels.sending import (
    CONFIGURATION_PAUSE,
    ProviderErrors,
    Reason,
    SendFailed,
    TryLater,
    Uncertain,
    Undeliverable,
)
from afterturn.clock import Clock

GRAPH = "https://graph.microsoft.com"
LOGIN = "https://login.microsoftonline.com"
MARGIN = timedelta(minutes=2)
"""A token is not used in its last minutes: clocks differ, and calls take time."""

ERRORS = ProviderErrors(
    permanent={
        **dict.fromkeys(("ErrorInvalidRecipients", "ErrorInvalidSmtpAddress"), Reason.BAD_ADDRESS),
        **dict.fromkeys(("ErrorMessageSizeExceeded", "RequestEntityTooLarge"), Reason.TOO_LONG),
    },
    temporary={
        **dict.fromkeys(
            (
                *("ErrorAccessDenied", "AccessDenied", "Authorization_RequestDenied", "ErrorSendAsDenied"),
                *("ErrorInvalidUser", "MailboxNotEnabledForRESTAPI", "MailboxNotSupportedForRESTAPI"),
                *("Request_ResourceNotFound", "ErrorMessageSubmissionBlocked", "ErrorQuotaExceeded"),
                *("InvalidAuthenticationToken", "ErrorNonExistentMailbox", "ResourceNotFound"),
            ),
            Reason.CONFIGURATION,
        ),
        **dict.fromkeys(
            ("ApplicationThrottled", "ErrorExceededMessageLimit", "ErrorTooManyRequests"), Reason.THROTTLED
        ),
        **dict.fromkeys(("ErrorMailboxStoreUnavailable", "ErrorServerBusy", "ErrorTimeoutExpired"), Reason.UNAVAILABLE),
    },
)

_IMMUTABLE = {"prefer": 'IdType="ImmutableId"'}
"""Ids that stay the same when a mail is moved: https://learn.microsoft.com/graph/outlook-immutable-id."""


class GraphClient:
    """``tenant``: its id or one of its domains; ``api``, ``login``: base URLs, which differ in national clouds."""

    def __init__(
        self,
        http: HttpClient,
        *,
        tenant: str,
        client_id: str,
        client_secret: SecretStr,
        clock: Clock,
        api: str = GRAPH,
        login: str = LOGIN,
    ) -> None:
        self._http = http
        self.clock = clock
        self._url = f"{api.rstrip('/')}/v1.0/"
        self._scope = f"{api.rstrip('/')}/.default"
        self._login = f"{login.rstrip('/')}/{quote(tenant, safe='')}/oauth2/v2.0/token"
        self._client_id = client_id
        self._client_secret = client_secret
        self._token: tuple[str, datetime] | None = None
        self._renewing = asyncio.Lock()

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        content_type: str = "application/json",
        max_bytes: int = 0,
        repeatable: bool = True,
    ) -> HttpResponse:
        """The response to a request, sent again with a new token if Graph refuses the current one.

        Raises TryLater; Uncertain if the request is not ``repeatable``.
        """
        token: str | None = None
        for _ in range(2):
            token = await self._current(token)
            headers = {"authorization": f"Bearer {token}", "accept": "application/json", **_IMMUTABLE}
            if body:
                headers["content-type"] = content_type
            if repeatable:
                response = await send_repeatable(
                    self._http, "graph", method, self._url + path, headers, body, max_bytes=max_bytes
                )
            else:
                response = await send_once(self._http, "graph", method, self._url + path, headers, body)
            if response.status != 401:
                break
        return response

    def failure_of(self, response: HttpResponse, *, repeatable: bool = True) -> SendFailed | None:
        """The failure that a response means; None for a refusal with an unknown code."""
        code = error_code(response)
        failure = failure_of("graph", response, self.clock(), repeatable=repeatable) or ERRORS.error_of("graph", code)
        if failure is not None:
            return failure
        if response.status in (403, 404):
            return TryLater("graph", Reason.CONFIGURATION, code, after=CONFIGURATION_PAUSE)
        if response.status == 413:
            return Undeliverable("graph", Reason.TOO_LONG, code)
        if response.status >= 300:
            return None
        if repeatable:
            return TryLater("graph", Reason.UNAVAILABLE, code)
        return Uncertain("graph", Reason.RESPONSE_UNREADABLE, code)

    async def _current(self, refused: str | None) -> str:
        """A valid token other than the refused one."""
        async with self._renewing:
            if self._token and self._token[0] != refused and self.clock() < self._token[1]:
                return self._token[0]
            self._token = None
            self._token = await self._renew()
            return self._token[0]

    async def _renew(self) -> tuple[str, datetime]:
        form = {
            "client_id": self._client_id,
            "client_secret": self._client_secret.get_secret_value(),
            "grant_type": "client_credentials",
            "scope": self._scope,
        }
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        at = self.clock()
        response = await send_repeatable(
            self._http, "graph login", "POST", self._login, headers, urlencode(form).encode()
        )
        if response.status != 200:
            raise failure_of("graph login", response, at, repeatable=True) or TryLater(
                "graph login", Reason.CONFIGURATION, str(response.status), after=CONFIGURATION_PAUSE
            )
        body = response.json()
        token, lifetime = body.get("access_token"), seconds(body.get("expires_in"))
        if not isinstance(token, str) or not (token.isascii() and token.isprintable() and token.strip()):
            raise TryLater("graph login", Reason.UNAVAILABLE, "unreadable")
        if lifetime is None:
            raise TryLater("graph login", Reason.UNAVAILABLE, "unreadable")
        return token, at + lifetime - MARGIN


def error_code(response: HttpResponse) -> str:
    """Graph's error code, or the status."""
    return clean_label(get_path(response.json(), "error", "code")) or str(response.status)


def internet_message_id(message: object) -> str:
    """A message's Message-ID without its brackets; ``""`` if it has none."""
    return clean_string(get_path(message, "internetMessageId")).strip().removeprefix("<").removesuffix(">")
