"""Calls to Microsoft Graph in the name of an application: https://learn.microsoft.com/graph/auth-v2-service.

One token serves until it expires; one that Graph no longer takes is renewed once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

from pydantic import SecretStr

from afterturn.channels.http_client import HttpClient, HttpResponse, failure_of, send_repeatable
from afterturn.channels.sending import CONFIGURATION_PAUSE, Reason, TryLater, Uncertain
from afterturn.clock import Clock

GRAPH = "https://graph.microsoft.com"
LOGIN = "https://login.microsoftonline.com"
MARGIN = timedelta(minutes=2)
"""A token is not used in its last minutes: clocks differ, and calls take time."""
MAX_LIFETIME = timedelta(hours=24)

AuthorizedCall = Callable[[Mapping[str, str]], Awaitable[HttpResponse]]
"""One request, with the headers that say who asks."""


class GraphClient:
    """``tenant``: its id or a domain of it; ``api``, ``login``: other than the world's for national clouds."""

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
        self.http = http
        self.clock = clock
        self.url = f"{api.rstrip('/')}/v1.0/"
        self._scope = f"{api.rstrip('/')}/.default"
        self._login = f"{login.rstrip('/')}/{quote(tenant, safe='')}/oauth2/v2.0/token"
        self._client_id = client_id
        self._client_secret = client_secret
        self._token: tuple[str, datetime] | None = None
        self._renewing = asyncio.Lock()

    async def call(self, call: AuthorizedCall) -> HttpResponse:
        """What Graph answers, after a renewal where it takes the token no longer. Raises what the call raises, and
        TryLater where no token is to be had.
        """
        token = await self._current(None)
        answer = await call(_bearer(token))
        if answer.status == 401:
            answer = await call(_bearer(await self._current(token)))
        return answer

    async def _current(self, refused: str | None) -> str:
        """A token other than the refused one."""
        async with self._renewing:
            if self._token and self._token[0] != refused and self.clock() < self._token[1]:
                return self._token[0]
            self._token = None
            self._token = await self._renewed()
            return self._token[0]

    async def _renewed(self) -> tuple[str, datetime]:
        form = {
            "client_id": self._client_id,
            "client_secret": self._client_secret.get_secret_value(),
            "grant_type": "client_credentials",
            "scope": self._scope,
        }
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        at = self.clock()
        answer = await send_repeatable(self.http, "graph login", "POST", self._login, headers, urlencode(form).encode())
        if answer.status != 200:
            failure = failure_of("graph login", answer, at)
            if isinstance(failure, TryLater):
                raise failure
            if isinstance(failure, Uncertain):
                raise TryLater("graph login", Reason.UNAVAILABLE, str(answer.status))
            raise TryLater("graph login", Reason.CONFIGURATION, str(answer.status), after=CONFIGURATION_PAUSE)
        body = answer.json()
        token, lifetime = body.get("access_token"), body.get("expires_in")
        if not isinstance(token, str) or not (token.isascii() and token.isprintable() and token.strip()):
            raise TryLater("graph login", Reason.UNAVAILABLE, "unreadable")
        if isinstance(lifetime, bool) or not isinstance(lifetime, int) or lifetime < 0:
            raise TryLater("graph login", Reason.UNAVAILABLE, "unreadable")
        return token, at + min(timedelta(seconds=min(lifetime, 10**6)), MAX_LIFETIME) - MARGIN


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", "accept": "application/json"}
