"""Turns that another runtime of yours hands in whole: signed JSON, in the shape that ``afterturn settle`` reads.

For agents in other languages, and for runtimes that cannot reach the store themselves. Signed as Standard Webhooks are,
so any library of theirs makes the signature.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Protocol

from pydantic import SecretStr
from standardwebhooks import Webhook
from standardwebhooks.webhooks import EmptyWebhookSecretError

from afterturn.clock import EPOCH, Clock, to_text
from afterturn.errors import AfterturnError, ConfigError, InvalidInput
from afterturn.event import TurnSettled
from afterturn.funnel.answers import Answer, answer_of, refused, told
from afterturn.funnel.arrivals import Rejected, Request
from afterturn.model import MAX_TURN_BYTES, Turn, parse
from afterturn.strict_json import read_json

FRESH = timedelta(minutes=5)
"""How far the time of a signature may be from ours, either way, as the specification says."""

MAX_BODY_BYTES = 2 * MAX_TURN_BYTES
"""JSON may spell a character with more bytes than it has."""

_MAX_ID = 256
_MAX_SIGNATURES = 10


class Settled(Protocol):
    """What settling tells."""

    @property
    def event(self) -> TurnSettled: ...

    @property
    def new(self) -> bool: ...


class TurnDoor:
    """Takes ``POST`` requests. ``secret``: ``whsec_…``; raises ConfigError where it is none."""

    def __init__(self, settle: Callable[[Turn], Awaitable[Settled]], secret: SecretStr, clock: Clock) -> None:
        self._settle = settle
        self._clock = clock
        try:
            self._webhook = Webhook(secret.get_secret_value())
        except (ValueError, EmptyWebhookSecretError):
            raise ConfigError("turns secret: must be base64, with or without whsec_ before it") from None

    async def __call__(self, request: Request) -> Answer:
        """200 with the event once the turn is saved, also where it was known; 4xx for what can never be taken.

        Any other answer means that nothing is known of it: the caller sends the very same again.
        """
        if request.method != "POST":
            return refused(405, "method", "send a POST", {"allow": "POST"})
        if len(request.body) > MAX_BODY_BYTES:
            return refused(413, "too_large", f"a turn has at most {MAX_BODY_BYTES:,} bytes")
        try:
            self._verify(request)
            receipt = await self._settle(_turn(request.body))
        except AfterturnError as error:
            return answer_of(error)
        event = receipt.event
        return told({"eventId": event.event_id, "occurredAt": to_text(event.occurred_at), "new": receipt.new})

    def _verify(self, request: Request) -> None:
        """Raise Rejected where the signature is not ours, or not of these minutes."""
        webhook_id = request.headers.get("webhook-id", "")
        given = request.headers.get("webhook-signature", "")
        at = _time(request.headers.get("webhook-timestamp", ""))
        if not webhook_id or not given or at is None or len(webhook_id) > _MAX_ID:
            raise Rejected(401, "the headers webhook-id, webhook-timestamp and webhook-signature are needed")
        if abs(self._clock() - at) > FRESH:
            raise Rejected(401, "the signature's time is more than five minutes away; check the clock, or sign anew")
        try:
            expected = self._webhook.sign(webhook_id, at, request.body.decode())
        except UnicodeDecodeError:
            raise Rejected(400, "the body is not UTF-8") from None
        signatures = given.split(" ")[:_MAX_SIGNATURES]
        if not any(hmac.compare_digest(one.encode(), expected.encode()) for one in signatures):
            raise Rejected(401, "the signature is not of this body and this secret")


def _turn(body: bytes) -> Turn:
    value = read_json(body, where="body")
    if not isinstance(value, dict):
        raise InvalidInput("body: is JSON, but not an object; give one turn")
    return parse(Turn, value)


def _time(seconds: str) -> datetime | None:
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) <= 11):
        return None
    return EPOCH + timedelta(seconds=int(seconds))
