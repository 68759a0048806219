"""Where providers call: each door verifies, reads, takes in, and answers what its provider wants to hear.

A provider that is answered with an error sends the same again, so errors are for what may come right: the store is out,
a mail cannot be fetched yet. What was sent in good faith and means nothing to us is answered with success.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from afterturn import telemetry
from afterturn.channels.ingest import Ingest
from afterturn.channels.responses import RETRY_AFTER_S, WebhookResponse, error_response, response_to_error
from afterturn.channels.sending import SendFailed, TryLater
from afterturn.channels.types import (
    ChannelEvent,
    FetchRequest,
    Ignored,
    ImmediateResponse,
    Rejected,
    SubscriptionEvent,
    WebhookRequest,
)
from afterturn.clock import Clock
from afterturn.errors import AfterturnError

MAX_BODY_BYTES = 1_000_000
"""Of what a provider sends; none of them sends as much."""

UNREADABLE = Ignored("unreadable")

WEBHOOKS_PATH = "/hooks"
"""Every webhook's path begins with it."""

Fetch = Callable[[FetchRequest], Awaitable[ChannelEvent]]
"""Fetches a message that a notification only names; Ignored if it no longer exists.

Raises SendFailed; TryLater if it cannot be fetched now.
"""

HandleSubscription = Callable[[SubscriptionEvent], Awaitable[None]]

EMPTY_RESPONSE = WebhookResponse(200)
TWIML = WebhookResponse(200, "<Response/>", {"content-type": "text/xml"})
"""Tells Twilio to do nothing more."""


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """One webhook of a provider.

    Attributes:
        verify: raises Rejected for a request that is not the provider's; may be a coroutine function.
        parse: the events of a verified request, in order.
        response: returned once every event is stored.
    """

    verify: Callable[[WebhookRequest, datetime], Awaitable[None] | None]
    parse: Callable[[WebhookRequest, datetime], Sequence[ChannelEvent]]
    response: WebhookResponse = EMPTY_RESPONSE
    max_body: int = MAX_BODY_BYTES
    methods: frozenset[str] = frozenset({"POST"})


@dataclass(frozen=True, slots=True)
class WebhookRouter:
    """All of them, by path. ``fetchers``: by the source of a Fetch; ``upkeep``: by the source of an Upkeep; ``woken``:
    called when there may be something to answer.
    """

    intake: Ingest
    clock: Clock
    endpoints: Mapping[str, WebhookEndpoint]
    fetchers: Mapping[str, Fetch] = field(default_factory=dict)
    upkeep: Mapping[str, HandleSubscription] = field(default_factory=dict)
    woken: Callable[[], None] = lambda: None

    async def __call__(self, path: str, request: WebhookRequest) -> WebhookResponse:
        """The answer to one call; raises nothing that is ours."""
        door = self.endpoints.get(path.rstrip("/"))
        if door is None:
            return error_response(404, "not_found", "nothing is called here; is the channel set up?")
        if request.method not in door.methods:
            return error_response(405, "method", f"send a {' or '.join(sorted(door.methods))}", {"allow": _allow(door)})
        if len(request.body) > door.max_body:
            return error_response(413, "too_large", f"at most {door.max_body:,} bytes")
        try:
            return await self._heard(door, request, path)
        except SendFailed as error:
            return _not_fetched(error, door)
        except AfterturnError as error:
            return response_to_error(error)

    async def _heard(self, door: WebhookEndpoint, request: WebhookRequest, path: str) -> WebhookResponse:
        now = self.clock()
        if (verified := door.verify(request, now)) is not None:
            await verified
        for arrival in door.parse(request, now):
            if isinstance(arrival, ImmediateResponse):
                return WebhookResponse(arrival.status, arrival.body, {"content-type": arrival.content_type})
            if arrival == UNREADABLE:
                _unreadable(path)
            await self.receive(arrival, now)
        return door.response

    async def receive(self, arrival: ChannelEvent, now: datetime) -> None:
        """What was let in, or was found elsewhere. Raises what fetching and storing raise."""
        if isinstance(arrival, SubscriptionEvent):
            if keep := self.upkeep.get(arrival.source):
                await keep(arrival)
            else:
                telemetry.log("upkeep_needed", level=logging.WARNING, stage=arrival.source, status=arrival.action)
            return
        if isinstance(arrival, FetchRequest):
            fetch = self.fetchers.get(arrival.source)
            if fetch is None:
                telemetry.log("fetch_not_set_up", level=logging.ERROR, stage=arrival.source)
                raise Rejected(503, "what this tells of cannot be fetched here; set the channel up")
            arrival = await fetch(arrival)
        if (await self.intake.take(arrival)).outcome == "saved":
            self.woken()


def _unreadable(path: str) -> None:
    """Genuine, and yet nobody can read it: its provider has changed something, and messages may be lost with it."""
    channel = path.strip("/").partition("/")[2]
    telemetry.arrivals_unreadable.labels(channel).inc()
    telemetry.log("arrival_unreadable", level=logging.WARNING, channel=channel)


def _allow(door: WebhookEndpoint) -> str:
    return ", ".join(sorted(door.methods))


def _not_fetched(error: SendFailed, door: WebhookEndpoint) -> WebhookResponse:
    """Sent again, it may be had; what never will is not asked for again."""
    later = isinstance(error, TryLater)
    level = logging.WARNING if later else logging.ERROR
    telemetry.log("fetch_failed", level=level, stage=error.provider, error=error.reason.value)
    again = {"retry-after": str(RETRY_AFTER_S)}
    return (
        error_response(503, "unavailable", "it cannot be fetched yet; send it again", again) if later else door.response
    )
