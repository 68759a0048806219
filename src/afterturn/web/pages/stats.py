"""A sample of every stage and consumer, for the operations page."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from afterturn.backbone import Backbone
from afterturn.channels.state import ANSWER, DISPATCH, FINISH_CALL
from afterturn.errors import EngineUnavailable, StreamUnavailable
from afterturn.inbox import InboxQuery, InboxRow
from afterturn.reactions.state import ReactionState

T = TypeVar("T")

_ROWS = 200
"""Newest conversations that a sample looks at, so that it costs the same in every fleet."""
_FAILURES = 1_000
_JOBS = 1_000
"""Of each kind; beyond that they are not counted."""
_JOB_KINDS = (ANSWER, FINISH_CALL, DISPATCH)


@dataclass(frozen=True, slots=True)
class ConsumerSample:
    """Of the newest conversations: how many a consumer owes, since when the oldest of those, how many it has seen.

    ``failed``: of all conversations, up to a thousand.
    """

    owed: int = 0
    lag: timedelta = timedelta(0)
    seen: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at every stage; None where the stream or the engine did not answer.

    ``looked_at``: conversations with a settled turn that consumers were compared with.
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
    """A sample of now: a few requests and one bounded read of the recency index.

    An outage of stream or engine is part of it; one of the store raises StoreError.
    """
    now = backbone.clock()
    depth, waiting, oldest, failures, page = await asyncio.gather(
        or_none(backbone.stream.depth()),
        or_none(backbone.engine.waiting()),
        or_none(backbone.engine.oldest()),
        backbone.store.failures(limit=_FAILURES),
        backbone.inbox.page(InboxQuery(limit=_ROWS, budget=_ROWS, include_synthetic=True)),
    )
    kinds = await asyncio.gather(*(backbone.store.waiting_jobs(kind, limit=_JOBS) for kind in _JOB_KINDS))
    jobs = [one.due_at for kind in kinds for one in kind]
    registrations = await backbone.store.registrations()
    failed = Counter(one.consumer for one in failures)
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


async def or_none(asked: Awaitable[T]) -> T | None:
    """What the stream or the engine says; None where it does not answer."""
    try:
        return await asked
    except (EngineUnavailable, StreamUnavailable):
        return None


def consumer_sample(name: str, rows: Sequence[InboxRow], failed: int, now: datetime) -> ConsumerSample:
    """How far a consumer is with these rows; one in shadow has stamps, and no states."""
    owed = [row.conversation for row in rows if row.states.get(name) is ReactionState.OWED]
    since = [one.recorded_at for one in owed if one.recorded_at is not None]
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
