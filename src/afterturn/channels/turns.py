"""Turns that another runtime of yours hands in whole: signed JSON, in the shape that ``afterturn settle`` reads.

For agents in other languages, and for runtimes that cannot reach the store themselves. Signed as Standard Webhooks are,
so any library of theirs makes the signature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Protocol

from pydantic import SecretStr

from afterturn.channels.responses import WebhookResponse, error_response, json_response, response_to_error
from afterturn.channels.signed import SignatureVerifier
from afterturn.channels.types import WebhookRequest
from afterturn.clock import Clock, to_text
from afterturn.errors import AfterturnError, InvalidInput
from afterturn.event import TurnSettled
from afterturn.ids import digest
from afterturn.model import MAX_TURN_BYTES, Turn, parse
from afterturn.strict_json import read_json

TURNS_PATH = "/turns"
"""Where runtimes of yours hand in turns."""

MAX_BODY_BYTES = 2 * MAX_TURN_BYTES
"""JSON may spell a character with more bytes than it has."""


class SettleOutcome(Protocol):
    """What settling tells."""

    @property
    def event(self) -> TurnSettled: ...

    @property
    def new(self) -> bool: ...


class TurnEndpoint:
    """Takes ``POST`` requests. ``secret``: ``whsec_…``; raises ConfigError where it is none."""

    def __init__(self, settle: Callable[[Turn], Awaitable[SettleOutcome]], secret: SecretStr, clock: Clock) -> None:
        self._settle = settle
        self._clock = clock
        self._verifier = SignatureVerifier(secret, "turns")

    async def __call__(self, request: WebhookRequest) -> WebhookResponse:
        """200 with the event once the turn is saved, also where it was known; 4xx for what can never be taken.

        Any other answer means that nothing is known of it: the caller sends the very same again.
        """
        if request.method != "POST":
            return error_response(405, "method", "send a POST", {"allow": "POST"})
        if len(request.body) > MAX_BODY_BYTES:
            return error_response(413, "too_large", f"a turn has at most {MAX_BODY_BYTES:,} bytes")
        try:
            self._verifier.verify(request, self._clock())
            receipt = await self._settle(_once(_turn(request.body), request))
        except AfterturnError as error:
            return response_to_error(error)
        event = receipt.event
        return json_response({"eventId": event.event_id, "occurredAt": to_text(event.occurred_at), "new": receipt.new})


def _turn(body: bytes) -> Turn:
    value = read_json(body, where="body")
    if not isinstance(value, dict):
        raise InvalidInput("body: is JSON, but not an object; give one turn")
    return parse(Turn, value)


def _once(turn: Turn, request: WebhookRequest) -> Turn:
    """A turn that nothing of its own tells from another has the name of the call that brings it: who sends the very
    same again, because the answer was lost or because he has read it, settles nothing.
    """
    if turn.messages or turn.key is not None:
        return turn
    body = hashlib.sha256(request.body).hexdigest()
    return turn.model_copy(update={"key": f"call:{digest(request.headers['webhook-id'], body)}"})
