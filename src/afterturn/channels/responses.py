"""What a door answers over HTTP, and the one shape of an error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from afterturn.channels.types import Rejected
from afterturn.errors import AfterturnError, InvalidInput, InvalidRecord, StoreError

RETRY_AFTER_S = 30
"""When to call again where the store cannot be used."""


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """Status, body and headers, whoever serves them."""

    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


def json_response(value: Mapping[str, Any], status: int = 200) -> WebhookResponse:
    """JSON."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return WebhookResponse(status, body, {"content-type": "application/json"})


def error_response(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None, *, field: str | None = None
) -> WebhookResponse:
    """``{"error": {"code": "invalid", "message": "…", "field": "…"}}``: the shape of every error, which names a field
    where one is to blame.
    """
    about = {} if field is None else {"field": field}
    answer = json_response({"error": {"code": code, "message": message, **about}}, status)
    return WebhookResponse(status, answer.body, {**answer.headers, **(headers or {})})


def response_to_error(error: AfterturnError) -> WebhookResponse:
    """What the caller is told of an error: its own mistakes in words, of ours only that it may call again."""
    if isinstance(error, Rejected):
        return error_response(error.status, "rejected", error.reason)
    if isinstance(error, InvalidRecord):
        return error_response(400, "invalid", str(error), field=error.field or None)
    if isinstance(error, InvalidInput):
        return error_response(400, "invalid", str(error))
    if isinstance(error, StoreError):
        retry = {"retry-after": str(RETRY_AFTER_S)}
        return error_response(503, "unavailable", "nothing was saved; call again with the same body", retry)
    return error_response(500, "failed", "nothing was saved; call again with the same body")
