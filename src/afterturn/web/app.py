"""The HTTP application on an open backbone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from afterturn.backbone import Backbone
from afterturn.web.access import AccessControl
from afterturn.web.api import conversations, ledger, reactions, session, stream, work_orders
from afterturn.web.errors import API, install_errors
from afterturn.web.middleware import BODY_TIMEOUT_S, MAX_BODY_BYTES, AuthMiddleware, BodyLimit, ErrorBoundary
from afterturn.web.pages.app import add_pages
from afterturn.web.pages.routing import show_error
from afterturn.web.proxies import Proxies
from afterturn.web.replays import Replays

HOME = "/"
"""Where a login link leads."""

_ABOUT = """\
Conversations, their reactions, and the state of processing.

Every error is `{"error": {"code", "message", "field"?}}`. Conversations outside a caller's properties
are reported as missing. A page has a `nextCursor`; send it with the same other parameters for the next page.
"""


def make_app(
    backbone: Backbone,
    access: AccessControl,
    *,
    home: str = HOME,
    most_bytes: int = MAX_BODY_BYTES,
    patience: float = BODY_TIMEOUT_S,
    proxies: Proxies | None = None,
) -> FastAPI:
    """The application. ``most_bytes``: of a body, which has to arrive within ``patience`` seconds. ``proxies``: of
    ours, that calls come by.
    """
    replays = Replays(backbone)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await replays.stop()

    app = FastAPI(
        title="afterturn",
        version="1",
        description=_ABOUT,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # both load their scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.backbone = backbone
    app.state.access = access
    app.state.replays = replays
    app.state.home = home
    app.state.error_page = show_error
    app.state.proxies = proxies or Proxies()
    install_errors(app)
    for module in (conversations, work_orders, ledger, stream, reactions, session):
        app.include_router(module.router, prefix=API)
    app.include_router(session.links)
    add_pages(app)
    # The last one added is the outermost.
    app.add_middleware(BodyLimit, most=most_bytes, patience=patience)
    app.add_middleware(AuthMiddleware, access=access)
    app.add_middleware(ErrorBoundary)
    return app
