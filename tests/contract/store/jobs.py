"""The keeping half of the store contract: jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contract.samples import T0, at, message, meta, turn
from tests.contract.store.factory import StoreFactory

from afterturn.errors import InvalidInput, InvalidRecord
from afterturn.model import MAX_TURN_MESSAGES
from afterturn.store.invariants import MAX_VALUE_BYTES
from afterturn.store.jobs import MAX_JOBS, Job, LeasedJob, WaitingJob
from afterturn.store.port import Store

MINUTE = timedelta(minutes=1)
KINDS = count()
ONE_STORE = (HealthCheck.function_scoped_fixture, HealthCheck.differing_executors)
"""Examples share a store, and adapters share the test: each example has a kind of its own."""


def job(key: str, second: float = 0, **given: Any) -> Job:
    return Job(**{"kind": "answer", "key": key, "conversation_id": "c1", "due_at": at(second), **given})


async def save(store: Store, *jobs: Job) -> int:
    return await store.save_messages(meta("c1"), (), now=T0, jobs=jobs)


async def take(
    store: Store, second: float, *, lease: timedelta = MINUTE, limit: int = 10, kind: str = "answer"
) -> Sequence[LeasedJob]:
    return await store.lease_jobs(kind, now=at(second), lease=lease, limit=limit)


async def keys(store: Store) -> list[str]:
    return [one.key for one in await store.waiting_jobs("answer", limit=100)]


class AddingContract:
    """Jobs come with their messages, and once."""

    async def test_a_job_comes_with_the_messages_it_belongs_to(self, store: Store) -> None:
        first = job("k1", 5, value={"message": "m1", "n": 2.5})
        assert await store.save_messages(meta("c1"), [message("m1")], now=T0, jobs=[first]) == 1
        second = job("k2", 4, kind="dispatch", value=None)
        settled = await store.settle(turn("c1", message("m2")), now=at(1), emitter="worker", jobs=[second])
        assert settled.new
        assert await store.waiting_jobs("answer", limit=9) == await waiting(store, first)
        assert await store.waiting_jobs("dispatch", limit=9) == await waiting(store, second, kind="dispatch")
        assert (await store.counts())["jobs"] == 2

    async def test_a_job_that_is_known_is_not_added_again(self, store: Store) -> None:
        """Waiting, taken or done; a redelivery of its message changes nothing."""
        await save(store, job("k1", 5, value=1))
        await save(store, job("k1", 1, value=2), job("k1", 2, kind="dispatch"))
        (waits,) = await store.waiting_jobs("answer", limit=9)
        assert (waits.due_at, waits.value) == (at(5), 1)
        (taken,) = await take(store, 9)
        await save(store, job("k1", 1))
        assert await keys(store) == ["k1"]
        assert await store.complete(taken)
        assert await store.save_messages(meta("c1"), [message("m1")], now=T0, jobs=[job("k1")]) == 1
        settled = await store.settle(turn("c1", message("m2")), now=T0, emitter="worker", jobs=[job("k1")])
        assert settled.new
        assert await keys(store) == []
        assert not await take(store, 999)
        assert (await store.counts())["jobs"] == 1

    async def test_jobs_are_added_also_where_no_message_is_new(self, store: Store) -> None:
        """Messages that were saved before the process died, and whose job was not."""
        await store.save_messages(meta("c1"), [message("m1")], now=T0)
        assert await store.save_messages(meta("c1"), [message("m1")], now=T0, jobs=[job("k1")]) == 0
        assert await save(store, job("k2")) == 0
        assert await keys(store) == ["k1", "k2"]
        assert [one.id for one in await store.messages("c1")] == ["m1"]

    async def test_a_turn_that_is_not_new_adds_no_jobs(self, store: Store) -> None:
        """By its messages or by its key: the jobs were written with the first one."""
        await store.settle(turn("c1", message("m1"), key="t1"), now=T0, emitter="worker", jobs=[job("k1")])
        for again in (turn("c1", message("m1")), turn("c1", key="t1"), turn("c1", message("m9"), key="t1")):
            settled = await store.settle(again, now=at(1), emitter="worker", jobs=[job("k2")])
            assert not settled.new
        assert await keys(store) == ["k1"]

    async def test_the_same_turn_settled_many_times_at_once_adds_its_job_once(self, factory: StoreFactory) -> None:
        async with factory.open() as one, factory.open() as two:
            given = turn("c1", message("m1"))
            settled = await asyncio.gather(
                *((one, two)[n % 2].settle(given, now=T0, emitter="worker", jobs=[job("k1")]) for n in range(8))
            )
            assert sum(outcome.new for outcome in settled) == 1
            assert await keys(two) == ["k1"]

    async def test_different_turns_may_bring_the_same_job_at_once(self, factory: StoreFactory) -> None:
        """Each is settled; the job is there once, also across conversations."""
        async with factory.open() as one, factory.open() as two:
            settled = await asyncio.gather(
                *(
                    (one, two)[n % 2].settle(
                        turn(f"c{n % 3}", message(f"m{n}")), now=T0, emitter="worker", jobs=[job("k1")]
                    )
                    for n in range(8)
                )
            )
            assert all(outcome.new for outcome in settled)
            assert await keys(one) == ["k1"]
            assert len(await take(two, 1)) == 1

    async def test_a_full_turn_takes_as_many_jobs_as_are_allowed_and_no_more(self, store: Store) -> None:
        """More are refused whole: nothing of the turn is written."""
        many = [message(f"m{n}", n, provider_id=f"p{n}") for n in range(MAX_TURN_MESSAGES)]
        given = turn("c1", *many, key="t")
        large = "x" * (MAX_VALUE_BYTES - 2)
        jobs = [job(f"k{n}", value=large) for n in range(MAX_JOBS)]
        with pytest.raises(InvalidRecord, match="jobs"):
            await store.settle(given, now=T0, emitter="worker", jobs=[*jobs, job("more")])
        with pytest.raises(InvalidRecord, match=r"jobs\[1\]\.value"):
            await store.settle(given, now=T0, emitter="worker", jobs=[jobs[0], job("large", value=large + "x")])
        with pytest.raises(InvalidRecord, match=r"jobs\[0\]\.value"):
            await save(store, job("nan", value=float("nan")))
        assert await store.conversation("c1") is None
        assert await keys(store) == []
        settled = await store.settle(given, now=T0, emitter="worker", jobs=[*jobs, jobs[0]])
        assert settled.new
        assert len(await keys(store)) == MAX_JOBS

    async def test_jobs_come_with_the_last_of_many_messages(self, store: Store) -> None:
        many = [message(f"m{n}", n) for n in range(70)]
        await store.save_messages(meta("c1"), many, now=at(99), jobs=[job("k1")])
        assert len(await store.messages("c1")) == 70
        assert await keys(store) == ["k1"]

    async def test_keys_and_kinds_of_jobs_never_meet(self, store: Store) -> None:
        names = [("answer", "a#b"), ("answer", 'a"2b'), ("answer.a", "b"), ("answer", "a.b"), ("answer", "é 🏠")]
        for kind, key in names:
            await save(store, job(key, kind=kind))
        assert sorted(await keys(store)) == sorted(key for kind, key in names if kind == "answer")
        assert [one.key for one in await take(store, 1, kind="answer.a")] == ["b"]
        assert (await store.counts())["jobs"] == len(names)


async def waiting(store: Store, *given: Job, kind: str = "answer") -> Sequence[WaitingJob]:
    """What is listed of jobs that nobody has taken."""
    listed = await store.waiting_jobs(kind, limit=len(given))
    assert all(one.attempts == 0 and one.visible_at == one.due_at for one in listed)
    assert [Job(**one.model_dump(include=set(Job.model_fields))) for one in listed] == list(given)
    return listed


class TakingContract:
    """Leases: nobody has a job twice, and none is lost with its taker."""

    async def test_jobs_are_taken_when_they_are_due_oldest_first(self, store: Store) -> None:
        await save(store, job("k3", 3), job("k1", 1), job("k9", 9))
        await save(store, job("k2b", 2), job("k2a", 2))
        assert not await take(store, 0.999_999)
        taken = await take(store, 3, limit=3)
        assert [one.key for one in taken] == ["k1", "k2a", "k2b"]
        assert [one.key for one in await take(store, 3)] == ["k3"]
        assert await keys(store) == ["k9", "k1", "k2a", "k2b", "k3"]

    async def test_what_is_taken_says_what_it_is(self, store: Store) -> None:
        given = job("k1", 1, value={"message": "m1"})
        await save(store, given)
        (taken,) = await take(store, 2)
        assert Job(**taken.model_dump(include=set(Job.model_fields))) == given
        assert (taken.attempts, taken.until) == (1, at(62))
        assert taken.lease not in repr(taken)
        (again,) = await take(store, 62)
        assert (again.attempts, again.until, again.value) == (2, at(122), {"message": "m1"})

    async def test_a_job_is_nobody_elses_within_its_lease(self, factory: StoreFactory) -> None:
        async with factory.open() as one, factory.open() as two:
            for n in range(12):
                await save(one, job(f"k{n}", n / 100))
            taken = await asyncio.gather(*(take((one, two)[n % 2], 1, limit=3) for n in range(6)))
            got = [job.key for some in taken for job in some]
            assert len(got) == len(set(got))
            while more := await take(two, 60.999_999):
                got += [job.key for job in more]
            assert sorted(got) == sorted(f"k{n}" for n in range(12))

    async def test_a_taker_that_died_loses_its_job_after_the_lease(self, factory: StoreFactory) -> None:
        async with factory.open() as store:
            await save(store, job("k1"))
            assert await take(store, 0)
        async with factory.open() as store:
            assert not await take(store, 59)
            (taken,) = await take(store, 60)
            assert taken.attempts == 2

    async def test_who_comes_after_the_lease_changes_nothing(self, store: Store) -> None:
        """The one who has it now finishes it; the late one neither finishes it nor puts it off."""
        await save(store, job("k1"))
        (late,) = await take(store, 0)
        (now,) = await take(store, 60)
        assert not await store.complete(late)
        assert not await store.retry_later(late, until=at(61))
        assert not await take(store, 100)
        assert await keys(store) == ["k1"]
        assert await store.complete(now)
        assert not await store.complete(late)
        assert await keys(store) == []

    async def test_a_late_finish_counts_where_nobody_has_taken_over(self, store: Store) -> None:
        await save(store, job("k1"))
        (taken,) = await take(store, 0)
        assert await store.complete(taken)
        assert await store.complete(taken)
        assert not await store.retry_later(taken, until=at(1))
        assert not await take(store, 9999)

    async def test_a_job_without_a_message_is_added_once_and_leased_like_any_other(self, store: Store) -> None:
        await store.add_jobs([job("k1", value={"n": 1}), job("k1", 5), job("k2", 3, kind="other")])
        await store.add_jobs([job("k1", 9)])
        (leased,) = await take(store, 5)
        assert (leased.key, leased.value, leased.due_at) == ("k1", {"n": 1}, T0)
        assert await store.complete(leased)
        await store.add_jobs([job("k1")])
        assert await keys(store) == []
        assert (await store.counts())["jobs"] == 1
        with pytest.raises(InvalidRecord, match="jobs"):
            await store.add_jobs([job(f"n{number}") for number in range(MAX_JOBS + 1)])

    async def test_a_deferred_job_counts_on_from_the_attempts_that_are_given(self, store: Store) -> None:
        """Waiting for somebody else is no failed attempt."""
        await save(store, job("k1"))
        (first,) = await take(store, 0)
        assert await store.retry_later(first, until=at(1), attempts=0)
        (again,) = await take(store, 1)
        assert again.attempts == 1
        assert await store.retry_later(again, until=at(2))
        (third,) = await take(store, 2)
        assert third.attempts == 2

    async def test_a_job_that_is_put_off_comes_then(self, store: Store) -> None:
        await save(store, job("k1"))
        (taken,) = await take(store, 1)
        assert await store.retry_later(taken, until=at(600))
        assert not await store.retry_later(taken, until=at(900))
        assert not await store.complete(taken)
        assert not await take(store, 599)
        (listed,) = await store.waiting_jobs("answer", limit=9)
        assert (listed.visible_at, listed.due_at, listed.attempts) == (at(600), T0, 1)
        (again,) = await take(store, 600)
        assert again.attempts == 2
        assert await store.retry_later(again, until=T0)
        (third,) = await take(store, 601)
        assert await store.retry_later(third, until=third.until)
        assert not await take(store, 660)
        assert len(await take(store, 661)) == 1

    async def test_a_lease_of_no_time_is_refused(self, store: Store) -> None:
        await save(store, job("k1"))
        for lease in (timedelta(0), -MINUTE):
            with pytest.raises(InvalidInput, match="lease"):
                await take(store, 1, lease=lease)
        assert len(await take(store, 1)) == 1

    async def test_what_cannot_be_a_kind_has_no_jobs(self, store: Store) -> None:
        assert not await take(store, 1, kind="")
        assert not await store.waiting_jobs("a#b", limit=1)
        with pytest.raises(InvalidInput):
            await take(store, 1, kind="\ud83d")

    @settings(max_examples=12, suppress_health_check=[*ONE_STORE, HealthCheck.too_slow])
    @given(data=st.data())
    async def test_in_any_order_of_verbs_jobs_are_where_a_plain_list_has_them(
        self, store: Store, data: st.DataObject
    ) -> None:
        model = Model(store, f"kind{next(KINDS)}")
        for step in data.draw(st.lists(STEPS, min_size=5, max_size=30)):
            await model.do(*step)


KEYS = st.sampled_from(["a", "b", "c", "d"])
WAITS = st.sampled_from([1, 5, 30, 600])
STEPS = st.one_of(
    st.tuples(st.just("add"), KEYS, st.sampled_from([-5, 0, 0, 30])),
    st.tuples(st.just("take"), st.integers(1, 3), WAITS),
    st.tuples(st.just("take"), st.integers(1, 3), WAITS),
    st.tuples(st.just("finish"), st.integers(0, 5), st.none()),
    st.tuples(st.just("put_off"), st.integers(0, 5), WAITS),
    st.tuples(st.just("pass"), WAITS, st.none()),
)
"""A verb, and what the model makes of it."""


@dataclass
class ModelJob:
    """A job as the model has it. ``lease``: who took it last, unless it was put off."""

    visible_at: datetime
    attempts: int = 0
    lease: str | None = None
    done: bool = False


class Model:
    """Jobs of one kind as a dictionary, and the store beside it."""

    def __init__(self, store: Store, kind: str) -> None:
        self.store = store
        self.kind = kind
        self.now = T0
        self.kept: dict[str, ModelJob] = {}
        self.held: list[LeasedJob] = []

    async def do(self, verb: str, first: Any, second: Any) -> None:
        await getattr(self, f"do_{verb}")(first, second)
        expected = sorted((one.visible_at, key, one.attempts) for key, one in self.kept.items() if not one.done)
        listed = await self.store.waiting_jobs(self.kind, limit=100)
        assert [(one.visible_at, one.key, one.attempts) for one in listed] == expected

    async def do_add(self, key: str, seconds: int) -> None:
        due = self.now + timedelta(seconds=seconds)
        await save(self.store, job(key, kind=self.kind, due_at=due))
        self.kept.setdefault(key, ModelJob(due))

    async def do_take(self, limit: int, seconds: int) -> None:
        lease = timedelta(seconds=seconds)
        taken = await self.store.lease_jobs(self.kind, now=self.now, lease=lease, limit=limit)
        due = sorted((one.visible_at, key) for key, one in self.kept.items() if not one.done)
        expected = [key for visible_at, key in due if visible_at <= self.now][:limit]
        assert [one.key for one in taken] == expected
        for one in taken:
            model = self.kept[one.key]
            self.kept[one.key] = replace(
                model, visible_at=self.now + lease, attempts=model.attempts + 1, lease=one.lease
            )
            assert one.attempts == model.attempts + 1
        self.held += taken

    async def do_finish(self, number: int, _: None) -> None:
        if number < len(self.held):
            taken = self.held[number]
            model = self.kept[taken.key]
            is_his = model.lease == taken.lease
            assert await self.store.complete(taken) is is_his
            model.done = model.done or is_his

    async def do_put_off(self, number: int, seconds: int) -> None:
        if number < len(self.held):
            taken = self.held[number]
            model = self.kept[taken.key]
            until = self.now + timedelta(seconds=seconds)
            is_his = model.lease == taken.lease and not model.done
            assert await self.store.retry_later(taken, until=until) is is_his
            if is_his:
                model.visible_at, model.lease = until, None

    async def do_pass(self, seconds: int, _: None) -> None:
        self.now += timedelta(seconds=seconds)
