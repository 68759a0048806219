"""The one shape of an error: ``{"error": {"code": "…", "message": "…", "field": "…"}}``, whatever went wrong where."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Scope

from afterturn import telemetry
from afterturn.channels.responses import RETRY_AFTER_S
from afterturn.channels.turns import TURNS_PATH
from afterturn.channels.webhooks import WEBHOOKS_PATH
from afterturn.errors import (
    AfterturnError,
    Conflict,
    EngineUnavailable,
    InvalidCursor,
    InvalidInput,
    InvalidQuery,
    InvalidRecord,
    NotFound,
    StoreError,
    StreamUnavailable,
)
from afterturn.validation_messages import path_of, problem_of

Page = Callable[[Request, "HttpError"], Response]
"""What ``app.state.error_page`` is: shows a person what went wrong."""

API = "/api/v1"
_OF_PROGRAMS = (API, WEBHOOKS_PATH, TURNS_PATH)
"""Where no browser looks, whatever it says that it accepts."""

_CODES = {400: "invalid", 404: "not_found", 405: "method", 413: "too_large"}
_TEXTS = {
    404: "there is nothing at this address; /api/v1/openapi.json lists what there is",
    405: "this address does not take the method; the Allow header names those that it takes",
}
_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_.\[\]-]{0,99}\Z")


class HttpError(HTTPException):
    """Answered as it stands. ``message`` says what to do next and quotes nothing that could be content."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.code = code
        self.field = field


def error_body(code: str, message: str, field: str | None = None) -> dict[str, Any]:
    told = {"code": code, "message": message}
    return {"error": told if field is None else {**told, "field": field}}


def error_response(refused: HttpError, scope: Scope) -> Response:
    """The one shape; a page for a browser that a person looks through, wherever no program calls."""
    if _is_looked_at(scope):
        page: Page = scope["app"].state.error_page
        try:
            return page(Request(scope), refused)
        except Exception as error:  # of a page that tells of an error there shall not be a second one
            telemetry.log("request_failed", level=logging.ERROR, error=type(error).__name__)
    body = error_body(refused.code, str(refused.detail), refused.field)
    return JSONResponse(body, refused.status_code, refused.headers)


def _is_looked_at(scope: Scope) -> bool:
    path = str(scope["path"])
    if any(path == one or path.startswith(f"{one}/") for one in _OF_PROGRAMS):
        return False
    return "text/html" in Headers(scope=scope).get("accept", "")


_OURS: tuple[tuple[type[AfterturnError], int, str], ...] = (
    (InvalidCursor, 400, "invalid_cursor"),
    (InvalidQuery, 422, "invalid"),
    (InvalidInput, 400, "invalid"),
    (NotFound, 404, "not_found"),
    (Conflict, 412, "stale"),
)


def http_error_of(error: AfterturnError) -> HttpError:
    """What a caller is told: its own mistakes in words, of ours only whether it may try again."""
    if isinstance(error, InvalidRecord):
        field = error.field if _FIELD.match(error.field) else None
        return HttpError(422, "invalid", error.problem if field is None else str(error), field=field)
    for kind, status, code in _OURS:
        if isinstance(error, kind):
            return HttpError(status, code, str(error), field="cursor" if kind is InvalidCursor else None)
    if isinstance(error, StoreError | StreamUnavailable | EngineUnavailable):
        telemetry.log("request_unavailable", level=logging.ERROR, error=type(error).__name__)
        retry = {"retry-after": str(RETRY_AFTER_S)}
        return HttpError(503, "unavailable", "the store or the stream does not answer; try again later", headers=retry)
    return internal_error(error)


def internal_error(error: BaseException) -> HttpError:
    """A fault of ours: the log gets its kind, the caller nothing, for its text could quote anybody."""
    telemetry.log("request_failed", level=logging.ERROR, error=type(error).__name__)
    return HttpError(500, "failed", "this failed on our side; the log of the server says of what kind it is")


def install_errors(app: FastAPI) -> None:
    """Let every error that a route or the router raises end in the one shape."""

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return error_response(error if isinstance(error, HttpError) else _of_library(error), request.scope)

    async def on_validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return error_response(_of_validation(error), request.scope)

    async def on_ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, AfterturnError)
        return error_response(http_error_of(error), request.scope)

    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(AfterturnError, on_ours)


def _of_library(error: HTTPException) -> HttpError:
    status = error.status_code
    text = _TEXTS.get(status, "the request cannot be read; check it against /api/v1/openapi.json")
    return HttpError(status, _CODES.get(status, "refused"), text, headers=error.headers)


def _of_validation(error: RequestValidationError) -> HttpError:
    """The first problem, with its field and without the value that caused it."""
    first = error.errors()[0]
    place, *steps = first["loc"] or ("body",)
    field = path_of(steps) or str(place)
    problem = problem_of(first)
    # A name that nobody knows is the caller's own word, and stands in one place only.
    text = f"the field {problem}" if first["type"] == "extra_forbidden" else f"{field}: {problem}"
    return HttpError(422, "invalid", text, field=field)
