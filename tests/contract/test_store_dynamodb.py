"""The store contract on DynamoDB, as the emulator has it; every request is checked as strictly as AWS would."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from tests.contract.samples import T0
from tests.contract.store.edits import EditContract
from tests.contract.store.factory import StoreFactory
from tests.contract.store.jobs import AddingContract, TakingContract
from tests.contract.store.patches import PatchContract, PatchedIndexContract
from tests.contract.store.previews import PreviewContract
from tests.contract.store.reads import ReadContract, RecencyContract
from tests.contract.store.reply_locks import AskingContract
from tests.contract.store.stamps import StampContract, WindowContract
from tests.contract.store.state import Expiring, FirstWins, OptOutContract, StateContract
from tests.contract.store.turns import SavingContract, SettleContract
from tests.contract.store.work_orders import CloseContract
from tests.emulator import access, emulator, session  # noqa: F401
from tests.unit.aws.dynamodb_faults import DynamoFaults
from tests.unit.aws.strict import StrictDynamo

from afterturn.aws.errors import Backoff
from afterturn.aws.session import Access, open_client
from afterturn.aws.table import INDEXES, TTL_ATTRIBUTE, Index, table_definition
from afterturn.store.dynamodb import DynamoStore, RecencyLayouts, SlotLayout
from afterturn.store.port import Store

TABLE = "afterturn-test"


class DynamoFactory:
    """One table of one account."""

    def __init__(
        self, given: Access, loaded: Any, trouble: DynamoFaults | None = None, layouts: RecencyLayouts | None = None
    ) -> None:
        self._access = given
        self._session = loaded
        self._trouble = trouble
        self._layouts = layouts or RecencyLayouts()
        self._is_made = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        definition = table_definition(TABLE, _indexes(self._layouts))
        async with open_client("dynamodb", self._access, self._session) as client:
            if not self._is_made:
                await client.create_table(**definition)
                self._is_made = True
            StrictDynamo(definition).watch(client)
            if self._trouble is not None:
                self._trouble.befall(client)
            backoff = Backoff(base=0.001, cap=0.02, chance=random.Random(7))
            yield DynamoStore.on(client, TABLE, backoff=backoff, layouts=self._layouts)


def _indexes(layouts: RecencyLayouts) -> Sequence[Index]:
    return list({index.name: index for index in (*INDEXES, *layouts.indexes)}.values())


@pytest.fixture
def factory(request: pytest.FixtureRequest, access: Access, session: Any) -> StoreFactory:  # noqa: F811
    """As the class that asks for it wants it."""
    slot_layout = getattr(request.cls, "layout", None)
    layouts = (
        None if slot_layout is None else RecencyLayouts(SlotLayout.parse(slot_layout), (SlotLayout.parse(slot_layout),))
    )
    return DynamoFactory(access, session, getattr(request.cls, "trouble", None), layouts)


@pytest.fixture
async def store(factory: StoreFactory) -> AsyncIterator[Store]:
    async with factory.open() as opened:
        yield opened


class TestDynamoSettle(SettleContract):
    pass


class TestDynamoSaving(SavingContract):
    pass


class TestDynamoWindow(WindowContract):
    pass


class TestDynamoStamp(StampContract):
    pass


class TestDynamoState(StateContract):
    async def test_a_record_tells_dynamodb_when_it_expires(self, access: Access, session: Any) -> None:  # noqa: F811
        """By the attribute that the table's TTL is set to; a record without a time to live has none."""
        definition = table_definition(TABLE)
        async with open_client("dynamodb", access, session) as client:
            await client.create_table(**definition)
            store = DynamoStore.on(client, TABLE, clock=lambda: T0)
            await store.put_all([Expiring(key="k"), FirstWins(key="k")])
            found = (await client.scan(TableName=TABLE))["Items"]
        until = {item["PK"]["S"]: item.get(TTL_ATTRIBUTE, {}).get("N") for item in found}
        assert until == {
            "STATE#expiring": str(int((T0 + timedelta(days=1)).timestamp()) + 1),
            "STATE#first": None,
        }


class TestDynamoOptOuts(OptOutContract):
    pass


class TestDynamoJobsAdded(AddingContract):
    pass


class TestDynamoJobsTaken(TakingContract):
    pass


class TestDynamoEdits(EditContract):
    pass


class TestDynamoPreview(PreviewContract):
    pass


class TestDynamoPatch(PatchContract):
    pass


class TestDynamoPatchedIndex(PatchedIndexContract):
    pass


class TestDynamoPatchedIndexByMonth(PatchedIndexContract):
    layout = "monthly"


class TestDynamoPatchedIndexInShards(PatchedIndexContract):
    layout = "b/sharded:3"


class TestDynamoClose(CloseContract):
    pass


class TestDynamoRecency(RecencyContract):
    pass


class TestDynamoRecencyByMonth(RecencyContract):
    layout = "monthly"


class TestDynamoRecencyInShards(RecencyContract):
    layout = "b/sharded:3"


class TestDynamoRead(ReadContract):
    pass


class TestDynamoSettleInTrouble(SettleContract):
    """The same promises while AWS throttles, refuses, leaves keys unread and loses answers."""

    trouble = DynamoFaults(seed=1, throttled=0.1, conflicting=0.1, unread=0.3, lost=0.1)


class TestDynamoStampInTrouble(StampContract):
    """As above."""

    trouble = DynamoFaults(seed=2, throttled=0.1, conflicting=0.1, unread=0.3, lost=0.1)


class TestDynamoStateInTrouble(StateContract):
    """As above."""

    trouble = DynamoFaults(seed=3, throttled=0.1, conflicting=0.1, unread=0.3, lost=0.1)


class TestDynamoJobsAddedInTrouble(AddingContract):
    """As above."""

    trouble = DynamoFaults(seed=4, throttled=0.1, conflicting=0.1, unread=0.3, lost=0.1)


class TestDynamoJobsTakenInTrouble(TakingContract):
    """As above."""

    trouble = DynamoFaults(seed=5, throttled=0.1, conflicting=0.1, unread=0.3, lost=0.1)


class TestDynamoEditsInTrouble(EditContract):
    """As above."""

    trouble = DynamoFaults(seed=6, throttled=0.1, conflicting=0.1, unread=0.3, lost=0.1)


class TestDynamoPatchInTrouble(PatchContract):
    """As above."""

    trouble = DynamoFaults(seed=7, throttled=0.1, conflicting=0.1, unread=0.3, lost=0.1)


class TestDynamoCloseInTrouble(CloseContract):
    """As above."""

    trouble = DynamoFaults(seed=8, throttled=0.1, conflicting=0.1, unread=0.3, lost=0.1)


class TestDynamoAsking(AskingContract):
    pass
