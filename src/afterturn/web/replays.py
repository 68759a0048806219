"""Replays started over HTTP: they run in the background, one at a time."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from afterturn import telemetry
from afterturn.backbone import Backbone
from afterturn.clock import to_text
from afterturn.ledger.ledger import Selection

_REMEMBERED = 100


class ReplayState(StrEnum):
    """``stopped``: the process was stopped. What was requested until then is owed, and swept."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(slots=True)
class Replay:
    """A replay. ``asked``: the request, which a second one with the same key has to equal."""

    id: str
    asked: object
    started_at: datetime
    state: ReplayState = ReplayState.RUNNING
    emitted: int = 0
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "state": self.state.value,
            "emitted": self.emitted,
            "startedAt": to_text(self.started_at),
        }


class Replays:
    """The last hundred of this process."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone
        self._replays: OrderedDict[str, Replay] = OrderedDict()

    def find(self, replay_id: str) -> Replay | None:
        return self._replays.get(replay_id)

    @property
    def running(self) -> Replay | None:
        return next((one for one in self._replays.values() if one.state is ReplayState.RUNNING), None)

    def start(self, replay_id: str, asked: object, part: Selection, consumers: Sequence[str], rate: float) -> Replay:
        """Begin one; nothing else may be running."""
        assert self.running is None
        replay = Replay(replay_id, asked, self._backbone.clock())
        replay.task = asyncio.create_task(self._run(replay, part, consumers, rate))
        self._replays[replay_id] = replay
        while len(self._replays) > _REMEMBERED:
            self._replays.popitem(last=False)
        return replay

    async def stop(self) -> None:
        """End what runs."""
        replay = self.running
        if replay is not None and replay.task is not None:
            replay.task.cancel()
            await asyncio.wait([replay.task])

    async def _run(self, replay: Replay, part: Selection, consumers: Sequence[str], rate: float) -> None:
        def progress(emitted: int) -> None:
            replay.emitted = emitted

        try:
            await self._backbone.ledger.replay(part, consumers=consumers, rate=rate, progress=progress)
            replay.state = ReplayState.DONE
        except asyncio.CancelledError:
            replay.state = ReplayState.STOPPED
        except Exception as error:  # any error ends the replay, which its state reports
            telemetry.log("replay_failed", level=logging.ERROR, error=type(error).__name__)
            replay.state = ReplayState.FAILED
