"""The pages, put on the application that has the API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from afterturn.web.pages import inbox, sign_in
from afterturn.web.pages.live import Live


def mount_pages(app: FastAPI, *, live: Live | None = None) -> None:
    """Add every page, and what they load. The app has the backbone and the access in its state.

    ``live``: how often open pages are told of arrivals.
    """
    app.state.live = live or Live()
    for router in (sign_in.router, sign_in.leaving, inbox.router):
        app.include_router(router)
    app.mount("/static", _Static(directory=str(files("afterturn.web") / "static")), name="static")


class _Static(StaticFiles):
    """Files that a browser keeps, and asks whether they are still those."""

    def file_response(self, *given: object, **more: object) -> object:  # type: ignore[override]
        response = super().file_response(*given, **more)  # type: ignore[arg-type]
        response.headers["cache-control"] = "no-cache"
        return response
