"""One runner does the jobs of all kinds, side by side, one conversation at a time, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.contract.samples import T0, meta

from afterturn.errors import StoreBusy
from afterturn.jobs.runner import JobHandler, JobRunner, RetryLater, RetryPolicy
from afterturn.sqlite.database import Database
from afterturn.store.jobs import Job, LeasedJob
from afterturn.store.sqlite import SqliteStore
from afterturn.testing import ManualClock

LEASE = timedelta(minutes=1)


@dataclass
class Rig:
    """A queue in a file. ``done``: keys of jobs in the order in which they ran."""

    store: SqliteStore
    clock: ManualClock
    done: list[str] = field(default_factory=list)

    async def add(self, *keys: str, kind: str = "work", conversation: str = "c1") -> None:
        for number, key in enumerate(keys):
            due_at = self.clock() + timedelta(milliseconds=number)
            job = Job(kind=kind, key=key, conversation_id=conversation, due_at=due_at)
            await self.store.save_messages(meta(conversation), (), now=T0, jobs=[job])
        self.clock.advance(timedelta(seconds=1))

    async def run(self, job: LeasedJob) -> bool:
        self.done.append(job.key)
        return True

    def runner(self, run: Callable[[LeasedJob], Awaitable[bool]] | None = None, **given: Any) -> JobRunner:
        return JobRunner(self.store, self.clock, [self.handler(run, **given)])

    def handler(self, run: Callable[[LeasedJob], Awaitable[bool]] | None = None, **given: Any) -> JobHandler:
        defaults: dict[str, Any] = {"kind": "work", "lease": LEASE, "retry": RetryPolicy((5, 30))}
        return JobHandler(run=run or self.run, **{**defaults, **given})

    async def left(self, kind: str = "work") -> list[str]:
        return [job.key for job in await self.store.waiting_jobs(kind, limit=99)]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Database.open(tmp_path / "a.db") as database:
        yield Rig(SqliteStore(database), ManualClock(T0))


async def test_due_jobs_run_once_and_are_completed(rig: Rig) -> None:
    await rig.add("a", "b")
    runner = rig.runner()
    assert (await runner.once(), await runner.once()) == (2, 0)
    assert (rig.done, await rig.left()) == (["a", "b"], [])


async def test_a_failed_job_is_retried_by_the_policy_and_says_why(rig: Rig) -> None:
    failures: list[tuple[str, timedelta | None]] = []

    async def fail(job: LeasedJob) -> bool:
        raise errors.pop(0)

    async def failed(job: LeasedJob, reason: str, delay: timedelta | None) -> None:
        failures.append((reason, delay))

    errors: list[Exception] = [ValueError("secret"), RetryLater("throttled", timedelta(minutes=9)), ValueError()]
    runner = rig.runner(fail, failed=failed, retry=RetryPolicy((5, 30), give_up_after=timedelta(minutes=10)))
    await rig.add("a")
    for wait in (timedelta(seconds=5), timedelta(minutes=9), timedelta(0)):
        assert await runner.once() == 1
        rig.clock.advance(wait - timedelta(seconds=1) if wait else wait)
        if wait:
            assert await runner.once() == 0
        rig.clock.advance(timedelta(minutes=1))
    assert failures == [
        ("ValueError", timedelta(seconds=5)),
        ("throttled", timedelta(minutes=9)),
        ("ValueError", None),
    ]
    assert await rig.left() == []


async def test_of_shared_jobs_the_newest_does_the_work_of_all(rig: Rig) -> None:
    await rig.add("a", "b", "c")
    await rig.runner(is_shared=lambda job: True).once()
    assert (rig.done, await rig.left()) == (["c"], [])


async def test_a_shared_job_that_had_been_done_before_covers_no_other(rig: Rig) -> None:
    async def run(job: LeasedJob) -> bool:
        return await rig.run(job) and job.key != "c"

    await rig.add("a", "b", "c")
    await rig.runner(run, is_shared=lambda job: True).once()
    assert (rig.done, await rig.left()) == (["c", "b"], [])


async def test_shared_jobs_of_a_conversation_run_in_one_process_at_a_time(rig: Rig) -> None:
    """The other one defers them, which is no failed attempt."""
    began, release = asyncio.Event(), asyncio.Event()

    async def hold(job: LeasedJob) -> bool:
        began.set()
        await release.wait()
        return await rig.run(job)

    await rig.add("a")
    holding = asyncio.create_task(rig.runner(hold, is_shared=lambda job: True).once())
    await began.wait()
    await rig.add("b")
    other = rig.runner(is_shared=lambda job: True)
    assert await other.once() == 1
    assert rig.done == []
    [deferred] = [job for job in await rig.store.waiting_jobs("work", limit=9) if job.key == "b"]
    assert deferred.attempts == 0
    release.set()
    await holding
    rig.clock.advance(timedelta(seconds=2))
    await other.once()
    assert (rig.done, await rig.left()) == (["a", "b"], [])


async def test_kinds_and_conversations_do_not_wait_for_each_other(rig: Rig) -> None:
    """A run that adds jobs of another kind wakes it; stopping waits for what has begun."""
    stop, hanging = asyncio.Event(), asyncio.Event()

    async def work(job: LeasedJob) -> bool:
        if job.key == "hang":
            await hanging.wait()
        else:
            await rig.add("send", kind="send", conversation=job.conversation_id)
        return await rig.run(job)

    async def send(job: LeasedJob) -> bool:
        stop.set()
        hanging.set()
        return await rig.run(job)

    await rig.add("hang", conversation="c1")
    await rig.add("quick", conversation="c2")
    handlers = [rig.handler(work, concurrency=2, leads_to=("send",)), rig.handler(send, kind="send")]
    async with asyncio.timeout(60):
        await JobRunner(rig.store, rig.clock, handlers).run(stop, poll=600)
    assert rig.done == ["quick", "send", "hang"]


async def test_a_store_that_is_out_for_a_while_stops_no_runner(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, lease_jobs, failures = asyncio.Event(), rig.store.lease_jobs, [StoreBusy("out"), StoreBusy("out")]

    async def lease(kind: str, **given: Any) -> Any:
        if failures:
            raise failures.pop()
        return await lease_jobs(kind, **given)

    async def run(job: LeasedJob) -> bool:
        stop.set()
        return await rig.run(job)

    monkeypatch.setattr(rig.store, "lease_jobs", lease)
    await rig.add("a")
    async with asyncio.timeout(60):
        await rig.runner(run).run(stop, poll=0.001)
    assert (rig.done, await rig.left()) == (["a"], [])


async def test_recurring_jobs_are_added_once_for_each_interval_whatever_process_runs_them(rig: Rig) -> None:
    def recurring(now: datetime) -> list[Job]:
        keys = [f"{number} {now:%H:%M}" for number in range(5)]
        return [Job(kind="work", key=key, conversation_id=key, due_at=now) for key in keys]

    first, second = rig.runner(recurring=recurring), rig.runner(recurring=recurring)
    assert [await runner.once() for runner in (first, second, first)] == [5, 0, 0]
    rig.clock.advance(timedelta(minutes=1))
    assert [await runner.once() for runner in (second, first)] == [5, 0]


async def test_a_recurring_job_is_handed_back_when_the_runner_stops(rig: Rig) -> None:
    stop, began = asyncio.Event(), asyncio.Event()

    async def hang(job: LeasedJob) -> bool:
        began.set()
        await asyncio.Event().wait()
        return True

    await rig.add("a")
    runner = rig.runner(hang, recurring=lambda now: [], is_shared=lambda job: True)
    running = asyncio.create_task(runner.run(stop, poll=0.01))
    await began.wait()
    stop.set()
    await running
    rig.clock.advance(timedelta(seconds=2))
    await rig.runner(is_shared=lambda job: True).once()
    assert rig.done == ["a"]
    assert await rig.left() == []


async def test_jobs_leased_while_the_runner_stops_are_handed_back(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = asyncio.Event()
    lease_jobs = rig.store.lease_jobs

    async def lease_then_stop(kind: str, **options: Any) -> Sequence[LeasedJob]:
        jobs = await lease_jobs(kind, **options)
        stop.set()
        return jobs

    for number in range(3):
        await rig.add(f"k{number}", conversation=f"c{number}")
    with monkeypatch.context() as patch:
        patch.setattr(rig.store, "lease_jobs", lease_then_stop)
        await rig.runner(recurring=lambda now: [], concurrency=3).run(stop, poll=0.01)
    assert rig.done == []
    rig.clock.advance(timedelta(seconds=2))
    await rig.runner().once()
    assert sorted(rig.done) == ["k0", "k1", "k2"]


POLICY = RetryPolicy((5, 30, 120), give_up_after=timedelta(days=3))


def seconds(attempts: int, *, age: timedelta = timedelta(0), after: timedelta | None = None) -> float | None:
    delay = POLICY.next_delay(attempts, age, after)
    return None if delay is None else delay.total_seconds()


def test_delays_grow_and_the_last_one_repeats() -> None:
    assert [seconds(attempts) for attempts in (1, 2, 3, 4, 99)] == [5, 30, 120, 120, 120]


def test_a_failure_that_says_how_long_to_wait_is_believed() -> None:
    assert seconds(1, after=timedelta(minutes=15)) == 900
    assert seconds(3, after=timedelta(seconds=1)) == 120, "a short request does not shorten the backoff"


def test_a_job_is_given_up_by_its_age_whatever_the_failure_asks_for() -> None:
    assert seconds(1, age=timedelta(days=3)) == 5
    assert seconds(1, age=timedelta(days=3, seconds=1), after=timedelta(minutes=1)) is None


def test_a_policy_without_an_end_never_gives_up() -> None:
    assert RetryPolicy((5,)).next_delay(1_000, timedelta(days=9_999)) == timedelta(seconds=5)
