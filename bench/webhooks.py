"""Webhooks into a served file, beside the same server with an endpoint that only verifies and answers.

In each round three servers take the same signed calls, one after the other, each a process of its own with the whole
HTTP application: one whose webhooks only verify; one that does what ``afterturn up`` does; and that one without quiet
periods, so that every reaction runs while calls come in. Another process calls, over connections that stay open, and
reads the inbox's first page meanwhile. Afterwards every message that was accepted has to be in the file once, all is
drained, and the audit must find nothing owed.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from afterturn.app import App
from afterturn.bootstrap import open_backbone
from afterturn.config import Settings
from bench import files, workload
from bench.measure import Figure, Report, apart, figure, percentile, ratio
from bench.pipeline import hush
from bench.webhooks_calls import Call, planned
from bench.webhooks_server import READY, settings_of, token_of

SIDES = ("verify", "up", "eager")
AT_A_TIME = 16
PAGES_A_SECOND = 10
CONVERSATIONS = 100
CALLS = {"verify": 4_000, "up": 2_000, "eager": 1_200}
"""Of each round; each side is to take a few seconds."""

_SEEDED = 500
"""Conversations in the file beforehand, so that the first page is full."""


@dataclass(slots=True)
class Side:
    """What was found of one of them, round by round."""

    rates: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)
    refused: int = 0


@dataclass(slots=True)
class Kept:
    """What became of what was sent, over all rounds."""

    accepted: int = 0
    lost: int = 0
    twice: int = 0
    unsettled: int = 0
    owed: int = 0
    dead: int = 0
    waiting: int = 0

    def broken(self) -> Iterator[str]:
        for name in ("lost", "twice", "unsettled", "owed", "dead", "waiting"):
            if found := getattr(self, name):
                yield f"{name}: {found} ({self.accepted} messages were accepted)"


def run(*, rounds: int = 3, folder: Path | None = None) -> Report:
    hush()
    sides = {name: Side() for name in SIDES}
    kept = Kept()
    with files.scratch(folder) as place:
        seed = files.fresh(place, "seed")
        asyncio.run(_fill(seed))
        for number in range(rounds):
            for name in SIDES[number % len(SIDES) :] + SIDES[: number % len(SIDES)]:
                path = Path(shutil.copy(seed, place / f"{name}-{number}.db"))
                _round(sides[name], name, path, number, kept)
    return _report(sides, kept)


def _report(sides: dict[str, Side], kept: Kept) -> Report:
    verify, up, eager = (sides[name] for name in SIDES)
    shown = {"verify": "only verified", "up": "stored, as up does", "eager": "stored, reactions at once"}
    return Report(
        "webhooks",
        (
            *(figure(shown[name], "calls/s", one.rates) for name, one in sides.items()),
            *(_spread(f"a call: {shown[name]}", one.calls) for name, one in sides.items()),
            *(_spread(f"inbox meanwhile: {shown[name]}", one.pages) for name, one in sides.items()),
            *(figure(f"processor: {shown[name]}", "µs/call", one.processor) for name, one in sides.items()),
        ),
        (
            ratio("stored, as up does / only verified", up.rates, verify.rates, aim=0.5),
            ratio("stored, reactions at once / only verified", eager.rates, verify.rates),
            ratio("processor: as up does / only verified", up.processor, verify.processor),
        ),
        {
            "connections": AT_A_TIME,
            "inboxReadsPerSecond": PAGES_A_SECOND,
            "conversations": CONVERSATIONS,
            "callsPerRound": CALLS,
            "refused": sum(one.refused for one in sides.values()),
            **{name: getattr(kept, name) for name in Kept.__slots__},
        },
        (*kept.broken(), *(f"{name}: {one.refused} calls were refused" for name, one in sides.items() if one.refused)),
    )


def _spread(name: str, seconds: Sequence[float]) -> Figure:
    taken = [one * 1e3 for one in seconds]
    return Figure(name, "ms", statistics.median(taken), min(taken), max(taken), len(taken), percentile(taken, 0.99))


def _round(side: Side, name: str, path: Path, number: int, kept: Kept) -> None:
    with _served(name, path) as server:
        args = (server.address, CALLS[name], CONVERSATIONS, number, AT_A_TIME, PAGES_A_SECOND, token_of(path))
        found = apart("bench.webhooks_calls", *args)
    side.rates.append(found["calls"] / found["seconds"])
    side.processor.append(server.processor / found["calls"] * 1e6)
    side.calls += found["latencies"]
    side.pages += found["pages"]
    side.refused += len(found["refused"])
    if name != "verify":
        refused = set(found["refused"])
        plan = planned(CALLS[name], CONVERSATIONS, number)
        check_kept(path, [one for place, one in enumerate(plan) if place not in refused], kept)
        asyncio.run(drain(path, kept))


def check_kept(path: Path, accepted: Sequence[Call], kept: Kept) -> None:
    """Every message that was accepted is there once, and settled."""
    messages = {one.message for one in accepted}
    with closing(sqlite3.connect(path)) as connection:
        stored = dict(connection.execute("SELECT provider_id, count(*) FROM messages GROUP BY provider_id"))
        [(unsettled,)] = connection.execute("SELECT ifnull(sum(message_count - settled_count), 0) FROM conversations")
    kept.accepted += len(messages)
    kept.lost += sum(one not in stored for one in messages)
    kept.twice += sum(stored.get(one, 0) > 1 for one in messages)
    kept.unsettled += unsettled


async def drain(path: Path, kept: Kept) -> None:
    """Nothing is owed afterwards."""
    async with open_backbone(App(), settings_of(path)) as backbone:
        left = await backbone.drain(eager=True)
        audit = await backbone.ledger.audit(grace=timedelta(0))
    kept.owed += audit.owed
    kept.dead += left.dead_letters
    kept.waiting += left.streamed + left.waiting


async def _fill(path: Path) -> None:
    async with open_backbone(App(), Settings(db=path, webhook_url=None, alert_url=None)) as backbone:
        for turns in workload.live_turns(_SEEDED, 1):
            await backbone.settle(turns[0])
        await backbone.drain(eager=True)


@dataclass(slots=True)
class _Server:
    address: str
    processor: float = 0.0
    """Seconds that it spent from when it listened until it was told to stop."""


@contextmanager
def _served(side: str, path: Path) -> Iterator[_Server]:
    """A server of this side; it stops when its standard input ends, so also when this process is gone."""
    command = [sys.executable, "-m", "bench.webhooks_server", side, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            first = process.stdout.readline()
            if not first.startswith(READY):
                raise RuntimeError(f"the server of {side!r} did not start: see above")
            server = _Server(first.removeprefix(READY).strip())
            yield server
            process.stdin.close()
            told: dict[str, Any] = json.loads(process.stdout.readline())
            server.processor = told["processor"]
        except BaseException:
            process.kill()
            raise
