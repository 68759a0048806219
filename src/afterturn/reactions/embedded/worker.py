"""The worker on a SQLite file: claims and runs the reactions that are due.

Each consumer has a loop and slots of its own, so a slow or failing one delays no other.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
from datetime import timedelta
from functools import partial

from afterturn import telemetry
from afterturn.clock import Clock
from afterturn.errors import LeaseLost, StoreError, WorkerCrashed
from afterturn.model import Stamp
from afterturn.reactions.embedded import due_queue
from afterturn.reactions.embedded.due_queue import ClaimedReaction
from afterturn.reactions.registry import Consumer, Registry
from afterturn.reactions.run import EffectsPolicy, error_kind, report_failure, report_success, retry_delay, run_consumer
from afterturn.sqlite.database import Database
from afterturn.store.port import ConsumerState, ReactionWindow, Store
from afterturn.store.sqlite import stamps

MAX_CRASHES = 10
"""Runs in a row that may end with the death of their worker. A run that kills would otherwise kill for ever."""

_MAX_CRASH_BACKOFF = timedelta(minutes=10)


class EmbeddedWorker:
    """Claims and runs the reactions of every registered consumer.

    ``name`` is unique among the workers on a file. ``slots``: runs of one consumer at a time. ``lease``: how soon
    another worker takes over from one that died; a living one renews it, however long its runs take.
    """

    def __init__(
        self,
        database: Database,
        store: Store,
        registry: Registry,
        clock: Clock,
        chance: random.Random,
        *,
        name: str,
        policy: EffectsPolicy,
        slots: int = 32,
        lease: timedelta = timedelta(seconds=30),
    ) -> None:
        self._database = database
        self._store = store
        self._registry = registry
        self._clock = clock
        self._chance = chance
        self._name = name
        self._policy = policy
        self._slots = slots
        self._lease = lease
        self._held: dict[asyncio.Task[None], ClaimedReaction] = {}
        self._shadows: frozenset[str] = frozenset()
        self.wakes = {consumer.name: asyncio.Event() for consumer in registry}

    def wake(self) -> None:
        """Look for due reactions now rather than at the next poll."""
        for event in self.wakes.values():
            event.set()

    async def run(self, stop: asyncio.Event, *, poll: float, eager: bool = False) -> None:
        """Run what falls due until stopped, then let the runs that have begun finish.

        ``eager`` skips quiet periods. Cancelled, it cuts the runs off and gives their claims back.
        """
        try:
            async with asyncio.TaskGroup() as group:
                loops = [group.create_task(self._serve(consumer, stop, poll, eager)) for consumer in self._registry]
                renewing = group.create_task(self._renew())
                await asyncio.gather(*loops)
                renewing.cancel()
        finally:
            await self._cut_off()

    async def run_due(self, *, eager: bool = False) -> int:
        """Run everything that is due now, and return how many runs that were."""
        count = 0
        for consumer in self._registry:
            while claimed := await self._claim(consumer, self._slots, eager):
                await asyncio.gather(*(self._run(consumer, reaction) for reaction in claimed))
                count += len(claimed)
        return count

    async def _serve(self, consumer: Consumer, stop: asyncio.Event, poll: float, eager: bool) -> None:
        wake = self.wakes[consumer.name]
        running: set[asyncio.Task[None]] = set()
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                wake.clear()
                free = self._slots - len(running)
                claimed = await self._claim(consumer, free, eager) if free else []
                for reaction in claimed:
                    task = asyncio.create_task(self._run(consumer, reaction))
                    self._held[task] = reaction
                    task.add_done_callback(self._forget)
                    running.add(task)
                if len(claimed) < free or not free:
                    woken = asyncio.ensure_future(wake.wait())
                    done, _ = await asyncio.wait(
                        {woken, stopping, *running}, timeout=poll, return_when=asyncio.FIRST_COMPLETED
                    )
                    woken.cancel()
                    running -= done
            if running:
                await asyncio.wait(running)
        finally:
            stopping.cancel()

    async def _claim(self, consumer: Consumer, limit: int, eager: bool) -> list[ClaimedReaction]:
        now = self._clock()
        try:
            if not await self._database.read(lambda c: due_queue.any_due(c, consumer.name, now, eager=eager)):
                return []
            self._shadows = frozenset(
                name
                for name, entry in (await self._store.registrations()).items()
                if entry.state is ConsumerState.SHADOW
            )
            return await self._database.write(
                lambda c: due_queue.claim(
                    c,
                    consumer.name,
                    limit,
                    worker=self._name,
                    now=now,
                    until=now + self._lease,
                    eager=eager,
                    crash_backoff=self._crash_backoff,
                )
            )
        except StoreError as error:
            telemetry.log("claim_failed", level=logging.ERROR, consumer=consumer.name, error=error_kind(error))
            return []

    def _crash_backoff(self, crashes: int) -> timedelta:
        """A worker takes down all that it runs, the guilty and the innocent. Chance draws them apart from the second
        death on, so that the innocent get to run without the one that kills.
        """
        if crashes < 2:
            return timedelta(0)
        longest = min(self._lease * float(2 ** (crashes - 1)), _MAX_CRASH_BACKOFF)
        return longest * self._chance.random()

    async def _run(self, consumer: Consumer, claimed: ClaimedReaction) -> None:
        window: ReactionWindow | None = None
        stamp: Stamp | None = None
        failure: Exception | None = None
        try:
            window = await self._store.window(claimed.conversation_id, consumer.name)
            if window is not None:
                if claimed.crashes >= MAX_CRASHES:
                    raise WorkerCrashed(f"{claimed.crashes} runs of {consumer.name!r} ended with their worker")
                stamp = await run_consumer(
                    consumer,
                    window,
                    claims=self._store,
                    policy=self._policy,
                    now=self._clock(),
                    attempt=claimed.attempt,
                    shadow=consumer.name in self._shadows,
                )
        except Exception as error:
            failure = error
        try:
            if failure is None:
                await self._finish(consumer, claimed, window, stamp)
            else:
                await self._fail(consumer, claimed, window, failure)
        except (LeaseLost, StoreError) as error:
            # The row keeps its lease and is claimed again when that ends.
            telemetry.log(
                "reaction_not_recorded",
                level=logging.ERROR,
                consumer=consumer.name,
                conversation_id=claimed.conversation_id,
                error=error_kind(error),
            )

    async def _finish(
        self, consumer: Consumer, claimed: ClaimedReaction, window: ReactionWindow | None, stamp: Stamp | None
    ) -> None:
        """The stamp and the end of the claim, in one transaction."""
        now = self._clock()

        def unit(connection: sqlite3.Connection) -> None:
            due_queue.finish(connection, claimed, consumer.debounce)
            if window is not None and stamp is not None:
                stamps.stamp(connection, claimed.conversation_id, consumer.name, stamp, window.through, now)

        await self._database.write(unit)
        report_success(consumer.name, stamped=stamp is not None)

    async def _fail(
        self, consumer: Consumer, claimed: ClaimedReaction, window: ReactionWindow | None, failure: Exception
    ) -> None:
        now = self._clock()
        last = claimed.attempt >= consumer.attempts or isinstance(failure, WorkerCrashed)
        delay = retry_delay(claimed.attempt, self._chance)

        def unit(connection: sqlite3.Connection) -> None:
            if not last or window is None:
                # A window that could not be read is nothing that the consumer did.
                due_queue.retry_later(connection, claimed, now + delay, counted=window is not None)
            elif due_queue.give_up(connection, claimed, consumer.debounce):
                stamps.fail(
                    connection, claimed.conversation_id, consumer.name, window.through, error_kind(failure), now
                )

        await self._database.write(unit)
        report_failure(consumer.name, claimed.conversation_id, claimed.attempt, failure, last=last)

    async def _renew(self) -> None:
        """Keep the leases of everything that runs here."""
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            held = list(self._held.values())
            extend = partial(due_queue.extend, held=held, until=self._clock() + self._lease)
            if held:
                try:
                    await self._database.write(extend)
                except StoreError as error:
                    telemetry.log("lease_not_renewed", level=logging.ERROR, error=error_kind(error), count=len(held))

    async def _cut_off(self) -> None:
        """Cancel what still runs, and give its claims back so that nobody waits for the leases to end."""
        cut = dict(self._held)
        for task in cut:
            task.cancel()
        await asyncio.gather(*cut, return_exceptions=True)
        if cut:
            now = self._clock()
            await self._database.write(partial(due_queue.give_back, cut=list(cut.values()), now=now))

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._held.pop(task, None)
        if not task.cancelled() and (error := task.exception()):
            telemetry.log("reaction_crashed", level=logging.ERROR, error=error_kind(error))
