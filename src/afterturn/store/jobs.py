"""Jobs, and the queue that hands them out under a lease. Each store is a queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from pydantic import Field, JsonValue

from afterturn.model import Id, Label, Record, Time

MAX_JOBS = 3
"""Jobs that one transaction adds beside a whole turn: two items each, of DynamoDB's 100."""


class Job(Record):
    """Something to do because of the messages that it is saved with. ``key``: unique among jobs of its kind."""

    kind: Label
    key: Id
    conversation_id: Id
    value: JsonValue = None
    due_at: Time


class WaitingJob(Job):
    """A job that is not done. ``visible_at``: not leased before; ``attempts``: how often it was leased."""

    visible_at: Time
    attempts: int


class LeasedJob(Job):
    """A job that nobody else gets before ``until``. ``attempts`` includes this one."""

    attempts: int
    until: Time
    lease: str = Field(repr=False)


class JobQueue(Protocol):
    """The part of a store that keeps jobs. They are added in the transaction of their messages, by the writer's
    methods, or by ``add_jobs``; a job whose kind and key are known is never added again, also when it is done.
    """

    async def add_jobs(self, jobs: Sequence[Job]) -> None:
        """Add jobs that belong to no message, at most MAX_JOBS. Raises InvalidRecord."""
        ...

    async def lease_jobs(self, kind: str, *, now: datetime, lease: timedelta, limit: int) -> Sequence[LeasedJob]:
        """Lease jobs of a kind that are due, at most ``limit``, in the order in which they became due.

        Until ``now + lease`` nobody else gets them; then anybody does, so a worker that dies loses them.
        Raises InvalidInput for a lease of no time.
        """
        ...

    async def complete(self, job: LeasedJob) -> bool:
        """Mark a job as done; repeating it changes nothing.

        Returns false, and changes nothing, if somebody else leased it after the lease ended, or it was handed back.
        """
        ...

    async def retry_later(self, job: LeasedJob, *, until: datetime, attempts: int | None = None) -> bool:
        """Hand a job back, to be leased not before ``until``; false as above, and if it is done.

        ``attempts``: the number to count on from; None keeps the job's own.
        """
        ...

    async def waiting_jobs(self, kind: str, *, limit: int) -> Sequence[WaitingJob]:
        """Jobs that are not done, leased or not, in the order in which they can be leased."""
        ...
