"""``bridge``, ``worker`` and ``drain``: run reactions."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.status import Status

from afterturn.app import App
from afterturn.backbone import Backbone, Backlog
from afterturn.bootstrap.bridge import open_bridge
from afterturn.cli.exits import Exit, interruptible
from afterturn.cli.options import (
    AppName,
    Db,
    Json,
    LogLevel,
    LogLevelName,
    Profiled,
    app_of,
    place_of,
    require_store,
    set_up_logging,
    settings_of,
)
from afterturn.cli.output import facts, note, write_json
from afterturn.config import Profile, Settings
from afterturn.errors import AfterturnError
from afterturn.inbox.presentation import count
from afterturn.ledger.ledger import Audit
from afterturn.reactions.registry import Registry

if TYPE_CHECKING:
    from afterturn.bootstrap.channels import Channels

_LINE_EVERY = 5.0
_MOST_JOBS = 1_000
"""Of each kind, that are counted."""


def worker(
    ctx: typer.Context, profile: Profiled = None, db: Db = None, app: AppName = None, log_level: LogLevel = None
) -> None:
    """Run reactions and sweeps without the bridge.

    The first Ctrl-C (or SIGTERM) waits for running work; the second stops at once.
    """
    set_up_logging(ctx, log_level, default=LogLevelName.INFO)
    raise typer.Exit(asyncio.run(work(app_of(ctx, app), settings_of(ctx, db), bridging=False)))


def bridge(
    ctx: typer.Context, profile: Profiled = None, db: Db = None, app: AppName = None, log_level: LogLevel = None
) -> None:
    """Run the bridge alone: read the stream and signal every consumer.

    Reactions have to run in another process (`worker`). While the reaction engine is unavailable, nothing is received.
    The first Ctrl-C (or SIGTERM) waits for records in flight; the second stops at once, and records that were not
    acknowledged are received again.
    """
    set_up_logging(ctx, log_level, default=LogLevelName.INFO)
    raise typer.Exit(asyncio.run(_bridge(app_of(ctx, app), settings_of(ctx, db))))


async def work(app: App, settings: Settings, *, bridging: bool = True) -> Exit:
    """Run reactions and sweeps, and the bridge with them, until a signal comes."""
    async with app.open(settings) as backbone, _answers(app, backbone) as answers:

        async def run(stop: asyncio.Event) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(backbone.run(stop, bridging=bridging))
                if answers is not None:
                    group.create_task(answers.jobs.run(stop, poll=settings.poll.total_seconds()))

        what = "Up" if bridging else "Worker up"
        notes = [f"{what} on {place_of(settings)}: {names_of(backbone.registry)}. Ctrl-C stops."]
        if settings.profile is Profile.LOCAL:
            notes.insert(0, f"Temporal UI: http://127.0.0.1:{settings.local_temporal_ui_port}")
        if await until_stopped(run, notes):
            note(f"Stopped. {await what_is_left(backbone)}")
            return Exit.OK
    return Exit.INTERRUPTED


@asynccontextmanager
async def _answers(app: App, backbone: Backbone) -> AsyncIterator[Channels | None]:
    """Replies and sends for the configured channels, also if their webhooks run elsewhere."""
    settings = backbone.settings
    if not settings.has_channels:
        yield None
        return
    from afterturn.bootstrap.channels import open_channels  # noqa: PLC0415 - slow to load, and most have no channels here

    async with open_channels(
        backbone, backbone.store, settings, backbone.clock, responder=app.reply_handler
    ) as webhooks:
        yield webhooks


async def _bridge(app: App, settings: Settings) -> Exit:
    async with open_bridge(app, settings) as lone:
        notes = [f"Bridge up on {place_of(settings)}: {names_of(lone.registry)}. Ctrl-C stops."]
        if await until_stopped(lone.run, notes):
            note("Stopped.")
            return Exit.OK
    return Exit.INTERRUPTED


async def until_stopped(run: Callable[[asyncio.Event], Coroutine[Any, Any, None]], notes: Sequence[str]) -> bool:
    """Run until a signal comes; false where a second one stopped it at once."""
    stop = asyncio.Event()
    running = asyncio.create_task(run(stop))

    def ask() -> None:
        stop.set()  # first: whoever read what is said here may have gone away
        note("Stopping: waiting for running work; Ctrl-C again stops at once.")

    with interruptible(ask, running.cancel):
        for line in notes:  # here, since they say that Ctrl-C stops it
            note(line)
        try:
            await running
        except asyncio.CancelledError:
            note("Stopped at once. Interrupted work runs again at the next start.")
            return False
    return True


def names_of(registry: Registry) -> str:
    """The names of the consumers, for people."""
    return ", ".join(registry.signalled) or "no consumers"


def drain(
    ctx: typer.Context,
    now: Annotated[bool, typer.Option("--now", metavar="", help="Skip quiet periods.")] = False,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
    app: AppName = None,
    log_level: LogLevel = None,
) -> None:
    """Run until nothing waits and nothing is owed, then report what is left.

    Exits 3 if something is left: reactions of consumers that this app does not have, failed reactions, dead letters.
    Failed attempts are retried with pauses, so it can take a while.
    """
    set_up_logging(ctx, log_level)
    settings = settings_of(ctx, db)
    app_ = app_of(ctx, app)
    raise typer.Exit(asyncio.run(_drain(app_, settings, eager=now, as_json=json_)))


async def _drain(app: App, settings: Settings, *, eager: bool, as_json: bool) -> Exit:
    require_store(settings)
    async with app.open(settings) as backbone:
        left = await drained(backbone, eager=eager)
        if left is None:
            note(f"Stopped. {await what_is_left(backbone)} Run it again to continue.")
            return Exit.INTERRUPTED
        audit = await backbone.ledger.audit(grace=timedelta(0))
    if as_json:
        write_json(outcome(left, audit))
    else:
        facts(
            [
                ("in the stream", left.streamed),
                ("waiting", left.waiting),
                ("owed", audit.owed),
                ("failed", audit.failed),
                ("dead letters", left.dead_letters),
            ]
        )
    if is_clean(left, audit):
        return Exit.OK
    if audit.failed:
        note("`afterturn reactions failed` lists failed reactions, `afterturn reactions retry` runs them again.")
    if audit.overdue:
        note(
            "`afterturn audit --grace 0s` lists overdue reactions; do they belong to a consumer of another app (--app)?"
        )
    if left.dead_letters:
        note("`afterturn dead-letters list` lists the dead letters.")
    return Exit.OWED


async def drained(backbone: Backbone, *, eager: bool) -> Backlog | None:
    """Drain, showing how it goes; returns what is left, and None where a signal stopped it."""
    with _showing() as show:
        draining = asyncio.create_task(backbone.drain(eager=eager, progress=show))
        with interruptible(draining.cancel, draining.cancel) as received:
            try:
                return await draining
            except (asyncio.CancelledError, AfterturnError):
                if not received():
                    raise
                return None


def is_clean(left: Backlog, audit: Audit) -> bool:
    """Whether everything is done."""
    return audit.clean and left.streamed <= left.unknown_consumer and not (left.waiting or left.dead_letters)


def outcome(left: Backlog, audit: Audit) -> dict[str, Any]:
    """What a drain left, as JSON."""
    return {
        "clean": is_clean(left, audit),
        "streamed": left.streamed,
        "waiting": left.waiting,
        "owed": audit.owed,
        "failed": audit.failed,
        "deadLetters": left.dead_letters,
    }


async def what_is_left(backbone: Backbone) -> str:
    """For whoever has stopped as asked; servers that do not answer make no failure of that."""
    try:
        return _left(await backbone.backlog(), await _jobs(backbone))
    except AfterturnError as error:
        return f"What is left is unknown ({error}); nothing is lost."


async def _jobs(backbone: Backbone) -> str:
    """The waiting jobs of channels: ``2 reply jobs waiting, 1 send job waiting, ``; empty if there are none."""
    from afterturn.channels.state import FINISH_CALL, REPLY, SEND  # noqa: PLC0415 - needed at the end only

    text = ""
    for kind, name in ((REPLY, "reply job"), (SEND, "send job"), (FINISH_CALL, "ended call")):
        if number := len(await backbone.store.waiting_jobs(kind, limit=_MOST_JOBS)):
            least = "at least " if number == _MOST_JOBS else ""
            text += f"{least}{count(number, name)} waiting, "
    return text


def _left(left: Backlog, jobs: str = "") -> str:
    return (
        f"{count(left.streamed, 'event')} in the stream, {count(left.waiting, 'reaction')} waiting, {jobs}"
        f"{count(left.dead_letters, 'dead letter')}."
    )


@contextmanager
def _showing() -> Iterator[Any]:
    """Takes backlogs: shown live on a terminal, as a line every few seconds elsewhere."""
    screen = Console(file=sys.stderr)
    if screen.is_terminal:
        with Status("draining", console=screen) as status:
            yield lambda backlog: status.update(_left(backlog))
        return
    last = time.monotonic()

    def show(backlog: Backlog) -> None:
        nonlocal last
        if time.monotonic() - last >= _LINE_EVERY:
            last = time.monotonic()
            note(_left(backlog))

    yield show
