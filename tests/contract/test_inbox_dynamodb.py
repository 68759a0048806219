"""The inbox over DynamoDB, as the emulator has it, in each layout of its index."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.contract.inbox.pages import FilterContract, PageContract, clock, inbox
from tests.contract.test_store_dynamodb import DynamoFactory, factory
from tests.emulator import access, emulator, session
from tests.unit.aws.dynamodb_faults import DynamoFaults

from afterturn.store.port import Store

__all__ = ["access", "clock", "emulator", "factory", "inbox", "session"]


@pytest.fixture
async def store(factory: DynamoFactory) -> AsyncIterator[Any]:
    async with factory.open() as opened:
        made: Store = opened
        yield made


class TestDynamoPages(PageContract):
    walks = (7, 40)


class TestDynamoPagesByMonth(PageContract):
    layout = "monthly"
    walks = (40,)


class TestDynamoPagesInShards(PageContract):
    layout = "b/sharded:3"
    walks = (7, 40)


class TestDynamoPagesInTrouble(PageContract):
    """The same pages while AWS throttles, leaves keys unread and loses answers."""

    walks = (40,)
    trouble = DynamoFaults(seed=8, throttled=0.1, conflicting=0.1, unread=0.3, lost=0.1)


class TestDynamoFilters(FilterContract):
    pass


class TestDynamoFiltersInShards(FilterContract):
    layout = "b/sharded:3"
