"""The stream contract on the SQS stream over the emulator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.contract.fifo_emulator import SharedClock, create_queues, emulator_on
from tests.contract.samples import T0
from tests.contract.stream import (
    VISIBLE,
    RedriveContract,
    StreamContract,
    event,
    name_of,
    names,
    publish,
    receive,
    wear_out,
)
from tests.contract.stream_emissions import check_emissions
from tests.emulator import access, session  # noqa: F401

from afterturn.aws.session import Access, open_client
from afterturn.errors import StreamUnavailable
from afterturn.stream.port import MAX_RECEIVES, Depth, Queue, Stream
from afterturn.stream.sqs import QueueUrls, SqsStream, open_publisher, open_stream
from afterturn.testing import ManualClock


@pytest.fixture(scope="module")
def shared_clock(tmp_path_factory: pytest.TempPathFactory) -> SharedClock:
    return SharedClock(tmp_path_factory.mktemp("clock") / "time")


@pytest.fixture(scope="module")
def emulator(shared_clock: SharedClock) -> Iterator[str]:
    with emulator_on(shared_clock.path) as endpoint:
        yield endpoint


@pytest.fixture
def clock(shared_clock: SharedClock) -> SharedClock:
    return shared_clock.restart()


@pytest.fixture
async def stream(clock: SharedClock, access: Access, session: Any) -> AsyncIterator[Stream]:  # noqa: F811
    async with open_client("sqs", access, session) as client:
        yield SqsStream(client, await create_queues(client), clock)


class TestSqsStream(StreamContract):
    """SQS does not tell the age of records; and where the emulator is laxer, the strict model has the word."""

    async def test_a_stale_receipt_is_ignored(self, stream: Stream, clock: ManualClock) -> None:
        await publish(stream, "a@1")
        (stale,) = await receive(stream)
        clock.advance(VISIBLE)
        (current,) = await receive(stream)
        await stream.ack([stale.receipt])
        await stream.release([stale.receipt], after=timedelta(0))
        await stream.dead_letter(stale, reason="stale")
        assert not await receive(stream)
        assert await stream.depth() == Depth(main=1, retry=0, dead_letters=0, oldest=None)
        clock.advance(VISIBLE)
        (again,) = await receive(stream)
        assert again.receives == current.receives + 1

    async def test_a_record_that_is_received_too_often_dies(self, stream: Stream, clock: ManualClock) -> None:
        """The emulator keeps the time of sending when it moves a record."""
        await publish(stream, "a@1", "a@2")
        clock.advance(timedelta(seconds=1))
        await wear_out(stream, clock)
        assert names(await receive(stream)) == ["a@2"]
        (letter,) = await stream.dead_letters(limit=10)
        assert (name_of(letter), letter.receives, letter.queue, letter.group) == ("a@1", MAX_RECEIVES, Queue.MAIN, "a")
        assert letter.published_at == T0
        assert "5 times" in letter.reason

    async def test_an_event_that_waits_is_not_doubled(self, stream: Stream) -> None:
        await check_emissions(stream)

    async def test_depth_counts_what_waits_and_what_is_in_flight(self, stream: Stream, clock: ManualClock) -> None:
        await publish(stream, "a@1", "b@1")
        await publish(stream, "a@1", consumer="topics")
        assert await stream.depth() == Depth(main=2, retry=1, dead_letters=0, oldest=None)
        for one in await receive(stream):
            await stream.dead_letter(one, reason="x")
        assert await stream.depth() == Depth(main=0, retry=1, dead_letters=2, oldest=None)

    async def test_a_queue_that_is_missing_is_named(self, access: Access, session: Any, clock: ManualClock) -> None:  # noqa: F811
        nowhere = f"{access.endpoint}/{access.access_key}/afterturn-prod-events.fifo"
        async with open_client("sqs", access, session) as client:
            stream = SqsStream(client, QueueUrls(nowhere, nowhere, nowhere, nowhere), clock)
            with pytest.raises(StreamUnavailable, match=r"afterturn-prod-events.fifo does not exist; check lane"):
                await stream.publish(event("a", 1))
            with pytest.raises(StreamUnavailable, match="does not exist"):
                await receive(stream)

    async def test_a_service_that_is_not_there_is_told(self, session: Any, clock: ManualClock) -> None:  # noqa: F811
        closed = Access(region="us-east-1", endpoint="http://127.0.0.1:1", access_key="1", secret_key="x", attempts=1)
        async with open_client("sqs", closed, session) as client:
            stream = SqsStream(client, QueueUrls(*["http://127.0.0.1:1/1/events.fifo"] * 4), clock)
            with pytest.raises(StreamUnavailable, match=r"events.fifo cannot be reached"):
                await stream.publish(event("a", 1))

    async def test_a_stream_brings_clients_of_its_own(self, access: Access, session: Any, clock: ManualClock) -> None:  # noqa: F811
        async with open_client("sqs", access, session) as client:
            queues = await create_queues(client)
        async with open_publisher(access, queues, clock, session=session) as publisher:
            await publisher.publish(event("a", 1))
        async with open_stream(access, queues, clock, wait=timedelta(0), session=session) as stream:
            await publish(stream, "a@2")
            batch = await receive(stream)
            assert names(batch) == ["a@1", "a@2"]
            await stream.ack([one.receipt for one in batch])
            assert (await stream.depth()).main == 0


class TestSqsRedrive(RedriveContract):
    pass
