"""What the OpenAPI document says of calls that are signed: turns that a runtime hands in, and a chat on a page."""

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
"""Before the names of what these bodies are made of: the API may show the same records otherwise."""
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
    """The event of a turn. ``new`` is false where it had been settled before."""

    event_id: str
    occurred_at: str
    new: bool


def describe_signed(app: FastAPI, *, turns: bool, chat: bool) -> None:
    """Let the document tell of them, too."""
    plain = app.openapi

    def whole() -> dict[str, Any]:
        document = plain()
        if turns:
            about = "Settle a turn that another runtime of yours brings, in the shape that `afterturn settle` reads."
            told = {"description": "It is settled, now or before.", "content": _content(document, SettledShape, _EVENT)}
            document["paths"][TURNS_PATH] = {"post": _operation(document, "hand_in_turn", about, Turn, _TURN, told)}
        if chat:
            about = "Take in what a visitor wrote to a chat on your page, handed on by your server."
            told = {"description": "It is taken in, now or before."}
            document["paths"][CHAT_PATH] = {
                "post": _operation(document, "hand_on_chat", about, ChatMessage, _SAID, told)
            }
        return document

    app.openapi = whole  # type: ignore[method-assign]


def _operation(
    document: dict[str, Any], name: str, about: str, body: type[Record], example: object, told: dict[str, Any]
) -> dict[str, Any]:
    return {
        "tags": ["signed"],
        "summary": about,
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
        "responses": {"200": told, **_errors()},
    }


def _content(document: dict[str, Any], shape: type[Record], example: object) -> dict[str, Any]:
    """JSON of a shape, whose parts are put beside those that the document has."""
    schema = shape.model_json_schema(ref_template=_SHAPES)
    parts = document.setdefault("components", {}).setdefault("schemas", {})
    parts |= {f"{_PREFIX}{name}": part for name, part in schema.pop("$defs", {}).items()}
    return {"application/json": {"schema": schema, "example": example}}


def _errors() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, told in documented_errors(*_STATUSES, always=()).items():
        example = told["content"]["application/json"]["example"]
        content = {"schema": {"$ref": "#/components/schemas/ErrorShape"}, "example": example}
        found[str(status)] = {**told, "content": {"application/json": content}}
        del found[str(status)]["model"]
    return found
