"""Middleware in front of every route: authentication, body limits, path segments, and errors."""

from __future__ import annotations

import asyncio
from urllib.parse import quote, unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from afterturn.web.access import AccessControl, may_change
from afterturn.web.errors import API, HttpError, error_response, internal_error

LOGIN = ("POST", f"{API}/session")
"""Needs no CSRF token: it takes JSON, which no other site can send, with a secret in it."""
PUBLIC_ROUTES = frozenset({LOGIN, ("GET", f"{API}/openapi.json")})
"""Routes without authentication."""

MAX_BODY_BYTES = 2_000_000
BODY_TIMEOUT_S = 20.0
"""Seconds within which a whole body has to arrive."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_CLOSE = {"connection": "close"}
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class ErrorBoundary:
    """Outermost: an unexpected error becomes a response in the usual shape, and its text is not logged."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = False

        async def send_hardened(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(_with_segments(scope), receive, send_hardened)
        except Exception as error:
            refused = internal_error(error)
            if not began:
                await error_response(refused, scope)(scope, receive, send_hardened)


class AuthMiddleware:
    """Refuses unauthenticated requests, so that a new route cannot forget to."""

    def __init__(
        self,
        app: ASGIApp,
        access: AccessControl,
    ) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(API):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        caller = self._access.caller(headers)
        scope.setdefault("state", {})["caller"] = caller
        if refused := _refused(scope, headers, caller is not None):
            await error_response(refused, scope)(scope, receive, send)
            return
        changes = scope["method"] not in SAFE_METHODS and (scope["method"], scope["path"]) != LOGIN
        if caller is not None and changes and not may_change(caller, headers):
            refused = HttpError(403, "send the session's csrfToken in the X-CSRF-Token header", code="csrf")
            await error_response(refused, scope)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _refused(scope: Scope, headers: Headers, known: bool) -> HttpError | None:
    if known or (scope["method"], scope["path"]) in PUBLIC_ROUTES:
        return None
    text = "the token is unknown, expired or revoked" if "authorization" in headers else "log in, or send a token"
    return HttpError(401, f"{text}: Authorization: Bearer …", headers={"www-authenticate": "Bearer"})


class BodyLimit:
    """Reads the whole body before the route runs, within a size and a time."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, timeout_s: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

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
        replayed = False

        async def replay() -> Message:
            nonlocal replayed
            if replayed:
                return await receive()
            replayed = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        too_large = HttpError(413, f"a body has at most {self._max_bytes:,} bytes; send less", headers=_CLOSE)
        length = Headers(scope=scope).get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length[:20]) > self._max_bytes:
            raise too_large
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self._max_bytes:
                        raise too_large
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            text = f"the body did not arrive within {self._timeout_s:g} s; send it again"
            raise HttpError(408, text, headers=_CLOSE) from None


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def _with_segments(scope: Scope) -> Scope:
    """The path with its segments kept apart: an id may contain a slash, sent as ``%2F``.

    A segment that holds a slash or a percent sign stays quoted; :func:`unquoted` reads it.
    """
    raw = scope.get("raw_path")
    if raw is None:
        return scope
    segments = [unquote(segment) for segment in raw.decode("latin-1").split("/")]
    path = "/".join(quote(segment, safe="") if "/" in segment or "%" in segment else segment for segment in segments)
    return {**scope, "path": path}


def unquoted(segment: str) -> str:
    """A path segment, decoded."""
    return unquote(segment)
