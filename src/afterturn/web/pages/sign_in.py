"""Signing in with a token, and out."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from afterturn.web.access import COOKIE, AccessControl
from afterturn.web.api import session
from afterturn.web.errors import HttpError
from afterturn.web.pages.rendering import render
from afterturn.web.pages.routing import SIGN_IN, FormData, OpenPageRoute, PageRoute, local_path, redirect

router = APIRouter(route_class=OpenPageRoute, include_in_schema=False)
leaving = APIRouter(route_class=PageRoute, include_in_schema=False)

_USED = "This link was used already or has expired. Start `afterturn up` again for a new one, or sign in with a token."
_UNKNOWN = "This token is unknown, expired or revoked."


@router.get(SIGN_IN)
async def show_sign_in(request: Request, next: str = "/", link: str = "") -> Response:
    return render(request, "sign_in.html", next=local_path(next), problem=_USED if link else None)


@router.post(SIGN_IN)
async def sign_in(request: Request, form: FormData) -> Response:
    """Open a session and redirect to the requested page."""
    onwards = local_path(form.get("next", "") or "/")
    token = form.get("token", "").strip()
    if not 0 < len(token) <= 200:
        return render(request, "sign_in.html", 401, next=onwards, problem=_UNKNOWN)
    try:
        opened = await session.log_in(request, session.LoginBody(token=token))
    except HttpError as refused:
        if refused.status_code != 401:
            raise
        return render(request, "sign_in.html", 401, next=onwards, problem=_UNKNOWN)
    response = redirect(onwards)
    response.headers["set-cookie"] = opened.headers["set-cookie"]
    return response


@leaving.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """End the session."""
    access: AccessControl = request.app.state.access
    access.log_out(request.headers)
    response = redirect(SIGN_IN)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax")
    return response
