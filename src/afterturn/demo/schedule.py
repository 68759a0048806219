"""Conversations that were, played as if they happened now: in real time or compressed. Pure."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from afterturn.ids import legal_id
from afterturn.importers.records import ImportedConversation
from afterturn.model import Turn


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
    for number, one in enumerate(conversations):
        turns = [turn for turn in one.turns if turn.messages]
        if turns:
            heapq.heappush(queue, (spread * chance.random(), number, 0, turns))
    while queue:
        after, number, place, turns = heapq.heappop(queue)
        yield Beat(after, _as_now(turns[place], begins + after, speed, name, synthetic))
        if place + 1 < len(turns):
            gap = max(_time(turns[place + 1]) - _time(turns[place]), timedelta(0)) / speed
            heapq.heappush(queue, (after + gap, number, place + 1, turns))


def _time(turn: Turn) -> datetime:
    return turn.messages[-1].at


def _as_now(turn: Turn, at: datetime, speed: float, name: str, synthetic: bool) -> Turn:
    """A live turn: its last message is of now, the others were before it, at the same pace."""
    last = _time(turn)
    messages = tuple(one.model_copy(update={"at": at - (last - one.at) / speed}) for one in turn.messages)
    was = turn.conversation
    changes = {"id": legal_id(f"{name}:", was.id), "created_at": None, "synthetic": synthetic or was.synthetic}
    meta = was.model_copy(update=changes)
    return turn.model_copy(update={"conversation": meta, "messages": messages, "at": None, "key": None})
