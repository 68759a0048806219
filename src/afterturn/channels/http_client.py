"""HTTP client for providers: bounded in time and size, no redirects, no cookies, and no URL in any log.

A URL may hold a token, and ``httpx`` logs every URL that it calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

import httpx

from afterturn.channels.sanitize import json_object
from afterturn.channels.sending import CONFIGURATION_PAUSE, Reason, SendFailed, TryLater, Uncertain
from afterturn.clock import to_utc

MAX_RESPONSE_BYTES = 2**20
MAX_RETRY_AFTER = timedelta(days=1)
CONNECTIONS = 20
KEEPALIVE_S = 4.0
"""Shorter than any provider's: if it closes the connection while we write, the outcome is unknown."""

_BEFORE_SENDING = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


@dataclass(frozen=True, slots=True)
class HttpTimeouts:
    """In seconds: to connect, between two bytes, and for the whole call."""

    connect: float = 5.0
    read: float = 15.0
    total: float = 30.0


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """``headers``: names in lower case. ``truncated``: the body is longer than what was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    truncated: bool = False

    def json(self) -> dict[str, Any]:
        """The body's JSON object; empty if it is not one."""
        return ({} if self.truncated else json_object(self.body)) or {}


class RequestNotSent(Exception):
    """No byte of the request was sent."""


class ResponseLost(Exception):
    """The request or a part of it was sent, and the outcome is unknown."""


class _Unlogged(httpx.URL):
    """A URL that shows only its host."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}"

    def __repr__(self) -> str:
        return f"URL({str(self)!r})"


class HttpClient:
    """Calls providers. Open it with :func:`open_http`."""

    def __init__(self, client: httpx.AsyncClient, limits: HttpTimeouts | None = None) -> None:
        self._client = client
        self._limits = limits or HttpTimeouts()

    async def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        max_bytes: int = MAX_RESPONSE_BYTES,
    ) -> HttpResponse:
        """The response, whatever its status.

        Raises:
            RequestNotSent, ResponseLost: they hold neither the URL nor anything of the request.
        """
        written = False

        async def trace(event: str, _: Mapping[str, Any]) -> None:
            nonlocal written
            # This includes a proxy: what it forwarded is unknown.
            written = written or event.endswith("send_request_headers.started")

        try:
            request = httpx.Request(
                method,
                url,
                headers={"user-agent": "afterturn", "accept-encoding": "identity", **(headers or {})},
                content=body or None,
                extensions={"timeout": self._timeout().as_dict(), "trace": trace},
            )
        except httpx.InvalidURL:
            raise RequestNotSent("InvalidURL") from None
        request.url = _Unlogged(request.url)
        try:
            async with asyncio.timeout(self._limits.total):
                response = await self._client.send(request, stream=True, follow_redirects=False, auth=None)
                try:
                    return await _read(response, max_bytes)
                finally:
                    await response.aclose()
        except (httpx.HTTPError, httpx.StreamError, TimeoutError, OSError) as error:
            kind = type(error).__name__
            if isinstance(error, _BEFORE_SENDING) or not written:
                raise RequestNotSent(kind) from None
            raise ResponseLost(kind) from None

    def _timeout(self) -> httpx.Timeout:
        return httpx.Timeout(self._limits.read, connect=self._limits.connect, pool=self._limits.connect)


@asynccontextmanager
async def open_http(
    limits: HttpTimeouts | None = None, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[HttpClient]:
    """A client whose connections are closed when the block ends. ``transport``: replaces the network."""
    pool = httpx.Limits(
        max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=KEEPALIVE_S
    )
    async with httpx.AsyncClient(limits=pool, transport=transport, verify=_tls(), follow_redirects=False) as client:
        yield HttpClient(client, limits)


@cache
def _tls() -> ssl.SSLContext:
    """Loading the certificates takes tens of milliseconds."""
    return httpx.create_ssl_context()


async def _read(response: httpx.Response, max_bytes: int) -> HttpResponse:
    body, cut = bytearray(), False
    # Raw, since a small compressed body may unpack to gigabytes.
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > max_bytes:
            cut = True
            break
    headers = {name.lower(): value for name, value in response.headers.items()}
    return HttpResponse(response.status_code, headers, bytes(body[:max_bytes]), cut)


async def send_once(
    http: HttpClient, provider: str, method: str, url: str, headers: Mapping[str, str], body: bytes
) -> HttpResponse:
    """Send a request that must not be repeated. Raises TryLater if it was not sent, otherwise Uncertain."""
    try:
        return await http.call(method, url, headers=headers, body=body)
    except RequestNotSent as error:
        raise TryLater(provider, Reason.UNREACHABLE, str(error)) from None
    except ResponseLost as error:
        raise Uncertain(provider, Reason.RESPONSE_LOST, str(error)) from None


async def send_repeatable(
    http: HttpClient,
    provider: str,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes = b"",
    max_bytes: int = 0,
) -> HttpResponse:
    """Send a request that may be repeated. Raises TryLater."""
    try:
        return await http.call(method, url, headers=headers, body=body, max_bytes=max_bytes or MAX_RESPONSE_BYTES)
    except (RequestNotSent, ResponseLost) as error:
        raise TryLater(provider, Reason.UNREACHABLE, str(error)) from None


def failure_of(provider: str, response: HttpResponse, now: datetime, *, repeatable: bool = False) -> SendFailed | None:
    """The failure that a status means at every provider; None for a success or a refusal.

    502 and 504 come from a gateway that lost the server behind it, so the outcome is unknown, unless the request is
    ``repeatable``.
    """
    code = str(response.status)
    after = retry_after(response.headers.get("retry-after", ""), now)
    if response.status == 429:
        return TryLater(provider, Reason.THROTTLED, code, after=after)
    if response.status in (401, 407):
        return TryLater(provider, Reason.CONFIGURATION, code, after=after or CONFIGURATION_PAUSE)
    if response.status in (502, 504) and not repeatable:
        return Uncertain(provider, Reason.RESPONSE_LOST, code)
    if response.status >= 500 or response.status == 408:
        return TryLater(provider, Reason.UNAVAILABLE, code, after=after)
    if 300 <= response.status < 400:
        return TryLater(provider, Reason.CONFIGURATION, code, after=CONFIGURATION_PAUSE)
    return None


def retry_after(text: str, now: datetime) -> timedelta | None:
    """The value of ``Retry-After``, seconds or a date (RFC 9110, 10.2.3); at most a day."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return seconds(int(text[:10]))
    with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):
        return min(max(to_utc(parsedate_to_datetime(text)) - now, timedelta(0)), MAX_RETRY_AFTER)
    return None


def seconds(value: object) -> timedelta | None:
    """A pause that a provider asks for, at most a day; None if it is not a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return timedelta(seconds=min(value, MAX_RETRY_AFTER.total_seconds()))


def json_body(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
