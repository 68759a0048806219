"""The webhooks of the providers: verify a request, parse it, store its events, answer as the provider expects.

A provider repeats a request that is answered with an error. So errors are only for what may succeed later: the store is
unavailable, a mail cannot be fetched yet. A genuine request that means nothing to us is answered with success.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pydantic import SecretStr

from afterturn import telemetry
from afterturn.channels.ingest import Ingest
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
from afterturn.clock import EPOCH, Clock
from afterturn.errors import AfterturnError, InvalidRecord, error_body, http_status
from afterturn.signing import signer

MAX_BODY_BYTES = 1_000_000
"""More than any provider sends."""

UNREADABLE = Ignored("unreadable")

WEBHOOKS_PATH = "/hooks"
"""Every webhook's path begins with it."""

Fetch = Callable[[FetchRequest], Awaitable[ChannelEvent]]
"""Fetches a message that a notification only names; Ignored if it no longer exists.

Raises SendFailed; TryLater if it cannot be fetched now.
"""

HandleSubscription = Callable[[SubscriptionEvent], Awaitable[None]]

RETRY_AFTER_S = 30
"""Sent as ``Retry-After`` if the store is unavailable."""


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """Status, body and headers, for any server."""

    status: int
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


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
    """Routes requests to endpoints, and their events into the store.

    Attributes:
        endpoints: by path.
        fetchers: by the source of a FetchRequest.
        subscriptions: handlers by the source of a SubscriptionEvent.
        on_job: called when a job was added.
    """

    ingest: Ingest
    clock: Clock
    endpoints: Mapping[str, WebhookEndpoint]
    fetchers: Mapping[str, Fetch] = field(default_factory=dict)
    subscriptions: Mapping[str, HandleSubscription] = field(default_factory=dict)
    on_job: Callable[[], None] = lambda: None

    async def __call__(self, path: str, request: WebhookRequest) -> WebhookResponse:
        """The response to a request. An AfterturnError becomes an error response."""
        endpoint = self.endpoints.get(path.rstrip("/"))
        if endpoint is None:
            return error_response(404, "not_found", "no webhook has this path; is its channel set up?")
        if request.method not in endpoint.methods:
            methods = sorted(endpoint.methods)
            return error_response(405, "method", f"send a {' or '.join(methods)}", {"allow": ", ".join(methods)})
        if len(request.body) > endpoint.max_body:
            return error_response(413, "too_large", f"the body may have {endpoint.max_body:,} bytes at most")
        try:
            return await self._handle(endpoint, request, path)
        except SendFailed as error:
            return _fetch_failed(error, endpoint)
        except AfterturnError as error:
            return response_to_error(error)

    async def _handle(self, endpoint: WebhookEndpoint, request: WebhookRequest, path: str) -> WebhookResponse:
        now = self.clock()
        if (verified := endpoint.verify(request, now)) is not None:
            await verified
        for event in endpoint.parse(request, now):
            if isinstance(event, ImmediateResponse):
                return WebhookResponse(event.status, event.body, {"content-type": event.content_type})
            if event == UNREADABLE:
                _report_unreadable(path)
            await self.receive(event, now)
        return endpoint.response

    async def receive(self, event: ChannelEvent, now: datetime) -> None:
        """Process an event that was verified, or that a provider found by polling.

        Raises:
            SendFailed: the message cannot be fetched.
            StoreError: it cannot be stored.
        """
        if isinstance(event, SubscriptionEvent):
            if handle := self.subscriptions.get(event.source):
                await handle(event)
                self.on_job()
            else:
                telemetry.log("subscription_event", level=logging.WARNING, stage=event.source, status=event.action)
            return
        if isinstance(event, FetchRequest):
            fetch = self.fetchers.get(event.source)
            if fetch is None:
                telemetry.log("fetch_not_set_up", level=logging.ERROR, stage=event.source)
                raise Rejected(503, "the message cannot be fetched; complete the channel's settings")
            event = await fetch(event)
        if (await self.ingest.handle(event)).outcome == "saved":
            self.on_job()


def _report_unreadable(path: str) -> None:
    """A verified request that cannot be parsed: the provider has changed its format, and messages may be lost."""
    channel = path.strip("/").partition("/")[2]
    telemetry.webhooks_unreadable.labels(channel).inc()
    telemetry.log("webhook_unreadable", level=logging.WARNING, channel=channel)


def _fetch_failed(error: SendFailed, endpoint: WebhookEndpoint) -> WebhookResponse:
    """If a repetition may succeed, ask for one; otherwise accept the request, so that it is not repeated."""
    retryable = isinstance(error, TryLater)
    level = logging.WARNING if retryable else logging.ERROR
    telemetry.log("fetch_failed", level=level, stage=error.provider, error=error.reason.value)
    if not retryable:
        return endpoint.response
    headers = {"retry-after": str(RETRY_AFTER_S)}
    return error_response(503, "unavailable", "the message cannot be fetched yet; send this request again", headers)


def json_response(value: Mapping[str, Any], status: int = 200) -> WebhookResponse:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return WebhookResponse(status, body, {"content-type": "application/json"})


def error_response(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None, *, field: str | None = None
) -> WebhookResponse:
    """An error in the shape of :func:`afterturn.errors.error_body`."""
    answer = json_response(error_body(code, message, field), status)
    return WebhookResponse(status, answer.body, {**answer.headers, **(headers or {})})


def response_to_error(error: AfterturnError) -> WebhookResponse:
    """The response to an error: the caller's mistakes with their text, ours without."""
    if isinstance(error, Rejected):
        return error_response(error.status, "rejected", error.reason)
    status, code = http_status(error)
    if status < 500:
        field = error.field or None if isinstance(error, InvalidRecord) else None
        return error_response(status, code, str(error), field=field)
    retry = {"retry-after": str(RETRY_AFTER_S)} if status == 503 else {}
    return error_response(status, code, "nothing was saved; call again with the same body", retry)


MAX_CLOCK_SKEW = timedelta(minutes=5)
"""The greatest difference between the signature's time and ours, from the specification."""

_MAX_ID = 256
_MAX_SIGNATURES = 10


class SignatureVerifier:
    """``secret``: ``whsec_…``; ``name``: its name in errors. Raises ConfigError for an invalid secret."""

    def __init__(self, secret: SecretStr, name: str) -> None:
        self._webhook = signer(secret, name)

    def verify(self, request: WebhookRequest, now: datetime) -> None:
        """Raise Rejected unless the request was signed with the secret in the last five minutes."""
        webhook_id = request.headers.get("webhook-id", "")
        header = request.headers.get("webhook-signature", "")
        at = _time(request.headers.get("webhook-timestamp", ""))
        if not webhook_id or not header or at is None or len(webhook_id) > _MAX_ID:
            raise Rejected(401, "the headers webhook-id, webhook-timestamp and webhook-signature are required")
        if abs(now - at) > MAX_CLOCK_SKEW:
            raise Rejected(401, "the signature's time is more than five minutes off; check the clock, or sign again")
        try:
            expected = self._webhook.sign(webhook_id, at, request.body.decode())
        except UnicodeDecodeError:
            raise Rejected(400, "the body is not UTF-8") from None
        signatures = header.split(" ")[:_MAX_SIGNATURES]
        if not any(hmac.compare_digest(signature.encode(), expected.encode()) for signature in signatures):
            raise Rejected(401, "the signature is not of this body and this secret")


def _time(seconds: str) -> datetime | None:
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) <= 11):
        return None
    return EPOCH + timedelta(seconds=int(seconds))
