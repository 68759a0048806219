"""A change of the recency index's layout, with writers and readers at work, cut off again and again."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.emulator import access, emulator, session  # noqa: F401
from tests.faults.index_life import (
    DEV,
    KEYS,
    QUICK,
    SOON,
    TABLE,
    Writers,
    fill,
    make_table,
    of,
    old_row,
    read_all,
    rows_of,
    store_on,
    strict_account,
)

from afterturn.aws.account import Account
from afterturn.aws.indexes import TableIndexes
from afterturn.aws.session import Access
from afterturn.aws.table import RECENCY, RECENCY_B
from afterturn.errors import StoreBusy
from afterturn.store.dynamodb import DynamoStore, RecencyLayouts, layout_change
from afterturn.store.dynamodb.backfill import BackfillOptions, Tally, layout
from afterturn.store.dynamodb.layout import Layout
from afterturn.store.dynamodb.layout_change import LayoutChange, LayoutChangeOptions, LayoutIncomplete, Stage
from afterturn.store.dynamodb.table import Table
from afterturn.store.dynamodb.verify import IndexReport, Rechecks, verify


@pytest.fixture
async def account(access: Access, session: Any) -> AsyncIterator[Account]:  # noqa: F811
    async with strict_account(access, session) as opened:
        yield opened


@pytest.fixture
def indexes(account: Account) -> TableIndexes:
    return TableIndexes(account, DEV, QUICK)


@pytest.fixture
def client(account: Account) -> Any:
    return account.dynamodb


class TestLayoutChange:
    rows = 1_000 if os.environ.get("AFTERTURN_TEST_THOROUGH") else 250

    @pytest.mark.thorough
    async def test_no_read_misses_a_row_at_any_stage_and_what_is_cut_off_goes_on(
        self, account: Account, indexes: TableIndexes, client: Any
    ) -> None:
        """To shards and on to months, with writers and readers at work, cut off again and again."""
        table = await make_table(account)
        await fill(client, [old_row(number, keyed=True) for number in range(self.rows)])
        names = {f"old-{number:05}" for number in range(self.rows)}
        writers = Writers(store_on(table), sorted(names), seed=11)
        reader = Readers(store_on(table), names, writers)
        tasks = [asyncio.create_task(writers.run(0.05)), asyncio.create_task(reader.run())]
        chance = random.Random(4)
        stages: list[Stage] = []
        for wanted in ("sharded:4", "monthly"):
            await self.change_with_cuts(table, indexes, wanted, chance, stages)
            assert all(not task.done() for task in tasks)
            await self.is_settled(table, indexes, client, wanted, writers)
        writers.stop()
        reader.stop()
        await asyncio.gather(*tasks)
        assert {*stages} == {Stage.BOTH, Stage.FLIPPED, Stage.DROPPING, Stage.SETTLED}
        assert reader.reads > 20
        assert await read_all(store_on(table)) == names | writers.settled.keys()

    async def change_with_cuts(
        self, table: Table, indexes: TableIndexes, wanted: str, chance: random.Random, stages: list[Stage]
    ) -> None:
        options = LayoutChangeOptions(
            drain=timedelta(seconds=1), backfill=BackfillOptions(write=True, page=50), rechecks=SOON
        )
        for cut in range(1_000):
            change = LayoutChange(table, indexes, options, report=lambda state, activity: stages.append(state.stage))
            working = asyncio.create_task(change.carry_out(Layout.parse(wanted)))
            await asyncio.wait([working], timeout=chance.uniform(0.2, 1.5) if cut < 6 else None)
            if working.done():
                await working
                return
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working

    async def is_settled(self, table: Table, indexes: TableIndexes, client: Any, wanted: str, writers: Writers) -> None:
        state = await LayoutChange(table, indexes).state()
        assert (state.stage, str(state.layouts.read.layout)) == (Stage.SETTLED, wanted)
        assert state.layouts.write == (state.layouts.read,)
        own = state.layouts.read.slot.table_index
        assert (await verify(table, await of(table, own), rechecks=SOON)).clean
        unused = RECENCY if own is RECENCY_B else RECENCY_B
        assert not [one for one in (await rows_of(client)).values() if unused.pk in one or unused.sk in one]
        described = (await client.describe_table(TableName=TABLE))["Table"]
        there = {one["IndexName"] for one in described["GlobalSecondaryIndexes"]}
        assert (RECENCY_B.name in there) is (own is RECENCY_B)

    async def test_a_change_can_be_taken_back_before_and_after_the_flip(
        self, account: Account, indexes: TableIndexes, client: Any
    ) -> None:
        table = await make_table(account)
        await fill(client, [old_row(number, keyed=True) for number in range(20)])
        before = {name: [row.get(key) for key in KEYS] for name, row in (await rows_of(client)).items()}
        store = store_on(table, timedelta(0))
        for until in (Stage.BOTH, Stage.FLIPPED):
            options = LayoutChangeOptions(until=until, drain=timedelta(0), rechecks=SOON)
            state = await LayoutChange(table, indexes, options).carry_out(Layout.parse("sharded:3"))
            assert state.stage is until
            assert len(await read_all(store)) == 20
            assert await LayoutChange(table, indexes, options).carry_out(Layout.parse("sharded:3")) == state
            back = await LayoutChange(table, indexes, replace(options, until=Stage.SETTLED)).carry_out(
                Layout.parse("single")
            )
            assert (back.stage, back.layouts) == (Stage.SETTLED, RecencyLayouts())
            assert len(await read_all(store)) == 20
            after = {name: [row.get(key) for key in KEYS] for name, row in (await rows_of(client)).items()}
            assert after == before

    async def test_the_reader_is_not_flipped_to_what_is_not_whole(
        self, account: Account, indexes: TableIndexes, client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = await make_table(account)
        await fill(client, [old_row(number, keyed=True) for number in range(5)])

        async def stamps_nothing(*given: Any, **named: Any) -> Tally:
            return Tally()

        monkeypatch.setattr(layout_change, "backfill", stamps_nothing)
        options = LayoutChangeOptions(drain=timedelta(0), rechecks=Rechecks((0,)))
        with pytest.raises(LayoutIncomplete, match=r"holds 0 of 5 rows.*readers keep the old layout"):
            await LayoutChange(table, indexes, options).carry_out(Layout.parse("sharded:2"))
        assert str((await layout(table)).read) == "a/single"

    async def test_two_people_cannot_change_it_at_once(
        self, account: Account, indexes: TableIndexes, client: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = await make_table(account)
        await fill(client, [old_row(number, keyed=True) for number in range(3)])
        options = LayoutChangeOptions(until=Stage.BOTH, drain=timedelta(0), rechecks=SOON)
        change = LayoutChange(table, indexes, options)

        async def meanwhile(*given: Any, **named: Any) -> IndexReport:
            monkeypatch.undo()
            await LayoutChange(table, indexes, replace(options, until=Stage.FLIPPED)).carry_out(
                Layout.parse("sharded:2")
            )
            return await verify(*given, **named)

        monkeypatch.setattr(layout_change, "verify", meanwhile)
        with pytest.raises(StoreBusy, match="somebody else"):
            await LayoutChange(table, indexes, replace(options, until=Stage.FLIPPED)).carry_out(
                Layout.parse("sharded:2")
            )
        assert (await change.state()).stage is Stage.FLIPPED


class Readers:
    """Reads everything, over and over: whatever was there before a read began has to come.

    All but what moved to the top meanwhile: a read of several months, newest first, has passed by there already.
    """

    def __init__(self, store: DynamoStore, names: set[str], writers: Writers) -> None:
        self.reads = 0
        self._store = store
        self._names = names
        self._writers = writers
        self._stop = asyncio.Event()

    async def run(self) -> None:
        while not self._stop.is_set():
            known = self._names | self._writers.settled.keys()
            begun = max(self._writers.number - 1, 0)
            missed = known - await read_all(self._store) - set(self._writers.touched[begun:])
            assert not missed, f"read {self.reads} missed {sorted(missed)[:5]}"
            self.reads += 1
            await asyncio.sleep(0.05)

    def stop(self) -> None:
        self._stop.set()
