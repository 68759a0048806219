"""Adds the pages to the application of the API."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files

from fastapi import APIRouter, FastAPI
from starlette.staticfiles import StaticFiles

from afterturn.web.pages import conversation, inbox, operations, sign_in
from afterturn.web.pages.history import History
from afterturn.web.pages.sse import EventStreams
from afterturn.web.sessions import Secret


def add_pages(app: FastAPI, *, live: EventStreams | None = None, key: Secret | None = None) -> None:
    """Add every page and the static files. The app has the backbone and the access control in its state.

    ``live``: the pace of events to open pages. ``key``: makes the idempotency key of each form.
    """
    app.state.live = live or EventStreams()
    app.state.form_key = key or (lambda: secrets.token_urlsafe(18))
    app.state.history = history = History(app.state.backbone)

    @asynccontextmanager
    async def sampling(_: FastAPI) -> AsyncIterator[None]:
        running = asyncio.create_task(history.run())
        yield
        running.cancel()
        await asyncio.wait([running])

    app.include_router(APIRouter(lifespan=sampling))
    for router in (sign_in.router, sign_in.leaving, inbox.router, conversation.router, operations.router):
        app.include_router(router)
    app.mount("/static", _Static(directory=str(files("afterturn.web") / "static")), name="static")


class _Static(StaticFiles):
    """Static files that browsers revalidate."""

    def file_response(self, *given: object, **more: object) -> object:  # type: ignore[override]
        response = super().file_response(*given, **more)  # type: ignore[arg-type]
        response.headers["cache-control"] = "no-cache"
        return response
