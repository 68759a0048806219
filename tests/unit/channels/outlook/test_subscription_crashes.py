"""Whoever keeps a mailbox may die at any write: the next one goes on, and each mail comes in once."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.channels.outlook.graph_server import (
    HOUR,
    MINUTE,
    NOW,
    Exchange,
    OutlookRig,
    clock,
    exchange,
    lifecycle,
    mailbox_owner,
    settings_of,
)

from afterturn import App
from afterturn.bootstrap import open_backbone
from afterturn.bootstrap.channels import open_channels
from afterturn.channels.outlook.subscriptions import POLL_INTERVAL, RENEW_BELOW, MailboxState, actions_due
from afterturn.errors import StoreBusy
from afterturn.store.jobs import Job, LeasedJob
from afterturn.store.state import StateRecord, dump_state, load_state
from afterturn.testing import ManualClock

__all__ = ["clock", "exchange"]


class CrashingStore:
    """A store that is out from its ``last``-th record on; the record itself is written or not."""

    def __init__(self, store: Any, last: int, *, written: bool) -> None:
        self._store = store
        self.left = last
        self._written = written

    async def put(self, record: StateRecord) -> bool:
        written: bool = await self._write(self._store.put, record)
        return written

    async def add_jobs(self, jobs: Sequence[Job]) -> None:
        await self._write(self._store.add_jobs, jobs)

    async def complete(self, job: LeasedJob) -> bool:
        completed: bool = await self._write(self._store.complete, job)
        return completed

    async def _write(self, write: Callable[[Any], Awaitable[Any]], value: Any) -> Any:
        self.left -= 1
        if self.left == 0 and self._written:
            await write(value)
        if self.left <= 0:
            raise StoreBusy("out")
        return await write(value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("last", range(1, 16))
async def test_a_process_that_dies_at_any_write_is_followed_by_one_that_finishes(
    tmp_path: Path, exchange: Exchange, clock: ManualClock, last: int, written: bool
) -> None:
    async with mailbox_owner(tmp_path, exchange, clock) as rig:
        await rig.keep()
        exchange.deliver(1, clock() + MINUTE)
        exchange.subscriptions.clear()
        await rig.told(lifecycle("subscriptionRemoved"))
    clock.advance(2 * MINUTE)
    settings = settings_of(tmp_path, exchange)
    async with open_backbone(App(shipped=False), settings, clock=clock) as backbone:
        store: Any = CrashingStore(backbone.store, last, written=written)
        async with open_channels(backbone, store, settings, clock) as webhooks:
            dying = OutlookRig(exchange, backbone, clock, webhooks)
            with contextlib.suppress(StoreBusy):
                await dying.keep()
            clock.advance(11 * MINUTE)
    async with mailbox_owner(tmp_path, exchange, clock) as rig:
        exchange.deliver(2, clock())
        for _ in range(3):
            await rig.keep(HOUR)
        assert await rig.texts() == ["I am mail 1.", "I am mail 2."]
        known = [one for one in exchange.subscriptions if not exchange.ended(one)]
        assert 1 <= len(known) <= 2, "one may be lost whose making nobody wrote down"
        mail = exchange.deliver(3, clock())
        told = [
            {"subscriptionId": one, "changeType": "created", "resource": f"users/x/messages/{mail}"} for one in known
        ]
        await rig.told(*told)
        assert (await rig.texts())[2:] == ["I am mail 3."]


times = st.timedeltas(timedelta(days=-9), timedelta(days=9)).map(lambda span: NOW + span)
names = st.sampled_from(["sub-1", "sub-2"])
wishes = st.dictionaries(
    st.sampled_from(["reauthorize", "recreate", "resynchronize"]),
    st.tuples(names, st.sampled_from(["a", "b"])).map(" ".join),
)


@given(
    known=st.builds(
        lambda **fields: MailboxState(key="office@homes.example", **fields),
        received_to=times,
        polled_at=st.none() | times,
        subscription=st.none() | names,
        expires=st.none() | times,
        endpoint=st.sampled_from(["here", "there"]),
        handled=wishes,
    ),
    wanted=wishes,
)
def test_what_is_left_alone_is_in_order(known: MailboxState, wanted: dict[str, str]) -> None:
    todo = actions_due(known, wanted, "here", NOW)
    assert load_state(MailboxState, known.key, 0, dump_state(known)) == known
    assert not (todo.subscribe and todo.renew)
    if not todo.subscribe and not todo.renew:
        assert known.expires is not None
        assert known.expires - NOW >= RENEW_BELOW
        assert (known.subscription is not None, known.endpoint) == (True, "here")
        assert wanted.get("reauthorize") == known.handled.get("reauthorize") or "reauthorize" not in wanted
    if not todo.poll:
        assert known.polled_at is not None
        assert NOW - known.polled_at < POLL_INTERVAL
        assert wanted.get("resynchronize", "") == known.handled.get("resynchronize") or "resynchronize" not in wanted
