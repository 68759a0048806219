"""A real HTTP receiver that verifies signatures with the library's own verifier."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Receiver:
    """Keeps what it was sent. ``answers``: the status codes of the next requests; 204 when there are none left."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: list[int] = []
        self.taken: list[tuple[str, Any]] = []
        self.refused: list[str] = []
        self.raw: list[bytes] = []

    @property
    def ids(self) -> list[str]:
        return [webhook_id for webhook_id, _ in self.taken]

    @property
    def message_ids(self) -> list[list[str]]:
        return [body["data"]["messageIds"] for _, body in self.taken]

    def take(self, headers: dict[str, str], body: bytes) -> int:
        try:
            verified = Webhook(SECRET).verify(body, headers)
        except WebhookVerificationError as error:
            self.refused.append(str(error))
            return 401
        self.raw.append(body)
        self.taken.append((headers["webhook-id"], verified))
        return self.answers.pop(0) if self.answers else 204


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = receiver.take({key.lower(): value for key, value in self.headers.items()}, body)
            self.send_response(status)
            if status in (301, 302, 307, 308):
                self.send_header("location", receiver.url)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(f"http://127.0.0.1:{server.server_address[1]}/hooks")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
