"""Webhooks on the same server as the API. Providers send no token; each endpoint verifies its own requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from afterturn.channels.sanitize import public_url
from afterturn.channels.turns import TURNS_PATH
from afterturn.channels.types import WebhookRequest
from afterturn.channels.webchat.webhook import ChatMessage
from afterturn.channels.webhooks import WEBHOOKS_PATH, WebhookResponse, error_response
from afterturn.clock import Clock
from afterturn.model import Record, Turn
from afterturn.web.access import RateLimiter
from afterturn.web.api.common import error_responses
from afterturn.web.api.shapes import EXAMPLES, SettledShape
from afterturn.web.proxies import Proxies

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


CHAT_PATH = f"{WEBHOOKS_PATH}/web"

_PREFIX = "Signed"
"""Prefix of these bodies' schemas: the API may show the same records in another shape."""
_SHAPES = f"#/components/schemas/{_PREFIX}{{model}}"
_STATUSES = (400, 401, 408, 413, 422, 429, 500, 503)

_HEADERS = {
    "webhook-id": ("Identifies the request; a retry has the same id.", "msg_1"),
    "webhook-timestamp": (
        "The Unix time of the signature, at most five minutes off.",
        "1772366405",
    ),
    "webhook-signature": (
        "Standard Webhooks: `v1,` and base64; several separated by spaces.",
        "v1,g0hM9S…",
    ),
}
_TURN = {
    "conversation": {"id": "c-17", "channel": "sms", "propertyId": "oak"},
    "messages": [
        {
            "id": "m-1",
            "direction": "inbound",
            "role": "customer",
            "text": "My key is stuck!",
            "at": "2026-03-01T12:00:05Z",
        }
    ],
}
_CHAT_MESSAGE = {"conversationId": "visitor-31c8", "messageId": "m-1", "text": "Hello", "name": "Ada"}


def describe_signed(app: FastAPI, *, turns: bool, chat: bool) -> None:
    """Add the signed requests to the document."""
    openapi = app.openapi

    def describe() -> dict[str, Any]:
        document = openapi()
        if turns:
            summary = "Settle a turn of another runtime, in the format that `afterturn settle` reads."
            response = {
                "description": "The turn is settled, now or before.",
                "content": _content(document, SettledShape, EXAMPLES[SettledShape]),
            }
            document["paths"][TURNS_PATH] = {
                "post": _operation(document, "hand_in_turn", summary, Turn, _TURN, response)
            }
        if chat:
            summary = "Store a visitor's message from a chat on your page, forwarded by your server."
            response = {"description": "The message is stored, now or before."}
            document["paths"][CHAT_PATH] = {
                "post": _operation(document, "hand_on_chat", summary, ChatMessage, _CHAT_MESSAGE, response)
            }
        return document

    app.openapi = describe  # type: ignore[method-assign]


def _operation(
    document: dict[str, Any], name: str, summary: str, body: type[Record], example: object, response: dict[str, Any]
) -> dict[str, Any]:
    return {
        "tags": ["signed"],
        "summary": summary,
        "operationId": name,
        "parameters": [
            {
                "name": header,
                "in": "header",
                "required": True,
                "description": text,
                "schema": {"type": "string"},
                "example": value,
            }
            for header, (text, value) in _HEADERS.items()
        ],
        "requestBody": {"required": True, "content": _content(document, body, example)},
        "responses": {"200": response, **_error_responses()},
    }


def _content(document: dict[str, Any], shape: type[Record], example: object) -> dict[str, Any]:
    """JSON of a shape; its parts are added to the document's schemas."""
    schema = shape.model_json_schema(ref_template=_SHAPES)
    parts = document.setdefault("components", {}).setdefault("schemas", {})
    parts |= {f"{_PREFIX}{name}": part for name, part in schema.pop("$defs", {}).items()}
    return {"application/json": {"schema": schema, "example": example}}


def _error_responses() -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, response in error_responses(*_STATUSES).items():
        example = response["content"]["application/json"]["example"]
        content = {"schema": {"$ref": "#/components/schemas/ErrorShape"}, "example": example}
        responses[str(status)] = {**response, "content": {"application/json": content}}
        del responses[str(status)]["model"]
    return responses
