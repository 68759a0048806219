"""The servers of ``bench.webhooks``: what ``afterturn up`` runs, or the same with webhooks that only verify.

``python -m bench.webhooks_server SIDE DB`` serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from afterturn.app import App
from afterturn.bootstrap import open_backbone
from afterturn.bootstrap.channels import open_channels
from afterturn.channels.types import Rejected, WebhookRequest
from afterturn.channels.webhooks import WebhookResponse, WebhookRouter, error_response
from afterturn.clock import system_clock
from afterturn.config import Settings
from afterturn.web import server
from afterturn.web.access import AccessControl
from afterturn.web.app import make_app
from afterturn.web.roles import CallerRole
from afterturn.web.tokens import Token, TokenFile, add_token, digest_of
from afterturn.web.webhooks import mount_webhooks
from bench.pipeline import hush
from bench.webhooks_calls import AUTH_TOKEN, SECRET, WARM_UP

READY = "listening on "


def settings_of(path: Path) -> Settings:
    """Both channels set up, nothing sent anywhere."""
    return Settings(
        db=path,
        webhook_url=None,
        alert_url=None,
        telegram_secret=SecretStr(SECRET),
        twilio_auth_token=SecretStr(AUTH_TOKEN),
    )


def token_of(path: Path) -> str:
    """The text of the token that may read the inbox."""
    return f"aft_{path.stem}"


async def serve(side: str, path: Path) -> None:
    settings = settings_of(path)
    tokens = path.with_suffix(".toml")
    digest = digest_of(token_of(path))
    add_token(tokens, Token(name="bench", role=CallerRole.ADMIN, sha256=digest, created_at=system_clock()))
    with server.bind("127.0.0.1", 0) as listener:
        async with (
            open_backbone(App(), settings) as backbone,
            open_channels(backbone, backbone.store, settings, backbone.clock) as webhooks,
        ):
            app = make_app(backbone, AccessControl(backbone.clock, TokenFile(tokens)))
            router = verifying(webhooks.router) if side == "verify" else webhooks.router
            counted = Counted(router)
            mount_webhooks(app, backbone.clock, counted)
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(backbone.run(stop, eager=side == "eager"))
                group.create_task(webhooks.jobs.run(stop, poll=settings.poll.total_seconds()))
                group.create_task(server.serve(app, listener, stop))
                listener.listen()
                print(f"{READY}{server.address_of(listener)}", flush=True)
                await asyncio.to_thread(sys.stdin.read)
                print(json.dumps({"processor": time.process_time() - counted.began}), flush=True)
                stop.set()


@dataclass(slots=True)
class Counted:
    """Takes down when the warm-up is over, in seconds of the processor."""

    router: Callable[[str, WebhookRequest], Awaitable[WebhookResponse]]
    calls: int = 0
    began: float = 0.0

    async def __call__(self, path: str, request: WebhookRequest) -> WebhookResponse:
        self.calls += 1
        if self.calls == WARM_UP:
            self.began = time.process_time()
        return await self.router(path, request)


def verifying(router: WebhookRouter) -> Callable[[str, WebhookRequest], Awaitable[WebhookResponse]]:
    """The same endpoints, which verify requests and store nothing."""

    async def answered(path: str, request: WebhookRequest) -> WebhookResponse:
        endpoint = router.endpoints[path]
        try:
            if (verified := endpoint.verify(request, router.clock())) is not None:
                await verified
        except Rejected as error:
            return error_response(error.status, "rejected", error.reason)
        return endpoint.response

    return answered


if __name__ == "__main__":
    hush()
    asyncio.run(serve(sys.argv[1], Path(sys.argv[2])))
