"""The plots of the operations page: each stage and consumer over the last day.

Samples of the last hour are kept in memory. The highest values of every five minutes are also in the store, so that a
restart loses only the last sample; several processes on one store share those.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar

from afterturn import telemetry
from afterturn.backbone import Backbone
from afterturn.channels.state import FINISH_CALL, REPLY, SEND
from afterturn.clock import EPOCH, from_text, to_text
from afterturn.errors import EngineUnavailable, StreamUnavailable
from afterturn.inbox import InboxQuery, InboxRow
from afterturn.reactions.state import ReactionState
from afterturn.store.state import StateRecord

T = TypeVar("T")

_ROWS = 200
"""Newest conversations in a sample, so that its cost does not grow."""
_FAILURES = 1_000
_JOBS = 1_000
"""Counted jobs of each kind."""
_JOB_KINDS = (REPLY, FINISH_CALL, SEND)


@dataclass(frozen=True, slots=True)
class ConsumerSample:
    """Of the newest conversations: owed reactions, the age of the oldest one, and reactions that are up to date.

    ``failed``: in all conversations, up to a thousand.
    """

    owed: int = 0
    lag: timedelta = timedelta(0)
    seen: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of every stage; None if the stream or the engine is unavailable.

    ``looked_at``: conversations with a settled turn in the sample.
    """

    at: datetime
    main: int | None
    retry: int | None
    dead: int | None
    waiting: int | None
    failed: int
    stream_oldest: datetime | None
    reactions_oldest: datetime | None
    jobs: int
    jobs_oldest: datetime | None
    looked_at: int
    consumers: Mapping[str, ConsumerSample] = field(default_factory=dict)


async def take_sample(backbone: Backbone) -> Sample:
    """Take a sample: a few requests and one bounded read of the recency index. Raises StoreError."""
    now = backbone.clock()
    depth, waiting, oldest, failures, page = await asyncio.gather(
        or_none(backbone.stream.depth()),
        or_none(backbone.engine.waiting()),
        or_none(backbone.engine.oldest()),
        backbone.store.failures(limit=_FAILURES),
        backbone.inbox.page(InboxQuery(limit=_ROWS, budget=_ROWS, include_synthetic=True)),
    )
    kinds = await asyncio.gather(*(backbone.store.waiting_jobs(kind, limit=_JOBS) for kind in _JOB_KINDS))
    jobs = [job.due_at for kind in kinds for job in kind]
    registrations = await backbone.store.registrations()
    failed = Counter(failure.consumer for failure in failures)
    rows = [row for row in page.rows if row.conversation.settled_at is not None]
    return Sample(
        at=now,
        main=None if depth is None else depth.main,
        retry=None if depth is None else depth.retry,
        dead=None if depth is None else depth.dead_letters,
        waiting=waiting,
        failed=len(failures),
        stream_oldest=None if depth is None else depth.oldest,
        reactions_oldest=oldest,
        jobs=len(jobs),
        jobs_oldest=min(jobs, default=None),
        looked_at=len(rows),
        consumers={name: consumer_sample(name, rows, failed[name], now) for name in registrations},
    )


async def or_none(request: Awaitable[T]) -> T | None:
    """The response of the stream or the engine; None if it is unavailable."""
    try:
        return await request
    except (EngineUnavailable, StreamUnavailable):
        return None


def consumer_sample(name: str, rows: Sequence[InboxRow], failed: int, now: datetime) -> ConsumerSample:
    """A consumer's progress in these rows; in shadow it has stamps and no states."""
    owed = [row.conversation for row in rows if row.states.get(name) is ReactionState.OWED]
    since = [conversation.recorded_at for conversation in owed if conversation.recorded_at is not None]
    stamps = [(row.conversation.settled_at, row.conversation.reactions.get(name)) for row in rows]
    return ConsumerSample(
        owed=len(owed),
        lag=max(now - min(since), timedelta(0)) if since else timedelta(0),
        seen=sum(
            stamp is not None and stamp.through is not None and settled is not None and stamp.through >= settled
            for settled, stamp in stamps
        ),
        failed=failed,
    )


N = TypeVar("N", int, float)

EVERY_S = 20.0
SLOT = timedelta(minutes=5)
GAP = 2 * SLOT
"""A line breaks where there is no sample for longer than this."""
MOST_CONSUMERS = 60
"""Lagging or failing consumers in a slot, whose size is limited."""

_DAY = timedelta(days=1)


class Span(StrEnum):
    """How far back a plot goes."""

    HOUR = "1h"
    DAY = "24h"

    @property
    def length(self) -> timedelta:
        return _DAY if self is Span.DAY else timedelta(hours=1)

    @property
    def label(self) -> str:
        return "last day" if self is Span.DAY else "last hour"


@dataclass(frozen=True, slots=True)
class Point:
    """A sample, or the highest values of several: entries by stage, lag in seconds and failures by consumer.

    An unavailable stage is missing. A missing consumer neither lagged nor failed.
    """

    at: datetime
    stages: Mapping[str, int] = field(default_factory=dict)
    lags: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)


def point_of(sample: Sample) -> Point:
    """The plotted values of a sample."""
    stages = {name: getattr(sample, name) for name in ("main", "retry", "waiting", "jobs", "failed", "dead")}
    lags = {name: round(consumer.lag.total_seconds(), 1) for name, consumer in sample.consumers.items()}
    return Point(
        at=sample.at,
        stages={name: number for name, number in stages.items() if number is not None},
        lags={name: lag for name, lag in lags.items() if lag},
        failures={name: consumer.failed for name, consumer in sample.consumers.items() if consumer.failed},
    )


def worst(first: Point, second: Point) -> Point:
    """The highest values of both, at the time of the first."""
    return Point(
        at=first.at,
        stages=_highest(first.stages, second.stages),
        lags=_highest(first.lags, second.lags),
        failures=_highest(first.failures, second.failures),
    )


def slot_of(at: datetime) -> datetime:
    """The beginning of the five minutes that contain a time."""
    return at - (at - EPOCH) % SLOT


class PlotSlot(StateRecord):
    """The highest values of five minutes. ``key``: their beginning. Numbers and names of consumers only."""

    kind = "plot-slot"
    ttl = _DAY + timedelta(hours=1)

    stages: Mapping[str, int]
    lags: Mapping[str, float]
    failures: Mapping[str, int]

    @classmethod
    def of(cls, point: Point) -> PlotSlot:
        """As much of a point as a state record can hold."""
        lags = sorted(point.lags.items(), key=lambda item: -item[1])[:MOST_CONSUMERS]
        failures = sorted(point.failures.items(), key=lambda item: -item[1])[:MOST_CONSUMERS]
        return cls(key=to_text(point.at), stages=point.stages, lags=dict(lags), failures=dict(failures))

    @property
    def point(self) -> Point:
        return Point(from_text(self.key), self.stages, self.lags, self.failures)


class History:
    """The samples of the last day."""

    def __init__(self, backbone: Backbone, *, every: float = EVERY_S) -> None:
        self._backbone = backbone
        self._every = every
        self._looks: deque[Point] = deque(maxlen=int(Span.HOUR.length.total_seconds() / every))
        self._slots: dict[datetime, Point] = {}
        self._recalled: dict[datetime, Point] | None = None

    def over(self, span: Span, now: datetime) -> tuple[Point, ...]:
        """Points, oldest first. For an hour: the samples of this process, after the stored slots before them."""
        since = now - span.length
        looks = [look for look in self._looks if look.at >= since] if span is Span.HOUR else []
        slots, end = (self._recalled or {}, looks[0].at) if looks else (self._slots, now)
        return (*(slots[at] for at in sorted(slots) if since <= at < end), *looks)

    async def look(self) -> None:
        """Take a sample and store its slot. Raises StoreError."""
        point = point_of(await take_sample(self._backbone))
        if self._looks and self._looks[-1].at > point.at:  # the clock was ahead
            self._looks = deque([look for look in self._looks if look.at <= point.at], self._looks.maxlen)
            self._recalled = None
        if self._recalled is None:
            self._recalled = await self._recall(point.at)
            self._slots = {**self._recalled}
        self._looks.append(point)
        at = slot_of(point.at)
        noted = (await self._noted([at])).get(at)
        stored = [known for known in (self._slots.get(at), noted) if known is not None]
        slot = replace(point, at=at)
        for known in stored:
            slot = worst(slot, known)
        self._slots = {when: known for when, known in self._slots.items() if point.at - when <= _DAY} | {at: slot}
        await self._backbone.store.put(PlotSlot.of(slot))

    async def run(self) -> None:
        """Take samples until cancelled. A failure leaves a gap; the first of several is logged."""
        failing = False
        while True:
            try:
                await self.look()
                failing = False
            except Exception as error:  # any error leaves a gap in the plots
                if not failing:
                    telemetry.log("sample_failed", level=logging.WARNING, error=type(error).__name__)
                failing = True
            await asyncio.sleep(self._every)

    async def _recall(self, now: datetime) -> dict[datetime, Point]:
        """The stored slots of the last day."""
        last = slot_of(now)
        return await self._noted([last - number * SLOT for number in range(_DAY // SLOT + 1)])

    async def _noted(self, slots: list[datetime]) -> dict[datetime, Point]:
        known = await self._backbone.store.get_all(PlotSlot, [to_text(at) for at in slots])
        return {slot.point.at: slot.point for slot in known.values()}


def _highest(first: Mapping[str, N], second: Mapping[str, N]) -> dict[str, N]:
    both = {**first, **second}
    return {name: max(first.get(name, value), second.get(name, value)) for name, value in both.items()}
