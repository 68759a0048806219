"""Webhooks on the same server as the API. Providers send no token; each endpoint verifies its own requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from urllib.parse import quote

from fastapi import FastAPI
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from afterturn.channels.sanitize import public_url
from afterturn.channels.turns import TURNS_PATH
from afterturn.channels.types import WebhookRequest
from afterturn.channels.webhooks import WEBHOOKS_PATH, WebhookResponse, error_response
from afterturn.clock import Clock
from afterturn.web.proxies import Proxies
from afterturn.web.sessions import RateLimiter
from afterturn.web.signed import describe_signed

Router = Callable[[str, WebhookRequest], Awaitable[WebhookResponse]]
Handler = Callable[[WebhookRequest], Awaitable[WebhookResponse]]

_METHODS = ["DELETE", "GET", "PATCH", "POST", "PUT"]
_REFUSED = {401, 403}


def mount_webhooks(
    app: FastAPI,
    clock: Clock,
    router: Router,
    *,
    turns: Handler | None = None,
    chat: bool = False,
    public: str | None = None,
) -> None:
    """Mount the webhooks, and the endpoint for turns if there is one.

    An address whose requests are refused too often gets 429. A request with a good signature is still accepted, so
    nobody can lock out a provider.

    Args:
        public: the base URL that providers call, if it differs from the request's.
        chat: whether the OpenAPI document describes the web chat.
    """
    proxies: Proxies = app.state.proxies
    refusals = RateLimiter(60, timedelta(minutes=1))

    async def respond(request: HttpRequest, handle: Handler) -> Response:
        response = await handle(await _request(request, public))
        if response.status in _REFUSED and (wait := refusals.take(proxies.caller_of(request), clock())) is not None:
            seconds = str(max(1, int(wait.total_seconds())))
            response = error_response(
                429, "too_many", "too many calls without a good signature", {"retry-after": seconds}
            )
        return Response(response.body, response.status, dict(response.headers))

    describe_signed(app, turns=turns is not None, chat=chat)

    async def hook(request: HttpRequest) -> Response:
        path = request.url.path
        return await respond(request, lambda parsed: router(path, parsed))

    # First, because providers call more often than people and routes are matched in order.
    app.router.routes.insert(
        0, Route(f"{WEBHOOKS_PATH}/{{rest:path}}", hook, methods=_METHODS, include_in_schema=False)
    )
    if turns is not None:
        handler = turns

        async def turn(request: HttpRequest) -> Response:
            return await respond(request, handler)

        app.add_route(TURNS_PATH, turn, methods=_METHODS, include_in_schema=False)


async def _request(request: HttpRequest, public: str | None) -> WebhookRequest:
    target = quote(request.scope["path"], safe="/%:@!$&'()*+,;=~-._")
    if raw := request.scope.get("raw_path"):
        target = raw.decode("latin-1").partition("?")[0]
    if query := request.scope.get("query_string", b"").decode("latin-1"):
        target += f"?{query}"
    base = public or f"{request.url.scheme}://{request.url.netloc}"
    headers = {name.lower(): value for name, value in request.headers.items()}
    return WebhookRequest(request.method, public_url(base, target), headers, await request.body())
