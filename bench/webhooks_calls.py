"""The caller of ``bench.webhooks``: signed calls of two channels, some of them twice, and an inbox that is read.

``python -m bench.webhooks_calls ADDRESS CALLS CONVERSATIONS SEED AT_A_TIME PAGES_A_SECOND TOKEN`` prints what it found
as JSON: ``calls`` without the warm-up, ``latencies`` and ``pages`` in seconds, ``refused`` as places in the plan. It
does as little as it can between two calls, since it shares the machine with the server.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import itertools
import json
import random
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from bench.workload import text

SECRET = "a-secret-of-the-benchmark"  # noqa: S105
AUTH_TOKEN = "0123456789abcdef0123456789abcdef"  # noqa: S105
ACCOUNT = "+15550100123"

WARM_UP = 200
"""Calls before the clock starts."""

_AGAIN = 50
"""One call in so many is made a second time, soon after the first, as providers do."""

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Call:
    """``message``: the provider's id of it, as it is stored. ``form``: of Twilio; else ``update`` is Telegram's."""

    message: str
    form: dict[str, str] | None = None
    update: dict[str, Any] | None = None


def planned(count: int, conversations: int, seed: int) -> list[Call]:
    """The calls in their order; conversations of both channels take turns."""
    chance = random.Random(f"calls {seed}")  # so that no id is one of the workload's
    calls: list[Call] = []
    while len(calls) < count:
        number = len(calls)
        if number >= 20 and number % _AGAIN == 0:
            calls.append(calls[number - 20])
        else:
            calls.append(_made(number, number % conversations, chance))
    return calls


def _made(number: int, conversation: int, chance: random.Random) -> Call:
    said = text(chance)
    if conversation % 2:
        sid = f"SM{chance.getrandbits(128):032x}"
        form = {
            "ToCountry": "US",
            "SmsMessageSid": sid,
            "NumMedia": "0",
            "SmsSid": sid,
            "SmsStatus": "received",
            "Body": said,
            "To": ACCOUNT,
            "MessageSid": sid,
            "From": f"+1515555{conversation:04}",
            "ApiVersion": "2010-04-01",
        }
        return Call(sid, form=form)
    chat = 1_000_000 + conversation
    message = {
        "message_id": number,
        "date": int(time.time()),
        "chat": {"id": chat, "type": "private", "first_name": "Ada"},
        "from": {"id": chat, "is_bot": False, "first_name": "Ada", "language_code": "en"},
        "text": said,
    }
    return Call(f"{chat}:{number}", update={"update_id": number, "message": message})


def request_of(call: Call, address: str) -> bytes:
    """As it goes over the wire, signed."""
    if call.form is not None:
        url = f"{address}/hooks/twilio"
        signed = url + "".join(name + call.form[name] for name in sorted(call.form))
        signature = base64.b64encode(hmac.new(AUTH_TOKEN.encode(), signed.encode(), hashlib.sha1).digest()).decode()
        headers = f"content-type: application/x-www-form-urlencoded\r\nx-twilio-signature: {signature}"
        return _post("/hooks/twilio", address, headers, urlencode(call.form).encode())
    headers = f"content-type: application/json\r\nx-telegram-bot-api-secret-token: {SECRET}"
    return _post("/hooks/telegram", address, headers, json.dumps(call.update).encode())


def _post(path: str, address: str, headers: str, body: bytes) -> bytes:
    host = urlsplit(address).netloc
    return f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n{headers}\r\n\r\n".encode() + body


class Line:
    """A connection that stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, address: str) -> Line:
        parts = urlsplit(address)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    async def call(self, request: bytes) -> tuple[int, float]:
        """The status, and the seconds until the whole answer was there."""
        began = time.perf_counter()
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if length := _LENGTH.search(head):
            await self._reader.readexactly(int(length[1]))
        return int(head[9:12]), time.perf_counter() - began

    def close(self) -> None:
        self._writer.close()


async def drive(
    address: str, calls: int, conversations: int, seed: int, at_a_time: int, pages_a_second: int, token: str
) -> dict[str, Any]:
    requests = [request_of(call, address) for call in planned(calls, conversations, seed)]
    lines = [await Line.to(address) for _ in range(at_a_time + 1)]
    waiting = iter(enumerate(requests))
    warming = itertools.islice(waiting, WARM_UP)
    latencies: list[float] = []
    refused: list[int] = []
    pages: list[float] = []
    head = f"GET /api/v1/conversations?limit=50 HTTP/1.1\r\nhost: {urlsplit(address).netloc}\r\n"
    page = f"{head}authorization: Bearer {token}\r\n\r\n".encode()

    async def lane(line: Line, waiting: Iterator[tuple[int, bytes]]) -> None:
        for number, request in waiting:
            status, seconds = await line.call(request)
            latencies.append(seconds)
            if status != 200:
                refused.append(number)

    async def read(line: Line) -> None:
        while True:
            status, seconds = await line.call(page)
            if status != 200:
                raise RuntimeError(f"the inbox answered {status}")
            pages.append(seconds)
            await asyncio.sleep(1 / pages_a_second)

    await asyncio.gather(*(lane(line, warming) for line in lines[:-1]))
    latencies.clear()
    reader = asyncio.create_task(read(lines[-1]))
    began = time.perf_counter()
    await asyncio.gather(*(lane(line, waiting) for line in lines[:-1]))
    seconds = time.perf_counter() - began
    if reader.done():
        reader.result()
    reader.cancel()
    for line in lines:
        line.close()
    return {"calls": len(latencies), "seconds": seconds, "latencies": latencies, "pages": pages, "refused": refused}


if __name__ == "__main__":
    address, *numbers, token = sys.argv[1:]
    calls, conversations, seed, at_a_time, pages_a_second = map(int, numbers)
    print(json.dumps(asyncio.run(drive(address, calls, conversations, seed, at_a_time, pages_a_second, token))))
