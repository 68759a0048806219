"""The OpenAPI description of signed requests: turns of other runtimes, and a chat on your page."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from afterturn.channels.turns import TURNS_PATH
from afterturn.channels.webchat.webhook import ChatMessage
from afterturn.channels.webhooks import WEBHOOKS_PATH
from afterturn.model import Record, Turn
from afterturn.web.api.common import documented_errors

CHAT_PATH = f"{WEBHOOKS_PATH}/web"

_PREFIX = "Signed"
"""Prefix of these bodies' schemas: the API may show the same records in another shape."""
_SHAPES = f"#/components/schemas/{_PREFIX}{{model}}"
_STATUSES = (400, 401, 408, 413, 422, 429, 500, 503)

_HEADERS = {
    "webhook-id": ("Names the call; the very same is sent again with the same.", "msg_1"),
    "webhook-timestamp": ("When it was signed, in seconds since 1970; at most five minutes away.", "1772366405"),
    "webhook-signature": ("As Standard Webhooks sign: `v1,` and base64; several, separated by spaces.", "v1,g0hM9S…"),
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
_EVENT = {"eventId": "turn:c-17:1772366405000", "occurredAt": "2026-03-01T12:00:05.000000Z", "new": True}
_SAID = {"conversationId": "visitor-31c8", "messageId": "m-1", "text": "Hello", "name": "Ada"}


class SettledShape(Record):
    """The event of a turn. ``new`` is false if it was settled before."""

    event_id: str
    occurred_at: str
    new: bool


def describe_signed(app: FastAPI, *, turns: bool, chat: bool) -> None:
    """Add the signed requests to the document."""
    openapi = app.openapi

    def describe() -> dict[str, Any]:
        document = openapi()
        if turns:
            summary = "Settle a turn of another runtime, in the format that `afterturn settle` reads."
            response = {
                "description": "The turn is settled, now or before.",
                "content": _content(document, SettledShape, _EVENT),
            }
            document["paths"][TURNS_PATH] = {
                "post": _operation(document, "hand_in_turn", summary, Turn, _TURN, response)
            }
        if chat:
            summary = "Store a visitor's message from a chat on your page, forwarded by your server."
            response = {"description": "The message is stored, now or before."}
            document["paths"][CHAT_PATH] = {
                "post": _operation(document, "hand_on_chat", summary, ChatMessage, _SAID, response)
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
        "responses": {"200": response, **_errors()},
    }


def _content(document: dict[str, Any], shape: type[Record], example: object) -> dict[str, Any]:
    """JSON of a shape; its parts are added to the document's schemas."""
    schema = shape.model_json_schema(ref_template=_SHAPES)
    parts = document.setdefault("components", {}).setdefault("schemas", {})
    parts |= {f"{_PREFIX}{name}": part for name, part in schema.pop("$defs", {}).items()}
    return {"application/json": {"schema": schema, "example": example}}


def _errors() -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, response in documented_errors(*_STATUSES, always=()).items():
        example = response["content"]["application/json"]["example"]
        content = {"schema": {"$ref": "#/components/schemas/ErrorShape"}, "example": example}
        responses[str(status)] = {**response, "content": {"application/json": content}}
        del responses[str(status)]["model"]
    return responses
