"""HTTP responses of webhooks, and the one shape of an error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from afterturn.channels.types import Rejected
from afterturn.errors import AfterturnError, InvalidRecord, error_body, http_status

RETRY_AFTER_S = 30
"""Sent as ``Retry-After`` if the store is unavailable."""


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """Status, body and headers, for any server."""

    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


def json_response(value: Mapping[str, Any], status: int = 200) -> WebhookResponse:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return WebhookResponse(status, body, {"content-type": "application/json"})


def error_response(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None, *, field: str | None = None
) -> WebhookResponse:
    """An error in the shape of :func:`afterturn.errors.error_body`."""
    answer = json_response(error_body(code, message, field), status)
    return WebhookResponse(status, answer.body, {**answer.headers, **(headers or {})})


def response_to_error(error: AfterturnError) -> WebhookResponse:
    """The response to an error: the caller's mistakes with their text, ours without."""
    if isinstance(error, Rejected):
        return error_response(error.status, "rejected", error.reason)
    status, code = http_status(error)
    if status < 500:
        field = error.field or None if isinstance(error, InvalidRecord) else None
        return error_response(status, code, str(error), field=field)
    retry = {"retry-after": str(RETRY_AFTER_S)} if status == 503 else {}
    return error_response(status, code, "nothing was saved; call again with the same body", retry)
