"""A real HTTP server that speaks as a provider does, and fails as networks do, on order."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import Any
from urllib.parse import parse_qsl, unquote

from afterturn.channels.http_client import HttpClient, HttpTimeouts, open_http
from afterturn.channels.sending import OutboundMessage
from afterturn.model import Channel

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
PATIENT = HttpTimeouts(connect=5.0, read=30.0, total=60.0)
"""No test is about how fast a machine is."""


@dataclass(frozen=True)
class ProviderAnswer:
    """What a provider answers."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def told(status: int, value: object, **headers: str) -> ProviderAnswer:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return ProviderAnswer(status, json.dumps(value).encode(), {"content-type": "application/json", **named})


class Fault(Enum):
    """What goes wrong with one request."""

    CLOSED_UNREAD = "the connection is closed before the request is read"
    CLOSED_READ = "the connection is closed after the request was read and carried out"
    RESET = "the connection is reset after the request was read and carried out"
    SILENT = "no answer ever comes"
    DRIPPING = "the answer comes a byte at a time, for ever"
    CUT = "the connection is closed in the middle of the answer"


LOST = [Fault.CLOSED_UNREAD, Fault.CLOSED_READ, Fault.RESET, Fault.SILENT, Fault.CUT]


def patience(fault: object) -> HttpTimeouts:
    """Short where no answer ever comes, so that no test is about how fast a machine is."""
    return replace(PATIENT, read=1.0) if fault is Fault.SILENT else PATIENT


@dataclass(frozen=True)
class Call:
    """One request as it came in; ``headers``: names in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def form(self) -> list[tuple[str, str]]:
        return parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=True)

    def json(self) -> Any:
        return json.loads(self.body)


class Provider:
    """``next``: what happens to the next requests, in order; then each is answered in earnest."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.next: list[Fault | ProviderAnswer] = []
        self.url = ""

    def answer(self, call: Call) -> ProviderAnswer:
        raise NotImplementedError

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._one(reader, writer):
                pass
        writer.close()
        with suppress(ConnectionError, asyncio.CancelledError):
            await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if self.next and self.next[0] is Fault.CLOSED_UNREAD:
            await reader.read(1)
            self.next.pop(0)
            return False
        call = await _request(reader)
        self.calls.append(call)
        fault = self.next.pop(0) if self.next else None
        if isinstance(fault, ProviderAnswer):
            writer.write(_wire(fault))
            return True
        data = _wire(self.answer(call))
        match fault:
            case None:
                writer.write(data)
                return True
            case Fault.SILENT:
                await reader.read()
            case Fault.DRIPPING:
                for byte in data.replace(b"content-length: ", b"content-length: 9"):
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(0.05)
            case Fault.RESET:
                at_once = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
                writer.transport.abort()
            case Fault.CUT:
                writer.write(data[: len(data) - 2])
                await writer.drain()
            case _:
                pass
        return False


async def _request(reader: asyncio.StreamReader) -> Call:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    path, _, query = target.partition("?")
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Call(method, unquote(path), dict(parse_qsl(query)), headers, body)


def _wire(answer: ProviderAnswer) -> bytes:
    headers = {"content-length": str(len(answer.body)), **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} Status", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + answer.body


@asynccontextmanager
async def serving(provider: Provider, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    running: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        await provider.serve(reader, writer)
        running.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    provider.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield provider.url
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.wait_closed()


@asynccontextmanager
async def calling(limits: HttpTimeouts = PATIENT) -> AsyncIterator[HttpClient]:
    async with open_http(limits) as http:
        yield http


def refusing_url() -> str:
    """Where nobody listens."""
    return "http://127.0.0.1:1"


def clock() -> datetime:
    return NOW


def outgoing(
    channel: Channel, account: str, recipient: str, text: str = "The plumber comes at 9.", **given: Any
) -> OutboundMessage:
    return OutboundMessage("c-1", "m-1", channel, account, (recipient,), text, **given)
