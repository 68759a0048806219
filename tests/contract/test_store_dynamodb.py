"""The store contract on DynamoDB, as the emulator has it; every request is checked as strictly as AWS would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.contract.store.reading import ReadContract, RecencyContract
from tests.contract.store.shelf import Shelf
from tests.contract.store.stamping import StampContract, WindowContract
from tests.contract.store.writing import SavingContract, SettleContract
from tests.emulator import access, emulator, session  # noqa: F401

from afterturn.aws.session import Access, open_client
from afterturn.aws.table import INDEXES, table_definition
from afterturn.store.dynamodb import DynamoStore
from afterturn.store.port import Store

TABLE = "afterturn-test"


class DynamoShelf:
    """One table of one account."""

    def __init__(self, given: Access, loaded: Any) -> None:
        self._access = given
        self._session = loaded
        self._is_made = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        async with open_client("dynamodb", self._access, self._session) as client:
            if not self._is_made:
                await client.create_table(**table_definition(TABLE, INDEXES))
                self._is_made = True
            yield DynamoStore.on(client, TABLE)


@pytest.fixture
def shelf(access: Access, session: Any) -> Shelf:  # noqa: F811
    return DynamoShelf(access, session)


@pytest.fixture
async def store(shelf: Shelf) -> AsyncIterator[Store]:
    async with shelf.open() as opened:
        yield opened


class TestDynamoSettle(SettleContract):
    pass


class TestDynamoSaving(SavingContract):
    pass


class TestDynamoWindow(WindowContract):
    pass


class TestDynamoStamp(StampContract):
    pass


class TestDynamoRecency(RecencyContract):
    pass


class TestDynamoRead(ReadContract):
    pass
