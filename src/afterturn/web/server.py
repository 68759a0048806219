"""Serves an application on a socket until it is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

from afterturn.errors import ConfigError

_BACKLOG = 2048
_GRACE_S = 10
"""Seconds that open responses may take after a stop."""


def bind(host: str, port: int, *, or_any: bool = False) -> socket.socket:
    """A listening socket. Port 0 takes any free port; so does ``or_any`` if the port is in use.

    Raises ConfigError.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"host {host!r}: is no address of this machine: {error.strerror}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)  # here, since only this fails if the port is in use
    except OSError as error:
        listener.close()
        if or_any and error.errno == errno.EADDRINUSE:
            return bind(host, 0)
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror}; take another with --port, or 0 for any"
        ) from None
    return listener


def address_of(listener: socket.socket) -> str:
    """The URL of a socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(app: FastAPI, listener: socket.socket, stop: asyncio.Event) -> None:
    """Serve until ``stop`` is set, then finish open requests. Signals are not handled here."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a client could forge its address and escape the rate limit
        timeout_graceful_shutdown=_GRACE_S,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        app.state.live.stop()  # or the shutdown would wait for event streams
        await serving
    finally:
        stopping.cancel()
        serving.cancel()
        listener.close()


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
