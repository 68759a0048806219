"""The routes of pages: authentication, CSRF protection of forms, and error pages."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from fastapi.routing import APIRoute
from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException

from afterturn.errors import AfterturnError
from afterturn.web.access import AccessControl
from afterturn.web.errors import HttpError, http_error_of, internal_error
from afterturn.web.login import same
from afterturn.web.middleware import SAFE_METHODS
from afterturn.web.pages.rendering import HEADERS, address, render

SIGN_IN = "/sign-in"

_MOST_FIELDS = 2_000

_HEADS = {
    400: "Invalid address",
    401: "Please sign in",
    403: "Not allowed for your role",
    404: "Not found",
    405: "Not a page",
    408: "Request timed out",
    409: "Changed in the meantime",
    412: "Changed in the meantime",
    413: "Request too large",
    422: "Invalid request",
    429: "Too many attempts",
    503: "Temporarily unavailable",
}
_TEXTS = {
    404: "It does not exist, or it belongs to a property outside your scope.",
    405: "This address only accepts forms. Go back and send the form again.",
    503: "The store, the stream or the engine is unavailable. Nothing is lost; try again in a moment.",
    500: "Internal error. See the server log.",
}


Form = ImmutableMultiDict[str, str]
"""The fields of a submitted form."""


class OpenPageRoute(APIRoute):
    """A public page; errors are pages, too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def page(request: Request) -> Response:
            try:
                return await self._checked(request, handle)
            except HttpError as refused:
                return error_page(request, refused)
            except HTTPException as error:
                return error_page(request, HttpError(error.status_code, "The request cannot be read."))
            except RequestValidationError:
                return error_page(request, HttpError(404, ""))
            except AfterturnError as error:
                return error_page(request, http_error_of(error))
            except Exception as error:  # its text could quote anybody
                return error_page(request, internal_error(error))

        return page

    async def _checked(self, request: Request, handle: Callable[[Request], Coroutine[Any, Any, Response]]) -> Response:
        request.state.caller = _access(request).caller(request.headers)
        if request.method not in SAFE_METHODS:
            request.state.form = await _read_form(request)
            if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
                raise HttpError(
                    403, "This form was sent from another site. Open the page here and try again.", code="csrf"
                )
        return await handle(request)


class PageRoute(OpenPageRoute):
    """A page for signed-in callers. A form has to carry the CSRF token of its session."""

    async def _checked(self, request: Request, handle: Callable[[Request], Coroutine[Any, Any, Response]]) -> Response:
        return await super()._checked(request, self._admitted(handle))

    def _admitted(
        self, handle: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def admitted(request: Request) -> Response:
            caller = request.state.caller
            if caller is None:
                return _to_sign_in(request)
            changes = request.method not in SAFE_METHODS
            if changes and caller.csrf is not None and not same(form_of(request).get("csrf", ""), caller.csrf):
                raise HttpError(
                    403, "The page is older than your session. Go back, reload the page and try again.", code="csrf"
                )
            return await handle(request)

        return admitted


def form_of(request: Request) -> Form:
    form: Form = request.state.form
    return form


FormData = Annotated[Form, Depends(form_of)]


def error_page(request: Request, refused: HttpError) -> Response:
    """The page of an error."""
    status = refused.status_code
    response = render(
        request,
        "error.html",
        status,
        head=_HEADS.get(status, "Something went wrong"),
        text=_TEXTS.get(status, str(refused.detail)),
        back=None if status == 404 else _page_of_form(request),
    )
    response.headers.update(refused.headers or {})
    return response


def _page_of_form(request: Request) -> str | None:
    """The page of the submitted form; None if there was none."""
    page, _, _ = request.url.path.rpartition("/")
    return page if request.method not in SAFE_METHODS and page.startswith(("/conversations/", "/operations")) else None


def show_error(request: Request, refused: HttpError) -> Response:
    """The page of an error before any route was reached."""
    request.state.caller = _access(request).caller(request.headers)
    return error_page(request, refused)


def redirect(path: str, *pairs: tuple[str, str]) -> RedirectResponse:
    """Redirect after a form, so that a reload does not send it again."""
    return RedirectResponse(address(path, pairs), 303, HEADERS)


def local_path(path: str) -> str:
    """A path on this server; ``/`` for anything else."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"


def _access(request: Request) -> AccessControl:
    access: AccessControl = request.app.state.access
    return access


def _to_sign_in(request: Request) -> Response:
    if request.method in SAFE_METHODS and "text/html" in request.headers.get("accept", ""):
        path = request.url.path
        return redirect(SIGN_IN, *([] if path == "/" else [("next", path)]))
    return error_page(request, HttpError(401, "Your session has ended. Sign in and try again."))


async def _read_form(request: Request) -> Form:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/x-www-form-urlencoded":
        raise HttpError(415, "Only forms of these pages are accepted here.")
    try:
        text = (await request.body()).decode()
        return Form(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"))
    except ValueError:
        raise HttpError(400, "The form cannot be read. Reload the page and try again.") from None
