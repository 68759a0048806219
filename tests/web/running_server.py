"""The application behind a real server on a real port, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.web.rig import Rig, open_rig

from afterturn.web.server import address_of, bind, serve


@dataclass
class RunningServer:
    """Where it is. ``prepare`` runs before the first request, in the loop of the server."""

    folder: Path
    prepare: Callable[[Rig], Coroutine[Any, Any, None]]
    limits: dict[str, Any]
    url: str = ""
    problem: BaseException | None = None
    _ready: threading.Event = field(default_factory=threading.Event)
    _loop: asyncio.AbstractEventLoop | None = None
    _stop: asyncio.Event | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self.problem = error
        finally:
            self._ready.set()

    async def _run(self) -> None:
        async with open_rig(self.folder, **self.limits) as rig:
            await self.prepare(rig)
            listener = bind("127.0.0.1", 0)
            self.url = address_of(listener)
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            serving = asyncio.create_task(serve(rig.app, listener, self._stop))
            listener.listen()
            self._ready.set()
            await serving

    def wait(self) -> None:
        self._ready.wait(60)
        if self.problem is not None:
            raise self.problem

    def stop(self) -> None:
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)


async def nothing(rig: Rig) -> None:
    """An empty store."""


@contextmanager
def served(folder: Path, prepare: Callable[[Rig], Coroutine[Any, Any, None]] = nothing, **limits: Any) -> Iterator[str]:
    """The server's address. ``limits``: as ``make_app`` takes them."""
    one = RunningServer(folder, prepare, limits)
    thread = threading.Thread(target=one.run)
    thread.start()
    try:
        one.wait()
        yield one.url
    finally:
        one.stop()
        thread.join(60)
    if one.problem is not None:
        raise one.problem
