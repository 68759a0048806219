"""Server-sent events to open pages: what is sent, how often, and the end with the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

from fastapi import Request
from fastapi.responses import StreamingResponse

from afterturn.errors import AfterturnError
from afterturn.web.access import AccessControl
from afterturn.web.api.scoped_store import ScopedStore
from afterturn.web.pages.rendering import HEADERS

Look = Callable[[ScopedStore], Awaitable[dict[str, object]]]
"""Reads the state that a page is sent, within the caller's scope: numbers and states only."""


class EventStreams:
    """``every``: seconds between two looks; after ``looks`` of them a page has to reconnect."""

    def __init__(self, *, every: float = 1.5, looks: int = 400) -> None:
        self.every = every
        self.looks = looks
        self._stopped = asyncio.Event()

    async def pause(self) -> bool:
        """Wait for the next look; True if the server is stopping."""
        try:
            await asyncio.wait_for(self._stopped.wait(), self.every)
        except TimeoutError:
            return False
        return True

    def stop(self) -> None:
        """End every stream, so that the server can stop at once."""
        self._stopped.set()


def event_stream(request: Request, look: Look) -> StreamingResponse:
    """What ``look`` returns, as server-sent events whenever it changes."""
    headers = {**HEADERS, "x-accel-buffering": "no"}
    return StreamingResponse(_events(request, look), media_type="text/event-stream", headers=headers)


async def _events(request: Request, look: Look) -> AsyncIterator[str]:
    """Events until the session or the server ends.

    Each look reads a bounded part of the store, and checks the caller again.
    """
    access: AccessControl = request.app.state.access
    live: EventStreams = request.app.state.live
    sent: dict[str, object] | None = None
    yield f"retry: {int(live.every * 2_000)}\n\n"
    for _ in range(live.looks):
        caller = access.caller(request.headers)
        if caller is None:
            yield "event: over\ndata: {}\n\n"
            return
        try:
            state = await look(ScopedStore(request.app.state.backbone, caller.scope))
        except AfterturnError:  # the store may be back at the next look
            state = sent or {}
        if state != sent:
            sent = state
            yield f"data: {json.dumps(state)}\n\n"
        elif sent is not None:
            yield ": still here\n\n"
        if await live.pause():
            return
