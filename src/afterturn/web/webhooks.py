"""Where providers call, on the same server as the API: they bring no token, each door verifies on its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from urllib.parse import quote

from fastapi import FastAPI
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from afterturn.channels.responses import WebhookResponse, error_response
from afterturn.channels.sanitize import public_url
from afterturn.channels.turns import TURNS_PATH
from afterturn.channels.types import WebhookRequest
from afterturn.channels.webhooks import WEBHOOKS_PATH
from afterturn.clock import Clock
from afterturn.web.proxies import Proxies
from afterturn.web.sessions import RateLimiter
from afterturn.web.signed import describe_signed

Doors = Callable[[str, WebhookRequest], Awaitable[WebhookResponse]]
Door = Callable[[WebhookRequest], Awaitable[WebhookResponse]]

_METHODS = ["DELETE", "GET", "PATCH", "POST", "PUT"]
_REFUSED = {401, 403}


def mount_webhooks(
    app: FastAPI,
    clock: Clock,
    doors: Doors,
    *,
    turns: Door | None = None,
    chat: bool = False,
    public: str | None = None,
) -> None:
    """``public``: the address by which providers reach this server, where it is another than the request's own.
    ``chat``: whether one on a page of the user's is among the doors; it stands in the document, as turns do.

    Whoever is refused too often from one address is told to wait. A good signature is let in all the same: no stranger
    may shut out a provider.
    """
    proxies: Proxies = app.state.proxies
    tries = RateLimiter(60, timedelta(minutes=1))

    async def answered(
        request: HttpRequest, answer: Callable[[WebhookRequest], Awaitable[WebhookResponse]]
    ) -> Response:
        found = await answer(await _request(request, public))
        if found.status in _REFUSED and (wait := tries.take(proxies.caller_of(request), clock())) is not None:
            seconds = str(max(1, int(wait.total_seconds())))
            found = error_response(429, "too_many", "too many calls without a good signature", {"retry-after": seconds})
        return Response(found.body, found.status, dict(found.headers))

    describe_signed(app, turns=turns is not None, chat=chat)

    async def hook(request: HttpRequest) -> Response:
        path = request.url.path
        return await answered(request, lambda given: doors(path, given))

    # In front: providers call more often than people, and a request is matched route by route.
    app.router.routes.insert(
        0, Route(f"{WEBHOOKS_PATH}/{{rest:path}}", hook, methods=_METHODS, include_in_schema=False)
    )
    if turns is not None:
        door = turns

        async def turn(request: HttpRequest) -> Response:
            return await answered(request, door)

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
