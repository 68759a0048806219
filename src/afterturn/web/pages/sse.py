"""The pace of server-sent events to open pages, and their end with the server."""

from __future__ import annotations

import asyncio


class EventStreams:
    """``every``: seconds between two looks; after ``looks`` of them a page has to connect anew."""

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
