"""The life of an index: added, filled while the table is in use, killed half-way, resumed, verified, changed.

F22, F40, F41 and F46 on the emulator, with the states of AWS that it does not have put in.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from tests.cli.command import run, start
from tests.contract.samples import at, message, turn
from tests.emulator import access, emulator, session  # noqa: F401
from tests.faults.index_life import (
    BROKEN,
    DEV,
    QUICK,
    SOON,
    TABLE,
    CreatingIndex,
    Writers,
    broken_rows,
    fill,
    make_table,
    of,
    old_row,
    old_time,
    read_all,
    rows_of,
    store_on,
    strict_account,
)
from tests.unit.aws.dynamodb_faults import DynamoFaults

from afterturn.aws.account import Account
from afterturn.aws.indexes import IndexAction, TableIndexes
from afterturn.aws.session import Access, open_client
from afterturn.aws.table import INDEXES, RECENCY, RECENCY_B, check_description
from afterturn.clock import to_text
from afterturn.errors import StoreBusy
from afterturn.store.dynamodb import SlotLayout, keys
from afterturn.store.dynamodb.backfill import BackfillOptions, Through, backfill
from afterturn.store.dynamodb.index_keys import IndexTarget
from afterturn.store.dynamodb.requests import delete
from afterturn.store.dynamodb.table import Table
from afterturn.store.dynamodb.verify import Drift, Rechecks, verify

CONVERSATIONS = 5_000 if os.environ.get("AFTERTURN_TEST_THOROUGH") else 1_500


@pytest.fixture
async def account(access: Access, session: Any) -> AsyncIterator[Account]:  # noqa: F811
    async with strict_account(access, session) as opened:
        yield opened


@pytest.fixture
def client(account: Account) -> Any:
    return account.dynamodb


class TestIndex:
    @pytest.mark.thorough
    async def test_added_filled_under_load_killed_resumed_and_verified(
        self,
        account: Account,
        client: Any,
        access: Access,  # noqa: F811
    ) -> None:
        table = await make_table(account, RECENCY)
        old = [old_row(number, keyed=number % 3 == 0) for number in range(CONVERSATIONS)]
        await fill(client, [*old, *broken_rows()])
        store = store_on(table)

        building = CreatingIndex()
        building.befall(account)
        adding = asyncio.create_task(TableIndexes(account, DEV, QUICK).add(RECENCY))
        await building.is_under_way.wait()
        described = (await client.describe_table(TableName=TABLE))["Table"]
        assert described["TableStatus"] == "ACTIVE"
        with pytest.raises(StoreBusy, match="still being filled"):
            check_description(described)
        assert await adding is IndexAction.CREATE
        assert await TableIndexes(account, DEV, QUICK).add(RECENCY) is IndexAction.NOTHING
        assert building.updates == 1

        before = await verify(table, await of(table, RECENCY), rechecks=SOON)
        unkeyed = {f"old-{number:05}" for number in range(CONVERSATIONS) if number % 3}
        assert {each.name for each in before.differences} == unkeyed

        writers = Writers(store, [f"old-{number:05}" for number in range(CONVERSATIONS)], seed=3)
        writing = asyncio.create_task(writers.run())
        gone = [f"old-{number:05}" for number in range(1, CONVERSATIONS, 97)]
        deleting = asyncio.create_task(self.delete_slowly(table, gone))
        await asyncio.to_thread(self.kill_half_way, access)
        assert 0 < (await self.checkpoint(table))["looked"] < CONVERSATIONS
        done = await asyncio.to_thread(run, *self.words("--page", 200), "--json", env=credentials(access))
        await deleting
        writers.stop()
        await writing

        assert done.code == 1, done.err
        assert done.json["resumed"] is True
        assert {one["id"] for one in done.json["problems"]} == BROKEN.keys()
        assert await table.get(keys.operation(f"backfill {RECENCY.name}")) is None

        report = await verify(table, await of(table, RECENCY), rechecks=SOON)
        assert report.clean, report.differences
        assert {each.name for each in report.problems} == BROKEN.keys()
        assert report.indexed == report.rows - len(BROKEN)
        await self.nothing_was_undone(client, writers, set(gone))
        rows = await rows_of(client)
        assert await read_all(store) == rows.keys() - BROKEN.keys()

        again = await asyncio.to_thread(run, *self.words("--page", 1000), "--json", env=credentials(access))
        assert (again.json["stamped"], again.json["resumed"]) == (0, False)
        checked = await asyncio.to_thread(
            run, "aws", "index", "verify", RECENCY.name, *where(access), "--json", env=credentials(access)
        )
        assert (checked.code, checked.json["clean"]) == (0, True), checked.err

    @staticmethod
    def words(*more: object) -> list[object]:
        return ["aws", "index", "backfill", RECENCY.name, "--confirm-table", TABLE, *more]

    def kill_half_way(self, given: Access) -> None:
        """SIGKILL, once a good part is on record as done."""
        words = self.words("--page", 40, "--rate", 300)
        with start(*words, *where(given), env=credentials(given)) as process:
            asyncio.run(self.until_looked(given, CONVERSATIONS // 3))
            assert process.poll() is None
            process.send_signal(signal.SIGKILL)

    async def until_looked(self, given: Access, wanted: int) -> None:
        async with open_client("dynamodb", given) as client:
            table = Table(client, TABLE)
            looked = 0
            while looked < wanted:
                await asyncio.sleep(0.05)
                looked = (await self.checkpoint(table))["looked"]

    @staticmethod
    async def checkpoint(table: Table) -> dict[str, Any]:
        item = await table.get(keys.operation(f"backfill {RECENCY.name}"))
        return {"looked": 0} if item is None else dict(json.loads(item["tally"]))

    @staticmethod
    async def delete_slowly(table: Table, names: list[str]) -> None:
        for name in names:
            await table.write(delete(keys.meta(name)))
            await asyncio.sleep(0.05)

    @staticmethod
    async def nothing_was_undone(client: Any, writers: Writers, gone: set[str]) -> None:
        rows = await rows_of(client)
        for name, settled_at in writers.settled.items():
            item = rows.get(name)
            if item is None:
                assert name in gone
                continue
            assert item["settledAt"] == to_text(settled_at)
            assert item["GSI5SK"] == keys.recency(settled_at, name) == f"{item['lastMessageAt']}#{name}"
        for name in gone - writers.settled.keys():
            assert name not in rows


def where(given: Access) -> list[object]:
    return ["--lane", "dev", "--endpoint-url", given.endpoint, "--region", given.region]


def credentials(given: Access) -> Mapping[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": str(given.access_key),
        "AWS_SECRET_ACCESS_KEY": "test",
        "AFTERTURN_AWS_ENDPOINT_URL": str(given.endpoint),
        "AFTERTURN_AWS_REGION": str(given.region),
        "AFTERTURN_LANE": "dev",
    }


class TestBackfill:
    @pytest.mark.parametrize("through", Through)
    async def test_a_live_write_between_read_and_write_stays_and_a_deleted_row_stays_deleted(
        self, account: Account, client: Any, monkeypatch: pytest.MonkeyPatch, through: Through
    ) -> None:
        """F22: the backfill has read c0 at T1; a turn moves c0 to T2, and c1 is deleted; only then it writes."""
        table = await make_table(account)
        items = [old_row(number, keyed=True) for number in range(4)]
        for item in items:
            for key in ("GSI5PK", "GSI5SK"):
                del item[key]
        await fill(client, items)
        store = store_on(table)
        reading = Table.scan if through is Through.SCAN else Table.get_many
        met = 0

        async def then_somebody_writes(self: Table, *given: Any, **named: Any) -> Any:
            nonlocal met
            found = await reading(self, *given, **named)
            met += 1
            if met == 1:
                await store.settle(turn("old-00000", message("m1", 60)), now=at(60), emitter="worker")
                await table.write(delete(keys.meta("old-00001")))
            return found

        monkeypatch.setattr(Table, reading.__name__, then_somebody_writes)
        tally = await backfill(table, await of(table, RECENCY), BackfillOptions(write=True, through=through))
        monkeypatch.undo()
        assert met
        assert (tally.rows, tally.right, tally.stamped, tally.gone) == (4, 1, 2, 1)
        rows = await rows_of(client)
        assert rows.keys() == {"old-00000", "old-00002", "old-00003"}
        assert rows["old-00000"]["lastMessageAt"] == to_text(at(60))
        assert rows["old-00000"]["GSI5SK"] == keys.recency(at(60), "old-00000")
        assert [one.id for one in await store.messages("old-00000")] == ["m1"]

    async def test_without_confirmation_it_only_counts(self, account: Account, client: Any) -> None:
        table = await make_table(account)
        await fill(client, [*(old_row(number, keyed=number % 2 == 0) for number in range(10)), *broken_rows()])
        before = await rows_of(client)
        tally = await backfill(table, await of(table, RECENCY), BackfillOptions(write=False, page=3))
        assert (tally.rows, tally.right, tally.stamped, tally.problem_count) == (15, 5, 5, 5)
        assert await rows_of(client) == before
        assert await table.get(keys.operation(f"backfill {RECENCY.name}")) is None

    @pytest.mark.parametrize("index", INDEXES, ids=lambda index: index.name)
    async def test_every_index_is_filled_in_trouble_too(self, account: Account, client: Any, index: Any) -> None:
        """AWS throttles, refuses and loses answers; nothing is left out and nothing is written twice."""
        table = await make_table(account)
        await fill(client, [old_row(number, keyed=False) for number in range(60)])
        await store_on(table).settle(turn("c1", message("m1", 1)), now=at(2), emitter="worker")
        trouble = DynamoFaults(seed=5, throttled=0.1, conflicting=0.1, lost=0.1)
        trouble.befall(client)
        target = await of(table, index)
        await backfill(table, target, BackfillOptions(write=True, page=25))
        assert (await backfill(table, target, BackfillOptions(write=True))).stamped == 0
        assert (await verify(table, target, rechecks=SOON)).clean
        assert trouble.seen["lost"]

    async def test_a_change_of_layout_meanwhile_stops_it(self, account: Account, client: Any) -> None:
        table = await make_table(account)
        stale = IndexTarget(RECENCY_B, SlotLayout.parse("b/sharded:2"))
        with pytest.raises(StoreBusy, match="changed meanwhile"):
            await backfill(table, stale, BackfillOptions(write=True))


class TestStopping:
    async def test_ctrl_c_loses_nothing_and_says_how_to_go_on(
        self,
        account: Account,
        client: Any,
        access: Access,  # noqa: F811
    ) -> None:
        table = await make_table(account)
        await fill(client, [old_row(number, keyed=False) for number in range(150)])
        words = ["aws", "index", "backfill", RECENCY.name, "--confirm-table", TABLE, "--json"]

        async def stopped() -> tuple[int, bytes, bytes]:
            with start(*words, "--page", 5, "--rate", 5, env=credentials(access)) as process:
                looked = 0
                while not looked:
                    await asyncio.sleep(0.02)
                    looked = (await TestIndex.checkpoint(table))["looked"]
                process.send_signal(signal.SIGINT)
                out, err = await asyncio.to_thread(process.communicate)
            return process.returncode, out, err

        code, out, err = await stopped()
        assert (code, out) == (130, b"")
        assert b"Run the same command again to continue" in err
        assert b"Traceback" not in err
        done = await asyncio.to_thread(run, *words, env=credentials(access))
        assert (done.code, done.json["resumed"], done.json["rows"]) == (0, True, 150)
        assert (await verify(table, await of(table, RECENCY), rechecks=SOON)).clean


class TestVerify:
    async def test_every_page_is_read_and_every_difference_named(self, account: Account, client: Any) -> None:
        """F46: eight rows of which two are wrong, one on the last page, with two rows a page."""
        table = await make_table(account)
        items = [old_row(number, keyed=True) for number in range(8)]
        items[1]["GSI5SK"] = {"S": keys.recency(old_time(99), "old-00001")}
        del items[7]["GSI5SK"]
        stray = {**old_row(8, keyed=True), "SK": {"S": "NOTE"}}
        await fill(client, [*items, stray])
        report = await verify(table, await of(table, RECENCY), page=2, rechecks=SOON)
        assert (report.rows, report.expected, report.indexed) == (8, 8, 6)
        assert {each.name: each.drift for each in report.differences} == {
            "old-00001": Drift.MISPLACED,
            "old-00007": Drift.MISSING,
            "old-00008": Drift.STRAY,
        }
        assert not report.clean

    async def test_an_index_that_is_missing_is_named(self, account: Account, client: Any, access: Access) -> None:  # noqa: F811
        await make_table(account, RECENCY)
        done = await asyncio.to_thread(run, "aws", "index", "verify", RECENCY.name, env=credentials(access))
        assert (done.code, done.out) == (4, "")
        assert f"has no index {RECENCY.name}; add it with `afterturn aws index add {RECENCY.name}`" in done.err

    async def test_what_is_only_late_is_no_difference(self, account: Account, client: Any) -> None:
        table = await make_table(account)
        await fill(client, [old_row(number, keyed=True) for number in range(8)])
        trouble = DynamoFaults(lagging={keys.conversation("old-00003")})
        trouble.befall(client)
        client.meta.events.register("before-parameter-build.dynamodb.Scan", trouble._note_index)
        pauses: list[float] = []

        async def catch_up(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                trouble.lagging.clear()

        report = await verify(table, await of(table, RECENCY), rechecks=Rechecks((0, 1, 2, 4), catch_up))
        assert report.clean
        assert pauses == [0, 1, 2]
        trouble.lagging.add(keys.conversation("old-00003"))
        assert not (await verify(table, await of(table, RECENCY), rechecks=Rechecks((0, 1), catch_up))).clean

    async def test_drift_exits_3_with_json_alone_on_stdout(self, account: Account, client: Any, access: Access) -> None:  # noqa: F811
        await make_table(account)
        await fill(client, [old_row(number, keyed=number != 2) for number in range(4)])
        done = await asyncio.to_thread(
            run, "aws", "index", "verify", RECENCY.name, *where(access), "--json", env=credentials(access)
        )
        assert done.code == 3, done.err
        assert done.json["differences"] == [{"id": "old-00002", "drift": "missing"}]
        assert (done.json["rows"], done.json["indexed"]) == (4, 3)
