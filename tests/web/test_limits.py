"""Bodies that are too large, too slow or cut off, against a real server on a real port."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import pytest
from tests.web.rig import API, Rig
from tests.web.running_server import served

MAX_BYTES = 10_000
TIMEOUT_S = 0.5
REPLIES = f"{API}/conversations/c-1/replies"
HEADERS = {"authorization": "Bearer aft_desk", "idempotency-key": "k-1", "content-type": "application/json"}


async def _fill(rig: Rig) -> None:
    await rig.settle("c-1")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(
        tmp_path_factory.mktemp("limits"), _fill, max_body_bytes=MAX_BYTES, body_timeout_s=TIMEOUT_S
    ) as address:
        yield address


@pytest.fixture
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, headers=HEADERS, timeout=30) as opened:
        before = opened.get(f"{API}/conversations/c-1").json()["messageCount"]
        yield opened
        assert opened.get(f"{API}/conversations/c-1").json()["messageCount"] == before


def test_a_body_of_one_byte_too_many_is_refused(client: httpx.Client) -> None:
    padded = b'{"txt": ""}'.ljust(MAX_BYTES)
    assert client.post(REPLIES, content=padded).status_code == 422
    assert client.post(REPLIES, content=padded + b" ").status_code == 413


def test_a_body_that_does_not_arrive_in_time_is_refused(url: str, client: httpx.Client) -> None:
    answer = _raw(url, b"content-length: 100\r\n", b'{"text": "')
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"slow"' in answer
    assert b"connection: close" in answer.lower()


def test_a_body_that_breaks_off_is_answered_by_nothing_and_changes_nothing(url: str, client: httpx.Client) -> None:
    answer = _raw(url, b"content-length: 100\r\n", b'{"text": "Yes."}', close=True)
    assert answer == b""


def test_an_unknown_caller_is_refused_before_the_body_arrives(url: str) -> None:
    answer = _raw(url, b"content-length: 100\r\n", b"", token=b"aft_nobody")
    assert answer.startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("length", [b"1e3", b"-1", b"\xb2", b"9" * 400])
def test_an_invalid_content_length_is_refused(url: str, client: httpx.Client, length: bytes) -> None:
    answer = _raw(url, b"content-length: " + length + b"\r\n", b"")
    assert answer.split(b" ")[1] in (b"400", b"413")


def test_endless_headers_are_refused(url: str, client: httpx.Client) -> None:
    answer = _raw(url, b"x-filler: " + b"a" * 5_000_000 + b"\r\n", b"")
    assert not answer or answer.split(b" ")[1] == b"400"


def _raw(url: str, headers: bytes, body: bytes, *, token: bytes = b"aft_desk", close: bool = False) -> bytes:
    """What the server answers to this, until it ends the connection."""
    where = urlsplit(url)
    head = (
        f"POST {REPLIES} HTTP/1.1\r\nhost: {where.netloc}\r\ncontent-type: application/json\r\n"
        "idempotency-key: k-1\r\nconnection: close\r\n"
    ).encode()
    with socket.create_connection((where.hostname, where.port), timeout=30) as connection:
        with suppress(ConnectionError):  # the server may have seen enough
            connection.sendall(head + b"authorization: Bearer " + token + b"\r\n" + headers + b"\r\n" + body)
        if close:
            connection.shutdown(socket.SHUT_RDWR)
            return b""
        parts = []
        with suppress(ConnectionError):
            while part := connection.recv(65536):
                parts.append(part)
        return b"".join(parts)
