"""What stands before every route: sizes and times of bodies, who calls, addresses, and what a failure looks like."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from urllib.parse import quote, unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from afterturn.web.access import AccessControl, may_change
from afterturn.web.errors import API, HttpError, error_response, internal_error

LOGIN = ("POST", f"{API}/session")
"""Needs no CSRF token: it takes JSON, which no foreign page may send, and who has the secret already."""
PUBLIC_ROUTES = frozenset({LOGIN, ("GET", f"{API}/openapi.json")})
"""What nobody has to be known for."""

MAX_BODY_BYTES = 2_000_000
BODY_TIMEOUT_S = 20.0
"""How long a whole body may take to arrive."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_CLOSE = {"connection": "close"}
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class ErrorBoundary:
    """Outermost: an error that nobody foresaw ends in the one shape, and its text in no log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = False

        async def marked(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(_with_segments(scope), receive, marked)
        except Exception as error:
            refused = internal_error(error)
            if not began:
                await error_response(refused, scope)(scope, receive, marked)


class AuthMiddleware:
    """Nobody gets beyond without being known, so that a new route cannot forget to ask."""

    def __init__(
        self,
        app: ASGIApp,
        access: AccessControl,
        *,
        prefix: str = API,
        open_: Collection[tuple[str, str]] = PUBLIC_ROUTES,
    ) -> None:
        self._app = app
        self._access = access
        self._prefix = prefix
        self._open = open_

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(self._prefix):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        caller = self._access.caller(headers)
        scope.setdefault("state", {})["caller"] = caller
        if refused := _refused(scope, headers, caller is not None, self._open):
            await error_response(refused, scope)(scope, receive, send)
            return
        changes = scope["method"] not in SAFE_METHODS and (scope["method"], scope["path"]) != LOGIN
        if caller is not None and changes and not may_change(caller, headers):
            refused = HttpError(403, "csrf", "send the session's csrfToken in the X-CSRF-Token header")
            await error_response(refused, scope)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _refused(scope: Scope, headers: Headers, known: bool, open_: Collection[tuple[str, str]]) -> HttpError | None:
    if known or (scope["method"], scope["path"]) in open_:
        return None
    text = "the token is unknown, expired or revoked" if "authorization" in headers else "log in, or send a token"
    return HttpError(401, "unauthenticated", f"{text}: Authorization: Bearer …", headers={"www-authenticate": "Bearer"})


class BodyLimit:
    """Reads a whole body before a route sees any of it: small enough, and soon enough."""

    def __init__(self, app: ASGIApp, *, most: int = MAX_BODY_BYTES, patience: float = BODY_TIMEOUT_S) -> None:
        self._app = app
        self._most = most
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _has_body(scope):
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(scope, receive)
        except HttpError as refused:
            await error_response(refused, scope)(scope, receive, send)
            return
        if body is None:  # the caller went away: there is nobody to answer
            return
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        too_large = HttpError(413, "too_large", f"a body has at most {self._most:,} bytes; send less", headers=_CLOSE)
        told = Headers(scope=scope).get("content-length", "0")
        if not (told.isascii() and told.isdigit()) or int(told[:20]) > self._most:
            raise too_large
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self._most:
                        raise too_large
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            text = f"the body was not there within {self._patience:g} s; send it again, in one go"
            raise HttpError(408, "slow", text, headers=_CLOSE) from None


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _with_segments(scope: Scope) -> Scope:
    """The address with its segments kept apart: an id may hold a slash, sent as ``%2F``.

    A segment that holds a slash or a percent sign stays quoted; :func:`unquoted` reads it.
    """
    raw = scope.get("raw_path")
    if raw is None:
        return scope
    segments = [unquote(one) for one in raw.decode("latin-1").split("/")]
    path = "/".join(quote(one, safe="") if "/" in one or "%" in one else one for one in segments)
    return {**scope, "path": path}


def unquoted(segment: str) -> str:
    """A segment of an address as its caller meant it."""
    return unquote(segment)
