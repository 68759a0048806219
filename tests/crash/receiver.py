"""A process that takes webhooks and alerts, and has written each down before it answers.

The path names where and how: ``/{folder}/{deaf}/{kind}``. One call in ``deaf`` is written down and not answered, so
that success looks like failure to the caller.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections import Counter
from contextlib import suppress
from pathlib import Path

HEARD = "heard.jsonl"


def listen() -> socket.socket:
    """A socket on a free port of this machine."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(512)
    return listener


def start(listener: socket.socket, base: Path) -> int:
    """Fork the receiver; returns its process id. It writes into the folders under ``base``, and outlives no parent."""
    parent = os.getpid()
    if pid := os.fork():
        return pid
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        asyncio.run(_serve(listener, base, parent))
    finally:
        os._exit(1)


async def _serve(listener: socket.socket, base: Path, parent: int) -> None:
    counts: Counter[str] = Counter()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                path, headers = _parse(head.decode("latin-1"))
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                _, folder, deaf, kind = path.split("/")
                _write_down(base / folder, kind, headers.get("webhook-id", ""), body)
                counts[folder] += 1
                if int(deaf) and counts[folder] % int(deaf) == 0:
                    break
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(take, sock=listener):
        while os.getppid() == parent:  # noqa: ASYNC110 - the life of another process is no event
            await asyncio.sleep(0.5)


def _parse(head: str) -> tuple[str, dict[str, str]]:
    request, *lines = head.strip().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return request.split(" ")[1], {name.lower(): value for name, value in headers.items()}


def _write_down(folder: Path, kind: str, webhook_id: str, body: bytes) -> None:
    if folder.is_dir():
        line = json.dumps({"kind": kind, "id": webhook_id, "body": json.loads(body)})
        with open(folder / HEARD, "a", encoding="utf-8") as file:
            file.write(line + "\n")
