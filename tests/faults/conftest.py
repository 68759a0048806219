"""Fixtures of the fault tests: a file, a DynamoDB store, and the SQS stream over the strict FIFO model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.machines import fast_folder
from tests.contract.samples import T0
from tests.contract.test_store_dynamodb import DynamoFactory
from tests.emulator import access, emulator, session  # noqa: F401
from tests.faults.rig import FlakyEngine
from tests.fifo import FifoService, fifo_stream

from afterturn.aws.session import Access
from afterturn.store.port import Store
from afterturn.stream.sqs import SqsStream
from afterturn.testing import ManualClock


@pytest.fixture
def path() -> Iterator[Path]:
    with fast_folder() as folder:
        yield folder / "afterturn.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(T0)


@pytest.fixture
def service(clock: ManualClock) -> FifoService:
    return FifoService(clock)


@pytest.fixture
def stream(service: FifoService, clock: ManualClock) -> SqsStream:
    return fifo_stream(service, clock)


@pytest.fixture
def engine() -> FlakyEngine:
    return FlakyEngine()


@pytest.fixture
async def dynamodb(access: Access, session: Any) -> AsyncIterator[Store]:  # noqa: F811
    async with DynamoFactory(access, session).open() as store:
        yield store
