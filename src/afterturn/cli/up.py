"""``up``: everything in one process, with pages, API and webhooks."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

import typer

from afterturn.app import App
from afterturn.backbone import Backbone
from afterturn.channels.turns import TURNS_PATH, TurnEndpoint
from afterturn.cli.exits import Exit
from afterturn.cli.options import (
    AppName,
    Db,
    LogLevel,
    LogLevelName,
    Profiled,
    app_of,
    place_of,
    set_up_logging,
    settings_of,
)
from afterturn.cli.output import note
from afterturn.cli.run import names_of, until_stopped, what_is_left, work
from afterturn.cli.tokens import TokensFile
from afterturn.config import Profile, Settings
from afterturn.model import Emitter
from afterturn.web.access import AccessControl, check_binding, is_loopback
from afterturn.web.tokens import TokenFile, read_tokens

PORT = 8722


def up(
    ctx: typer.Context,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; calls from other machines need tokens.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help=f"Port; 0: any free one. Default: {PORT}, or any free one if it is in use.",
        ),
    ] = None,
    http: Annotated[bool, typer.Option("--http/--no-http", metavar="", help="Serve pages, API and webhooks.")] = True,
    bridge: Annotated[
        bool,
        typer.Option("--bridge/--no-bridge", metavar="", help="Read the stream; without it, another process has to."),
    ] = True,
    tokens: TokensFile = None,
    profile: Profiled = None,
    db: Db = None,
    app: AppName = None,
    log_level: LogLevel = None,
) -> None:
    """Run bridge, reactions and sweeps, and serve the inbox, the HTTP API and webhooks.

    Prints a one-time login link for this machine; other machines need a token of `afterturn token add`. The first
    Ctrl-C (or SIGTERM) waits for running work; the second stops at once, and interrupted work runs again at the next
    start. Several processes can use one file. If the bridge is a Lambda function, use --no-bridge.
    """
    set_up_logging(ctx, log_level, default=LogLevelName.INFO)
    emitter = None if "AFTERTURN_EMITTER" in os.environ or not http else Emitter.WEB
    settings = settings_of(ctx, db, tokens=tokens, emitter=emitter)
    chosen = app_of(ctx, app)
    if http:
        raise typer.Exit(asyncio.run(_serve(chosen, settings, host, port, bridging=bridge)))
    raise typer.Exit(asyncio.run(work(chosen, settings, bridging=bridge)))


async def _serve(app: App, settings: Settings, host: str, port: int | None, *, bridging: bool) -> Exit:
    # Here, since only this command needs them.
    from afterturn.bootstrap.channels import open_channels  # noqa: PLC0415
    from afterturn.web import server  # noqa: PLC0415
    from afterturn.web.app import make_app  # noqa: PLC0415
    from afterturn.web.proxies import Proxies  # noqa: PLC0415
    from afterturn.web.webhooks import CHAT_PATH, mount_webhooks  # noqa: PLC0415

    with server.bind(host, PORT if port is None else port, or_any=port is None) as listener:
        local = is_loopback(listener.getsockname()[0])
        if not local:
            check_binding(host, len(read_tokens(settings.tokens)))
        async with (
            app.open(settings) as backbone,
            open_channels(backbone, backbone.store, settings, backbone.clock, responder=app.reply_handler) as webhooks,
        ):
            access = AccessControl(backbone.clock, TokenFile(settings.tokens))
            http = make_app(backbone, access, proxies=Proxies.of(settings.trusted_proxies))
            mount_webhooks(
                http,
                backbone.clock,
                webhooks.router,
                turns=_turns(backbone),
                chat=CHAT_PATH in webhooks.router.endpoints,
                public=settings.public_url,
            )

            async def run(stop: asyncio.Event) -> None:
                async with asyncio.TaskGroup() as group:
                    group.create_task(backbone.run(stop, bridging=bridging))
                    group.create_task(webhooks.jobs.run(stop, poll=settings.poll.total_seconds()))
                    group.create_task(server.serve(http, listener, stop))

            what = "Up" if bridging else "Up without a bridge"
            notes = [f"{what} on {place_of(settings)}: {names_of(backbone.registry)}. Ctrl-C stops."]
            if settings.profile is Profile.LOCAL:
                notes.insert(0, f"Temporal UI: http://127.0.0.1:{settings.local_temporal_ui_port}")
            address = server.address_of(listener)
            notes.append(f"Serving on {address}")
            if channels := ", ".join(sorted(path.removeprefix("/hooks/") for path in webhooks.router.endpoints)):
                notes.append(f"Channels under {settings.public_url or address}/hooks/: {channels}")
                notes.append(f"Replies by: {_responder(app, settings)}")
            if settings.turns_secret is not None:
                notes.append(f"Signed turns of other runtimes at {settings.public_url or address}{TURNS_PATH}")
            if local and settings.profile is not Profile.AWS:
                notes.append(f"Log in, once, within ten minutes: {address}/login?key={access.make_link()}")
            if await until_stopped(run, notes):
                note(f"Stopped. {await what_is_left(backbone)}")
                return Exit.OK
    return Exit.INTERRUPTED


def _responder(app: App, settings: Settings) -> str:
    if app.reply_handler is not None:
        return "the responder of the app"
    if settings.agent_url:
        return "the agent at AFTERTURN_AGENT_URL"
    return "people, in the inbox (an app with a responder, or AFTERTURN_AGENT_URL, would reply automatically)"


def _turns(backbone: Backbone) -> TurnEndpoint | None:
    secret = backbone.settings.turns_secret
    return None if secret is None else TurnEndpoint(backbone.settle, secret, backbone.clock)
