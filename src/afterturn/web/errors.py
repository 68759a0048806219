"""Errors over HTTP: every one ends in the same JSON shape, or in a page for a browser."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Scope

from afterturn import telemetry
from afterturn.channels.turns import TURNS_PATH
from afterturn.channels.webhooks import RETRY_AFTER_S, WEBHOOKS_PATH
from afterturn.errors import HTTP_STATUS, AfterturnError, InvalidCursor, InvalidRecord, error_body, http_status
from afterturn.validation_messages import path_of, problem_of

Page = Callable[[Request, "HttpError"], Response]
"""The type of ``app.state.error_page``: renders an error for a person."""

API = "/api/v1"
_JSON_PATHS = (API, WEBHOOKS_PATH, TURNS_PATH)
"""Paths that answer in JSON, whatever the client accepts."""

ERROR_CODES = {
    **{status: code for _, status, code in HTTP_STATUS},
    401: "unauthenticated",
    403: "forbidden",
    405: "method",
    408: "slow",
    409: "conflict",
    413: "too_large",
    415: "content_type",
    428: "unconditional",
    429: "too_many",
}
"""The code of each error status in the body, unless the error has its own."""
_TEXTS = {
    404: "nothing is here; /api/v1/openapi.json lists every path",
    405: "method not allowed; the Allow header lists those that are",
}
_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_.\[\]-]{0,99}\Z")


class HttpError(HTTPException):
    """A response with an error status. ``message`` says what to do and quotes nothing that could be content."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.code = code or ERROR_CODES.get(status, "refused")
        self.field = field


def error_response(refused: HttpError, scope: Scope) -> Response:
    """JSON for programs, a page for browsers."""
    if _wants_page(scope):
        page: Page = scope["app"].state.error_page
        try:
            return page(Request(scope), refused)
        except Exception as error:  # an error page that fails falls back to JSON
            telemetry.log("request_failed", level=logging.ERROR, error=type(error).__name__)
    body = error_body(refused.code, str(refused.detail), refused.field)
    return JSONResponse(body, refused.status_code, refused.headers)


def _wants_page(scope: Scope) -> bool:
    path = str(scope["path"])
    if any(path == prefix or path.startswith(f"{prefix}/") for prefix in _JSON_PATHS):
        return False
    return "text/html" in Headers(scope=scope).get("accept", "")


def http_error_of(error: AfterturnError) -> HttpError:
    """The response to an error: the caller's mistakes with their text, ours without."""
    status, code = http_status(error)
    if isinstance(error, InvalidRecord):
        field = error.field if _FIELD.match(error.field) else None
        return HttpError(status, error.problem if field is None else str(error), code=code, field=field)
    if status < 500:
        return HttpError(status, str(error), code=code, field="cursor" if isinstance(error, InvalidCursor) else None)
    if status == 503:
        telemetry.log("request_unavailable", level=logging.ERROR, error=type(error).__name__)
        retry = {"retry-after": str(RETRY_AFTER_S)}
        return HttpError(status, "the store or the stream does not answer; try again later", headers=retry)
    return internal_error(error)


def internal_error(error: BaseException) -> HttpError:
    """An unexpected error: the log gets its class, the caller nothing, because its text could quote a message."""
    telemetry.log("request_failed", level=logging.ERROR, error=type(error).__name__)
    return HttpError(500, "internal error; see the server log")


def install_errors(app: FastAPI) -> None:
    """Register handlers, so that every error of a route or the router has the same shape."""

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return error_response(error if isinstance(error, HttpError) else _from_starlette(error), request.scope)

    async def on_validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return error_response(_of_validation(error), request.scope)

    async def on_afterturn(request: Request, error: Exception) -> Response:
        assert isinstance(error, AfterturnError)
        return error_response(http_error_of(error), request.scope)

    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(AfterturnError, on_afterturn)


def _from_starlette(error: HTTPException) -> HttpError:
    status = error.status_code
    text = _TEXTS.get(status, "invalid request; check it against /api/v1/openapi.json")
    return HttpError(status, text, headers=error.headers)


def _of_validation(error: RequestValidationError) -> HttpError:
    """The first problem, with its field and without the value that caused it."""
    first = error.errors()[0]
    location, *steps = first["loc"] or ("body",)
    field = path_of(steps) or str(location)
    problem = problem_of(first)
    # An unknown name is the caller's own text, so it is quoted only once.
    text = f"the field {problem}" if first["type"] == "extra_forbidden" else f"{field}: {problem}"
    return HttpError(422, text, field=field)
