"""``simulate``: past conversations, played as if they happened now."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from afterturn.app import App
from afterturn.backbone import Backbone
from afterturn.bridge.bridge import wait_any
from afterturn.cli.exits import Exit, interruptible
from afterturn.cli.loader import first
from afterturn.cli.options import (
    AppName,
    Db,
    Json,
    LogLevel,
    Profiled,
    app_of,
    cli_settings,
    flag_value,
    set_up_logging,
)
from afterturn.cli.output import note, write_json
from afterturn.clock import parse_duration, system_clock, to_text
from afterturn.config import Settings
from afterturn.demo import Scripted, sample
from afterturn.ids import legal_id
from afterturn.importers import read
from afterturn.importers.records import BadRecord, ImportedConversation
from afterturn.inbox.presentation import count
from afterturn.model import Turn

_BAD_SHOWN = 20


def simulate(
    ctx: typer.Context,
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="A file that `import` can read; default: the demo's sample."),
    ] = None,
    speed: Annotated[
        float, typer.Option(metavar="N", min=0.01, max=1_000_000, help="Speed, as a multiple of the original.")
    ] = 60.0,
    spread: Annotated[str, typer.Option(metavar="DURATION", help="Time within which all conversations start.")] = "1m",
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Play only the first N conversations.")] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of the random start times; the same seed gives the same result.")
    ] = 1,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Prefix of the conversations' ids; default: the start time."),
    ] = None,
    synthetic: Annotated[
        bool,
        typer.Option("--synthetic", metavar="", help="Mark all as synthetic, which the inbox hides by default."),
    ] = False,
    json_: Json = False,
    profile: Profiled = None,
    db: Db = None,
    app: AppName = None,
    log_level: LogLevel = None,
) -> None:
    """Play past conversations as if they happened now, but faster.

    Each turn is settled when it is due. Run `afterturn up` in another terminal for the reactions. Invalid records are
    reported with their position and skipped (exit 1). Ctrl-C stops between turns.
    """
    set_up_logging(ctx, log_level)
    settings = cli_settings(ctx, db)
    within = flag_value("--spread", parse_duration, spread)
    raise typer.Exit(
        asyncio.run(
            _simulate(
                app_of(ctx, app),
                settings,
                path,
                speed=speed,
                spread=within,
                limit=limit,
                seed=seed,
                name=name,
                synthetic=synthetic,
                json_=json_,
            )
        )
    )


async def _simulate(
    app: App,
    settings: Settings,
    path: Path | None,
    *,
    speed: float,
    spread: timedelta,
    limit: int | None,
    seed: int,
    name: str | None,
    synthetic: bool,
    json_: bool,
) -> Exit:
    records = await asyncio.to_thread(lambda: list(_read_records(path, system_clock(), limit)))
    conversations = [item for item in records if isinstance(item, ImportedConversation)]
    bad = [item for item in records if isinstance(item, BadRecord)]
    for record in bad[:_BAD_SHOWN]:
        note(f"bad: {record}")
    if len(bad) > _BAD_SHOWN:
        note(f"bad: there are {len(bad) - _BAD_SHOWN:,} more, left out like these")
    async with app.open(settings) as backbone:
        begins = backbone.clock()
        beats = play(
            conversations,
            begins,
            chance=random.Random(seed),
            speed=speed,
            spread=spread,
            name=name or f"play-{begins:%H%M%S}",
            synthetic=synthetic,
        )
        stop = asyncio.Event()
        with interruptible(stop.set, stop.set) as received:
            turns = await _perform(backbone, list(beats), stop, quiet=json_)
        stopped = received() > 0
    hidden = sum(synthetic or item.meta.synthetic or item.meta.gauntlet for item in conversations)
    if json_:
        result = {
            "conversations": len(conversations),
            "hidden": hidden,
            "turns": turns,
            "seed": seed,
            "bad": [{"place": item.location, "problem": item.problem} for item in bad],
            "interrupted": stopped,
        }
        write_json({**result, "began": to_text(begins)})
    else:
        but = f", but for {count(hidden, 'test')} (--include-synthetic)" if hidden else ""
        where = f"`afterturn inbox` shows them{but}."
        note(f"{count(turns, 'turn')} of {count(len(conversations), 'conversation')}. {where}")
    return Exit.INTERRUPTED if stopped else Exit.FAILED if bad else Exit.OK


async def _perform(backbone: Backbone, beats: Sequence[Beat], stop: asyncio.Event, *, quiet: bool) -> int:
    """Settle each when its time has come; returns how many were."""
    loop = asyncio.get_running_loop()
    began = noted_at = loop.time()
    for number, beat in enumerate(beats):
        wait = began + beat.after.total_seconds() - loop.time()
        if wait > 0:
            await wait_any(stop, timeout=wait)
        if stop.is_set():
            return number
        await backbone.settle(beat.turn)
        if not quiet and loop.time() - noted_at > 5:
            noted_at = loop.time()
            note(f"{number + 1:,} of {len(beats):,} turns")
    return len(beats)


def _read_records(path: Path | None, now: datetime, limit: int | None) -> Iterator[ImportedConversation | BadRecord]:
    if path is None:
        yield from first((_whole(record) for record in sample(now)), limit)
        return
    with read(path) as reader:
        yield from first(reader, limit)


def _whole(scripted: Scripted) -> ImportedConversation:
    """A call as one turn, with what was said in it before its end settled it."""
    conversation = scripted.conversation
    if not scripted.spoken:
        return conversation
    end = conversation.turns[-1].model_copy(update={"messages": scripted.spoken})
    return replace(conversation, turns=(end,))


@dataclass(frozen=True, slots=True)
class Beat:
    """A turn and when it happens, counted from the beginning of the play."""

    after: timedelta
    turn: Turn


def play(
    conversations: Iterable[ImportedConversation],
    begins: datetime,
    *,
    chance: random.Random,
    speed: float = 1.0,
    spread: timedelta = timedelta(0),
    name: str = "play",
    synthetic: bool = False,
) -> Iterator[Beat]:
    """Their turns in the order in which they happen.

    Each conversation begins at a random moment within ``spread`` and keeps its own pace, ``speed`` times as fast; its
    id gets ``name`` in front, so that two plays are two sets of conversations. ``synthetic``: all are tests; what was
    one stays one in any case. The same chance gives the same play.
    """
    queue: list[tuple[timedelta, int, int, list[Turn]]] = []
    for number, conversation in enumerate(conversations):
        turns = [turn for turn in conversation.turns if turn.messages]
        if turns:
            heapq.heappush(queue, (spread * chance.random(), number, 0, turns))
    while queue:
        after, number, index, turns = heapq.heappop(queue)
        yield Beat(after, _as_now(turns[index], begins + after, speed, name, synthetic))
        if index + 1 < len(turns):
            gap = max(_time(turns[index + 1]) - _time(turns[index]), timedelta(0)) / speed
            heapq.heappush(queue, (after + gap, number, index + 1, turns))


def _time(turn: Turn) -> datetime:
    return turn.messages[-1].at


def _as_now(turn: Turn, at: datetime, speed: float, name: str, synthetic: bool) -> Turn:
    """A live turn: its last message is of now, the others were before it, at the same pace."""
    last = _time(turn)
    messages = tuple(each.model_copy(update={"at": at - (last - each.at) / speed}) for each in turn.messages)
    original = turn.conversation
    changes = {
        "id": legal_id(f"{name}:", original.id),
        "created_at": None,
        "synthetic": synthetic or original.synthetic,
    }
    meta = original.model_copy(update=changes)
    return turn.model_copy(update={"conversation": meta, "messages": messages, "at": None, "key": None})
