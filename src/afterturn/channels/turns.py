"""The endpoint for complete turns of other runtimes: signed JSON, in the format that ``afterturn settle`` reads.

For agents in other languages, and for runtimes that cannot reach the store. Requests are signed as Standard Webhooks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Protocol

from pydantic import SecretStr

from afterturn.channels.types import WebhookRequest
from afterturn.channels.webhooks import (
    SignatureVerifier,
    WebhookResponse,
    error_response,
    json_response,
    response_to_error,
)
from afterturn.clock import Clock, to_text
from afterturn.errors import AfterturnError, InvalidInput
from afterturn.event import TurnSettled
from afterturn.ids import digest
from afterturn.model import MAX_TURN_BYTES, Turn, parse
from afterturn.strict_json import read_json

TURNS_PATH = "/turns"

MAX_BODY_BYTES = 2 * MAX_TURN_BYTES
"""JSON may encode a character in more bytes than UTF-8 does."""


class SettleOutcome(Protocol):
    """The result of settling."""

    @property
    def event(self) -> TurnSettled: ...

    @property
    def new(self) -> bool: ...


class TurnEndpoint:
    """Handles ``POST`` requests. ``secret``: ``whsec_…``. Raises ConfigError for an invalid one."""

    def __init__(self, settle: Callable[[Turn], Awaitable[SettleOutcome]], secret: SecretStr, clock: Clock) -> None:
        self._settle = settle
        self._clock = clock
        self._verifier = SignatureVerifier(secret, "turns")

    async def __call__(self, request: WebhookRequest) -> WebhookResponse:
        """200 with the event once the turn is saved, also if it was saved before; 4xx if it can never be accepted.

        After any other response the caller repeats the request unchanged.
        """
        if request.method != "POST":
            return error_response(405, "method", "send a POST", {"allow": "POST"})
        if len(request.body) > MAX_BODY_BYTES:
            return error_response(413, "too_large", f"a turn may have {MAX_BODY_BYTES:,} bytes at most")
        try:
            self._verifier.verify(request, self._clock())
            receipt = await self._settle(_with_key(_turn(request.body), request))
        except AfterturnError as error:
            return response_to_error(error)
        event = receipt.event
        return json_response({"eventId": event.event_id, "occurredAt": to_text(event.occurred_at), "new": receipt.new})


def _turn(body: bytes) -> Turn:
    value = read_json(body, where="body")
    if not isinstance(value, dict):
        raise InvalidInput("body: is JSON, but not an object; give one turn")
    return parse(Turn, value)


def _with_key(turn: Turn, request: WebhookRequest) -> Turn:
    """A turn without messages and key gets a key from its request, so that a repeated request settles nothing."""
    if turn.messages or turn.key is not None:
        return turn
    body = hashlib.sha256(request.body).hexdigest()
    return turn.model_copy(update={"key": f"call:{digest(request.headers['webhook-id'], body)}"})
