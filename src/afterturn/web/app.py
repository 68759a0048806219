"""The HTTP application on an open backbone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files

from fastapi import FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from afterturn.backbone import Backbone
from afterturn.web.access import AccessControl
from afterturn.web.api import conversations, ledger, reactions, session, stream, work_orders
from afterturn.web.api.ledger import Replays
from afterturn.web.errors import API, install_errors
from afterturn.web.middleware import BODY_TIMEOUT_S, MAX_BODY_BYTES, AuthMiddleware, BodyLimit, ErrorBoundary
from afterturn.web.pages import conversation, inbox, operations, sign_in
from afterturn.web.pages.history import History
from afterturn.web.pages.routing import show_error
from afterturn.web.pages.sse import EventStreams
from afterturn.web.proxies import Proxies

_ABOUT = """\
Conversations, their reactions, and the state of processing.

Every error is `{"error": {"code", "message", "field"?}}`. Conversations outside a caller's properties
are reported as missing. A page has a `nextCursor`; send it with the same other parameters for the next page.
"""

ROUTES = tuple(
    route
    for router in (
        conversations.router,
        work_orders.router,
        ledger.router,
        stream.router,
        reactions.router,
        session.router,
        session.links,
        sign_in.router,
        sign_in.leaving,
        inbox.router,
        conversation.router,
        operations.router,
    )
    for route in router.routes
)
"""Passed as they are: ``include_router`` would build each of them again for every application, which takes 0.1 s."""


def make_app(
    backbone: Backbone,
    access: AccessControl,
    *,
    max_body_bytes: int = MAX_BODY_BYTES,
    body_timeout_s: float = BODY_TIMEOUT_S,
    proxies: Proxies | None = None,
) -> FastAPI:
    """The API and the pages of an open backbone, as an ASGI application.

    Args:
        backbone: Has to stay open as long as the application is served.
        access: Who may call, and what each caller may see.
        max_body_bytes: The largest request body.
        body_timeout_s: Seconds within which a whole body has to arrive.
        proxies: The trusted proxies in front of the server. Default: none, so the client is the connection's peer.
    """
    replays = Replays(backbone)
    history = History(backbone)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sampling = asyncio.create_task(history.run())
        yield
        sampling.cancel()
        await asyncio.wait([sampling])
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
        routes=list(ROUTES),
    )
    app.state.backbone = backbone
    app.state.access = access
    app.state.replays = replays
    app.state.history = history
    app.state.live = EventStreams()
    app.state.error_page = show_error
    app.state.proxies = proxies or Proxies()
    install_errors(app)
    app.mount("/static", _StaticFiles(directory=str(files("afterturn.web") / "static")), name="static")
    # The last one added is the outermost.
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes, timeout_s=body_timeout_s)
    app.add_middleware(AuthMiddleware, access=access)
    app.add_middleware(ErrorBoundary)
    return app


class _StaticFiles(StaticFiles):
    """Static files that browsers revalidate."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response
