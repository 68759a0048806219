"""The stream contract on the SQS stream over the strict FIFO model."""

from __future__ import annotations

import pytest
from tests.contract.fifo_model import fifo_stream
from tests.contract.samples import T0
from tests.contract.stream import RedriveContract, StreamContract
from tests.contract.stream_emissions import check_emissions

from afterturn.stream.port import Stream
from afterturn.testing import ManualClock
from afterturn.testing.fifo import FifoService


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(T0)


@pytest.fixture
def stream(clock: ManualClock) -> Stream:
    return fifo_stream(FifoService(clock), clock)


class TestModelStream(StreamContract):
    async def test_an_event_that_waits_is_not_doubled(self, stream: Stream) -> None:
        await check_emissions(stream)


class TestModelRedrive(RedriveContract):
    pass
