"""What a worker process does until it is killed or stopped. Everything here runs in a forked child."""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from tests.crash import points
from tests.crash.plan import Part, Step, Verb, Worker
from tests.crash.reactions import SECRET, make_app

from afterturn import Backbone, Settings, Turn
from afterturn.importers import ImportedConversation, read
from afterturn.settle import SettleResult

DATABASE = "crash.db"
ACKNOWLEDGED = "acknowledged.jsonl"
DIALOGUES = "dialogues.jsonl"
LOG = "workers.log"
TOO_LONG_S = 60
STACKS = signal.SIGUSR1
"""Makes a worker write the stacks of its threads into the log."""
CRASHED = 70


@dataclass(frozen=True, slots=True)
class CycleFolder:
    """Where a cycle lives, and how its workers are set."""

    folder: Path
    url: str
    lease: timedelta
    pace: float
    checkpoint: int
    deaf: int

    def settings(self) -> Settings:
        address = f"{self.url}/{self.folder.name}/{self.deaf}"
        return Settings(
            db=self.folder / DATABASE,
            lease=self.lease,
            poll=timedelta(milliseconds=40),
            slots=4,
            grace=timedelta(milliseconds=150),
            sweep_every=timedelta(milliseconds=100),
            effects_for_history=True,
            taxonomy=None,
            webhook_url=f"{address}/package",
            webhook_secret=SecretStr(SECRET),
            alert_url=f"{address}/alert",
            alert_secret=SecretStr(SECRET),
            model=None,
        )


@asynccontextmanager
async def opened(place: CycleFolder) -> AsyncIterator[Backbone]:
    """The app on the cycle's file."""
    async with make_app(place.pace).open(place.settings()) as backbone:
        yield backbone


def fork(work: Callable[[], Coroutine[Any, Any, None]], place: CycleFolder, worker: Worker | None = None) -> int:
    """Fork a worker; returns its process id. It exits with 0 once its work is done or SIGTERM has stopped it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until the child has put away its parent's handler
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return pid
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(TOO_LONG_S)
        log = os.open(place.folder / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        faulthandler.register(STACKS, all_threads=True)
        points.watch_connections(place.checkpoint)
        _arm(worker)
        asyncio.run(work())
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(CRASHED)


def _arm(worker: Worker | None) -> None:
    if worker is None:
        return
    for moment, ending in ((worker.kill, signal.SIGKILL), (worker.freeze, signal.SIGSTOP)):
        if moment is not None and moment.point is not None:
            points.arm(moment.point, moment.nth, ending)


async def work(part: Part, place: CycleFolder, threads: Sequence[Sequence[Step]], opened_file: int) -> None:
    """One worker's part in a round. ``threads``: the steps that are to be done of each conversation.

    ``opened_file``: a pipe that is told when the file is open.
    """
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with opened(place) as backbone:
        os.write(opened_file, b".")
        match part:
            case Part.SETTLE:
                await _settle(backbone, place, threads, stop)
            case Part.IMPORT:
                await _import(backbone, place, stop)
            case Part.REACT:
                await backbone.run(stop, eager=True)
            case Part.DRAIN:
                await backbone.drain(eager=True)
            case Part.SCENARIO:
                await _settle(backbone, place, threads, stop)
                await backbone.drain(eager=True)


async def _settle(
    backbone: Backbone, place: CycleFolder, threads: Sequence[Sequence[Step]], stop: asyncio.Event
) -> None:
    chance = random.Random()
    file = _open_acknowledged(place)

    async def follow(thread: Sequence[Step]) -> None:
        for step in thread:
            if stop.is_set():
                return
            await asyncio.sleep(chance.uniform(0, place.pace))
            _write_down(file, step.conversation.id, step.message_ids, await take(backbone, step), step.key)

    await asyncio.gather(*map(follow, threads))


async def take(backbone: Backbone, step: Step) -> SettleResult | None:
    """One call of the writer; the receipt of a settled turn."""
    match step.verb:
        case Verb.SETTLE:
            turn = Turn(conversation=step.conversation, messages=step.messages, key=step.key)
            return await backbone.settle(turn)
        case Verb.SAVE:
            await backbone.save_messages(step.conversation, step.messages)
            return None
        case Verb.COMPLETE:
            return await backbone.on_conversation_turn_complete(step.conversation.id, key=step.key)


async def _import(backbone: Backbone, place: CycleFolder, stop: asyncio.Event) -> None:
    file = _open_acknowledged(place)
    few = asyncio.Semaphore(4)

    async def take_in(found: ImportedConversation) -> None:
        async with few:
            for turn in found.turns:
                if stop.is_set():
                    return
                receipt = await backbone.settle(turn)
                _write_down(file, found.meta.id, tuple(one.id for one in turn.messages), receipt, turn.key)

    await asyncio.gather(*map(take_in, imported(place)))


def imported(place: CycleFolder) -> list[ImportedConversation]:
    """The conversations of the cycle's file of dialogues."""
    path = place.folder / DIALOGUES
    if not path.stat().st_size:
        return []
    return [found for found in read(path, format="dialogues") if isinstance(found, ImportedConversation)]


def _open_acknowledged(place: CycleFolder) -> int:
    return os.open(place.folder / ACKNOWLEDGED, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def _write_down(
    file: int, conversation_id: str, message_ids: Sequence[str], receipt: SettleResult | None, key: str | None
) -> None:
    """After the call has returned: from here on it must never be lost. One write, so the line is whole."""
    line = {"conversation": conversation_id, "messages": list(message_ids), "key": key}
    if receipt is not None:
        line["event"] = receipt.event.event_id
    os.write(file, json.dumps(line).encode() + b"\n")
