"""What the routes share: required roles, strict JSON, idempotency keys, and the OpenAPI description of errors."""

from __future__ import annotations

import email.message
import hashlib
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Path, Request, Security
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from fastapi.security import APIKeyCookie, HTTPBearer
from pydantic import Field

from afterturn.backbone import Backbone
from afterturn.errors import InvalidInput, error_body
from afterturn.model import Record
from afterturn.strict_json import read_json
from afterturn.web.access import COOKIE
from afterturn.web.api.scoped_store import ScopedStore
from afterturn.web.api.shapes import EXAMPLES
from afterturn.web.errors import ERROR_CODES, HttpError
from afterturn.web.middleware import unquoted
from afterturn.web.roles import Caller, CallerRole

T = TypeVar("T")

_bearer = HTTPBearer(auto_error=False, description="A token of `afterturn token add`.")
_cookie = APIKeyCookie(
    name=COOKIE,
    auto_error=False,
    description="A session; requests that change something also send its csrfToken as X-CSRF-Token.",
)


def needs(role: CallerRole) -> Callable[..., Coroutine[Any, Any, Caller]]:
    """A dependency: the caller, who has at least this role; roles above operator need a scope of all properties."""

    async def check(
        request: Request, bearer: Annotated[Any, Security(_bearer)], cookie: Annotated[Any, Security(_cookie)]
    ) -> Caller:
        caller: Caller | None = getattr(request.state, "caller", None)
        if caller is None:
            raise HttpError(401, "log in, or send a token: Authorization: Bearer …")
        if not caller.role.covers(role) or not (role is CallerRole.OPERATOR or caller.scope.whole):
            raise HttpError(403, f"this needs the role {role.value}; the caller's is {caller.role.value}")
        return caller

    return check


def backbone_of(request: Request) -> Backbone:
    backbone: Backbone = request.app.state.backbone
    return backbone


OpenBackbone = Annotated[Backbone, Depends(backbone_of)]
"""For routes outside the scope of properties; those about conversations use :data:`StoreOfCaller`."""
Operator = Annotated[Caller, Depends(needs(CallerRole.OPERATOR))]
OnCall = Annotated[Caller, Depends(needs(CallerRole.ON_CALL))]
Admin = Annotated[Caller, Depends(needs(CallerRole.ADMIN))]


def scoped_store_of(backbone: OpenBackbone, caller: Operator) -> ScopedStore:
    return ScopedStore(backbone, caller.scope)


StoreOfCaller = Annotated[ScopedStore, Depends(scoped_store_of)]

CursorText = Annotated[
    str | None, Field(description="The nextCursor of the page before, with the same other parameters.")
]


def _conversation_id(
    conversation_id: Annotated[
        str,
        Path(description="The id of a conversation, percent-encoded.", examples=["c-17"], min_length=1, max_length=800),
    ],
) -> str:
    return unquoted(conversation_id)


ConversationId = Annotated[str, Depends(_conversation_id)]


class Parameters(Record):
    """Query parameters. Unknown ones are refused: a misspelt filter would select too much."""


class LimitParameters(Parameters):
    limit: Annotated[int, Field(ge=1, le=500, description="Maximum number of entries.")] = 100


class ListParameters(LimitParameters):
    cursor: CursorText = None


class PageParameters(Parameters):
    limit: Annotated[int, Field(ge=1, le=500, description="Maximum number of entries.")] = 50
    cursor: CursorText = None


IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        description="Identifies this write: a repetition with the same key changes nothing and gets the same response.",
        pattern=r"^[\x21-\x7e]{1,200}$",
        examples=["3f1c6f0e-7c1b-4a55-9d0e-1d7b8c0e2a11"],
    ),
]


IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description="The ETag that the change is based on, or * for any.",
        max_length=100,
        examples=['"0"'],
    ),
]
_ETAG = re.compile(r'"([0-9]{1,18})"')


def etag(revision: int) -> str:
    return f'"{revision}"'


def read_etag(header: str | None) -> int | None:
    """The revision of the header, None for any. Raises HttpError if it is missing or no ETag of a conversation."""
    if header is None:
        raise HttpError(428, "send the ETag that you have read as If-Match", field="If-Match")
    if header == "*":
        return None
    etag = _ETAG.fullmatch(header)
    if etag is None:
        raise HttpError(412, "this is no ETag of the conversation; read it again", field="If-Match")
    return int(etag[1])


def derived(*parts: str) -> str:
    """An id that is derived from these parts, the same at each attempt."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class JsonRoute(APIRoute):
    """A route whose body is strict JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        takes_body = self.body_field is not None

        async def strict(request: Request) -> Response:
            if takes_body:
                _check_content_type(request.headers.get("content-type"))
                request = _StrictRequest(request.scope, request.receive)
            return await handle(request)

        return strict


class _StrictRequest(Request):
    async def json(self) -> Any:
        try:
            return read_json(await self.body(), where="body")
        except InvalidInput as error:
            raise HttpError(400, str(error), field="body") from None


def _check_content_type(header: str | None) -> None:
    parsed = email.message.Message()
    parsed["content-type"] = header or ""
    if parsed.get_content_type() != "application/json" or str(parsed.get_param("charset", "utf-8")).lower() != "utf-8":
        raise HttpError(415, "send JSON in UTF-8, with the header content-type: application/json")


class _ErrorDetail(Record):
    code: Annotated[str, Field(examples=["invalid"])]
    message: Annotated[str, Field(description="What is wrong and what to do.")]
    field: Annotated[str | None, Field(description="The invalid field or parameter.")] = None


class ErrorShape(Record):
    """The body of every error."""

    error: _ErrorDetail


_ERRORS: dict[int, tuple[str, str, str | None]] = {
    400: ("The body or the cursor cannot be read.", "the cursor was altered, cut, or …", "cursor"),
    401: ("Not logged in; or a token that is unknown, expired or revoked.", "log in, or …", None),
    403: ("Another role is needed, or the session's CSRF token.", "this needs the role on-call; …", None),
    404: ("Missing, or outside the caller's properties.", "there is no such conversation; …", None),
    408: ("The body took too long to arrive.", "the body did not arrive within 20 s; …", None),
    409: ("The key was used for another write.", "this Idempotency-Key was used for …", "Idempotency-Key"),
    412: ("Changed since it was read.", "the conversation was changed meanwhile; read it again", "If-Match"),
    413: ("The body is too large.", "a body has at most 2,000,000 bytes; send less", None),
    415: ("The content type is not JSON.", "send JSON in UTF-8, …", None),
    422: ("A parameter or a field is invalid.", "limit: has to be at most 500", "limit"),
    428: ("The If-Match header is missing.", "send the ETag that you have read as If-Match", "If-Match"),
    429: ("Too many attempts.", "too many logins failed from this address; …", None),
    500: ("Internal error.", "internal error; see the server log", None),
    503: ("The store, the stream or the engine is unavailable.", "… try again later", None),
}
"""What the OpenAPI document says about each error: a description, and an example of message and field."""
ALWAYS = (401, 403, 422, 500, 503)
WITH_BODY = (400, 408, 413, 415)

_ETAG_HEADER = {"ETag": {"schema": {"type": "string"}, "description": "For If-Match."}}
_RETRY_HEADER = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}

Responses = dict[int | str, dict[str, Any]]


def responses(
    shape: type[Record],
    text: str,
    *errors: int,
    status: int = 200,
    tagged: bool = False,
    always: Sequence[int] = ALWAYS,
) -> Responses:
    """A route's responses in the OpenAPI document.

    Args:
        shape: The body of a success; its example is in :data:`shapes.EXAMPLES`.
        text: The description of a success.
        errors: The error statuses besides ``always``.
        status: The status of a success.
        tagged: Whether a success has an ETag.
    """
    success: dict[str, Any] = {
        "model": shape,
        "description": text,
        "content": {"application/json": {"example": EXAMPLES[shape]}},
    }
    return {status: {**success, "headers": _ETAG_HEADER} if tagged else success, **error_responses(*errors, *always)}


def error_responses(*statuses: int) -> Responses:
    """The errors of a route in the OpenAPI document."""
    documented: Responses = {}
    for status in sorted(set(statuses)):
        text, message, field = _ERRORS[status]
        example = error_body(ERROR_CODES[status], message, field)
        documented[status] = {
            "model": ErrorShape,
            "description": text,
            "content": {"application/json": {"example": example}},
        }
        if status in (429, 503):
            documented[status]["headers"] = _RETRY_HEADER
    return documented


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(value, status, headers)


def list_response(
    name: str, items: Sequence[T], limit: int, to_json: Callable[[T], Any], cursor: Callable[[T], str], **more: Any
) -> JSONResponse:
    """A page of a list.

    Args:
        name: The field of the entries.
        items: The entries from the page's first one on; if they are more than ``limit``, there is a next page.
        cursor: The cursor that continues after an entry.
        more: Fields besides.
    """
    shown = items[:limit]
    next_cursor = cursor(shown[-1]) if len(items) > limit else None
    return json_response(
        {**more, name: [to_json(item) for item in shown], "nextCursor": next_cursor, "complete": next_cursor is None}
    )
