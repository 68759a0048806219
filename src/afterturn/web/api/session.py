"""The caller's session: log in with a token, log out, and login links."""

from __future__ import annotations

import math
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import Field

from afterturn.model import Record
from afterturn.web.access import COOKIE, AccessControl, cookie_of
from afterturn.web.api import shapes
from afterturn.web.api.common import WITH_BODY, JsonRoute, Operator, error_responses, json_response, responses
from afterturn.web.errors import API, HttpError
from afterturn.web.login import SESSION_LIFETIME
from afterturn.web.proxies import Proxies
from afterturn.web.roles import Caller

router = APIRouter(prefix=f"{API}/session", route_class=JsonRoute, tags=["session"])
links = APIRouter(include_in_schema=False)


class LoginBody(Record):
    token: Annotated[str, Field(min_length=1, max_length=200, examples=["aft_…"])]


@router.get("", responses=responses(shapes.CallerShape, "The caller.", always=(401, 500)))
async def show_session(caller: Operator) -> JSONResponse:
    """The caller, and the CSRF token of a session."""
    return json_response(_caller(caller))


@router.post(
    "",
    responses=responses(
        shapes.CallerShape,
        "Logged in: the response sets the session's cookie.",
        429,
        *WITH_BODY,
        always=(401, 422, 500),
    ),
)
async def log_in(request: Request, body: LoginBody) -> Response:
    """Open a session with a token, for browsers. It ends when the token does, and after twelve hours."""
    access: AccessControl = request.app.state.access
    opened = access.log_in(body.token)
    if opened is None:
        _count(request)
        raise HttpError(401, "the token is unknown, expired or revoked", field="token", headers=_BEARER)
    cookie, _ = opened
    caller = access.caller({"cookie": f"{COOKIE}={cookie}"})
    assert caller is not None
    return _with_cookie(json_response(_caller(caller)), cookie, request)


@router.delete("", status_code=204, response_class=Response, responses=error_responses(401, 403, 500))
async def log_out(request: Request, caller: Operator) -> Response:
    """End the session."""
    access: AccessControl = request.app.state.access
    access.log_out(request.headers)
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax")
    return response


@links.get("/login")
async def follow_link(request: Request, key: str = "") -> Response:
    """A one-time login link: opens a session of all roles, and leads on. Used again, it leads a browser on, too."""
    access: AccessControl = request.app.state.access
    opened = access.redeem(key)
    if opened is None:
        if cookie_of(request.headers) is not None and access.caller(request.headers) is not None:
            return RedirectResponse("/", 303)
        _count(request)
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse("/sign-in?link=used", 303)
        text = "the link was used already or has expired; start `afterturn up` again for a new one"
        raise HttpError(401, text, field="key")
    return _with_cookie(RedirectResponse("/", 303), opened[0], request)


_BEARER = {"www-authenticate": "Bearer"}


def _count(request: Request) -> None:
    """Count a failed login. Raises HttpError if there were too many from its address."""
    access: AccessControl = request.app.state.access
    proxies: Proxies = request.app.state.proxies
    wait = access.count_failed_login(proxies.caller_of(request))
    if wait is not None:
        seconds = max(math.ceil(wait.total_seconds()), 1)
        text = f"too many logins failed from this address; try again in {seconds} s, with a good token at once"
        raise HttpError(429, text, headers={"retry-after": str(seconds)})


def _with_cookie(response: Response, cookie: str, request: Request) -> Response:
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=int(SESSION_LIFETIME.total_seconds()),
        path="/",
        httponly=True,
        samesite="lax",  # strict would log out a person who follows a link in an e-mail
        secure=_is_encrypted(request),
    )
    return response


def _is_encrypted(request: Request) -> bool:
    """Whether the browser speaks TLS, to us or to a proxy before us. A false header only makes the cookie stricter."""
    headers = request.headers
    hints = (request.url.scheme, headers.get("x-forwarded-proto", ""), headers.get("origin", "").partition(":")[0])
    return "https" in hints


def _caller(caller: Caller) -> dict[str, object]:
    properties = caller.scope.properties
    return shapes.CallerShape(
        name=caller.name,
        role=caller.role.value,
        properties=None if properties is None else tuple(sorted(properties)),
        csrf_token=caller.csrf,
    ).to_json()
