"""Calls to providers over HTTP: bounded in time and size, no redirects, no cookies, and no address in any log.

An address may hold a token, so that ours are not shown by ``httpx``, which logs each one.
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
"""Shorter than any provider's: a connection that is closed while we write leaves us uncertain."""

_BEFORE_SENDING = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


@dataclass(frozen=True, slots=True)
class HttpTimeouts:
    """Seconds: to connect, of silence, and for the whole call."""

    connect: float = 5.0
    read: float = 15.0
    total: float = 30.0


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """Names of headers in lower case. ``cut``: the body went on beyond what was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    truncated: bool = False

    def json(self) -> dict[str, Any]:
        """The body's object, empty where it is none."""
        return ({} if self.truncated else json_object(self.body)) or {}


class RequestNotSent(Exception):
    """Not one byte of the request was sent."""


class ResponseLost(Exception):
    """The request, or part of it, was sent; what came of it is not known."""


class _Unlogged(httpx.URL):
    """An address that shows its host alone."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}"

    def __repr__(self) -> str:
        return f"URL({str(self)!r})"


class HttpClient:
    """Calls one provider. ``client``: closed by whoever opened it, see :func:`open_http`."""

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
        """Whatever is answered. Raises NotSent or Lost, which hold neither the address nor anything of the request."""
        written = False

        async def trace(event: str, _: Mapping[str, Any]) -> None:
            nonlocal written
            # Of a proxy too: who can tell what it had passed on.
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
    """Connections that are closed when the block ends. ``transport``: in place of the network."""
    pool = httpx.Limits(
        max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS, keepalive_expiry=KEEPALIVE_S
    )
    async with httpx.AsyncClient(limits=pool, transport=transport, verify=_tls(), follow_redirects=False) as client:
        yield HttpClient(client, limits)


@cache
def _tls() -> ssl.SSLContext:
    """Loading the certificates takes tens of milliseconds, so it is done once."""
    return httpx.create_ssl_context()


async def _read(response: httpx.Response, max_bytes: int) -> HttpResponse:
    body, cut = bytearray(), False
    # As it comes, since an answer that unpacks to gigabytes is none of a provider's.
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
    """The answer to a request that must not be made twice. Raises TryLater where it was not sent, else Uncertain."""
    try:
        return await http.call(method, url, headers=headers, body=body)
    except RequestNotSent as error:
        raise TryLater(provider, Reason.UNREACHABLE, str(error)) from None
    except ResponseLost as error:
        raise Uncertain(provider, Reason.ANSWER_LOST, str(error)) from None


async def send_repeatable(
    http: HttpClient,
    provider: str,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes = b"",
    max_bytes: int = 0,
) -> HttpResponse:
    """The answer to a request that changes nothing that matters, so that it may be made again. Raises TryLater."""
    try:
        return await http.call(method, url, headers=headers, body=body, max_bytes=max_bytes or MAX_RESPONSE_BYTES)
    except (RequestNotSent, ResponseLost) as error:
        raise TryLater(provider, Reason.UNREACHABLE, str(error)) from None


def failure_of(provider: str, answer: HttpResponse, now: datetime) -> SendFailed | None:
    """What every provider means by a status: that it was not taken now, or that nobody knows. None for the others.

    502 and 504 come from a gateway that lost the server behind it, with the request.
    """
    code = str(answer.status)
    after = retry_after(answer.headers.get("retry-after", ""), now)
    if answer.status == 429:
        return TryLater(provider, Reason.THROTTLED, code, after=after)
    if answer.status in (401, 407):
        return TryLater(provider, Reason.CONFIGURATION, code, after=after or CONFIGURATION_PAUSE)
    if answer.status in (502, 504):
        return Uncertain(provider, Reason.ANSWER_LOST, code)
    if answer.status >= 500 or answer.status == 408:
        return TryLater(provider, Reason.UNAVAILABLE, code, after=after)
    if 300 <= answer.status < 400:
        return TryLater(provider, Reason.CONFIGURATION, code, after=CONFIGURATION_PAUSE)
    return None


def retry_after(text: str, now: datetime) -> timedelta | None:
    """What a ``Retry-After`` says, as seconds or as a date (RFC 9110, 10.2.3); at most a day."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return seconds(int(text[:10]))
    with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):
        return min(max(to_utc(parsedate_to_datetime(text)) - now, timedelta(0)), MAX_RETRY_AFTER)
    return None


def seconds(value: object) -> timedelta | None:
    """A number of seconds that a provider wants us to wait, at most a day; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return timedelta(seconds=min(value, MAX_RETRY_AFTER.total_seconds()))


def json_body(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
