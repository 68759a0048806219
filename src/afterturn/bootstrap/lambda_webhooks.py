"""The webhooks of a lane as a Lambda function; Lambda calls ``handler``. Loads only the emit path.

Replies are made and sent by ``afterturn worker``: a function does not run between two requests.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from afterturn.aws.names import Names
from afterturn.bootstrap import open_writer
from afterturn.bootstrap.functions import app_named, function_settings, release, set_up_logging
from afterturn.channels.sanitize import public_url
from afterturn.channels.turns import TURNS_PATH, TurnEndpoint
from afterturn.channels.types import Rejected, WebhookRequest
from afterturn.channels.webhooks import WebhookResponse, error_response, response_to_error
from afterturn.clock import system_clock
from afterturn.config import Settings
from afterturn.errors import AfterturnError, ConfigError
from afterturn.settle import Settler


@dataclass(frozen=True, slots=True)
class OpenWebhooks:
    """What requests can reach. ``router``: the webhooks of the configured channels."""

    settings: Settings
    turns: TurnEndpoint | None
    router: Callable[[str, WebhookRequest], Awaitable[WebhookResponse]] | None
    channels: tuple[str, ...]

    async def answer(self, path: str, request: WebhookRequest) -> WebhookResponse:
        if path == TURNS_PATH and self.turns is not None:
            return await self.turns(request)
        if self.router is None:
            return error_response(404, "not_found", f"there is {TURNS_PATH}")
        if public := self.settings.public_url:
            target = request.url.split("/", 3)[3]
            request = WebhookRequest(request.method, public_url(public, target), request.headers, request.body)
        return await self.router(path, request)


class WebhooksFunction:
    """Handles requests of the function URL, and the probe of ``afterturn aws deploy``.

    Store and queues are opened at the first request and stay open.
    """

    def __init__(self) -> None:
        self._loop = asyncio.Runner()
        self._opening: AbstractAsyncContextManager[OpenWebhooks] | None = None
        self._opened: OpenWebhooks | None = None

    def __call__(self, event: Any, context: object = None) -> dict[str, Any]:
        """Raises ConfigError for invalid settings; a probe shows them before anything is served."""
        if isinstance(event, dict) and event.get("afterturn") == "probe":
            return asyncio.run(probe())
        try:
            path, request = parse_request(event)
        except AfterturnError as error:
            return lambda_response(response_to_error(error))
        return lambda_response(self._loop.run(self._serve(path.rstrip("/"), request)))

    def close(self) -> None:
        """Close what is open. For tests: Lambda does not announce its end."""
        if self._opening is not None and self._opened is not None:
            self._loop.run(self._opening.__aexit__(None, None, None))
        self._loop.close()

    async def _serve(self, path: str, request: WebhookRequest) -> WebhookResponse:
        if self._opened is None:
            self._opening = open_webhooks()
            try:
                self._opened = await self._opening.__aenter__()
            except ConfigError:
                raise
            except AfterturnError as error:
                return response_to_error(error)
        return await self._opened.answer(path, request)


async def probe() -> dict[str, Any]:
    """Describes the function after opening store, queues and channels."""
    async with open_webhooks() as opened:
        settings = opened.settings
        names = Names.of(settings.lane.value, settings.table)
        return {
            "version": release(),
            "lane": names.lane,
            "table": names.table,
            "emitter": settings.emitter.value,
            "turns": opened.turns is not None,
            "channels": list(opened.channels),
        }


@asynccontextmanager
async def open_webhooks() -> AsyncIterator[OpenWebhooks]:
    """Opens what the settings configure. Raises ConfigError if that is nothing: unsigned turns are never accepted."""
    settings = function_settings()
    if settings.turns_secret is None and not settings.has_channels:
        raise ConfigError(
            "no webhook is configured: set AFTERTURN_TURNS_SECRET for turns of other runtimes, or a channel's secret"
        )
    async with open_writer(settings, system_clock) as (store, stream):
        settler = Settler(store, stream, system_clock, settings.emitter.value)
        secret = settings.turns_secret
        turns = None if secret is None else TurnEndpoint(settler.settle, secret, system_clock)
        if not settings.has_channels:
            yield OpenWebhooks(settings, turns, None, ())
            return
        from afterturn.bootstrap.channels import open_channels  # noqa: PLC0415 - not needed for turns alone

        responder = app_named().reply_handler
        async with open_channels(settler, store, settings, system_clock, responder=responder) as webhooks:
            yield OpenWebhooks(settings, turns, webhooks.router, tuple(sorted(webhooks.router.endpoints)))


def parse_request(event: Any) -> tuple[str, WebhookRequest]:
    """The path and the request of a function URL (payload format 2.0). Raises Rejected for any other event."""
    try:
        http = event["requestContext"]["http"]
        headers = {str(name).lower(): str(value) for name, value in (event.get("headers") or {}).items()}
        body = event.get("body") or ""
        data = base64.b64decode(body, validate=True) if event.get("isBase64Encoded") else body.encode()
        path, query = str(event["rawPath"]), str(event.get("rawQueryString") or "")
        url = f"https://{headers.get('host', '')}{path}" + (f"?{query}" if query else "")
        return path, WebhookRequest(str(http["method"]), url, headers, data)
    except (KeyError, TypeError, AttributeError, binascii.Error, UnicodeError):
        raise Rejected(400, "the event is not a request of a function URL") from None


def lambda_response(response: WebhookResponse) -> dict[str, Any]:
    return {"statusCode": response.status, "headers": dict(response.headers), "body": response.body}


set_up_logging()
handler = WebhooksFunction()
