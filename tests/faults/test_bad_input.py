"""Bad input on the production path: a clear error, or a dead letter with its reason, and nothing lost."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.contract.fifo_emulator import create_queues
from tests.contract.samples import T0, at
from tests.contract.stream import event, names, publish, receive, wear_out
from tests.emulator import access, emulator, session  # noqa: F401
from tests.faults.rig import LEASE, FlakyEngine, open_rig, registry_of
from tests.faults.test_bridge_lambda import EventSourceMapping
from tests.fifo import FifoService, fifo_stream

from afterturn.aws.session import Access, open_client
from afterturn.bridge.aws_lambda import respond
from afterturn.bridge.bridge import Bridge
from afterturn.reactions.port import Signal
from afterturn.stream.port import Queue, Stream
from afterturn.stream.sqs import SqsStream
from afterturn.stream.sqs.records import legal_id
from afterturn.testing import ManualClock


def changed(**changes: Any) -> str:
    """An event with other keys; None takes one away."""
    body = json.loads(event("a", 2).to_json()) | changes
    return json.dumps({key: value for key, value in body.items() if value is not None})


ODD = {
    "newer": (changed(eventVersion=2), "is newer than 1"),
    "older": (changed(eventVersion=0), "eventVersion"),
    "another event": (changed(eventType="conversation.closed"), "eventType"),
    "without a key": (changed(channel=None), "channel"),
    "ill-typed": (changed(occurredAt=5), "occurredAt"),
    "no date": (changed(occurredAt="not-a-date"), "occurredAt"),
    "not JSON": ("not json", "not JSON"),
    "blank": (" ", "not JSON"),
    "a list": ("[]", "not an event"),
    "nothing": ("null", "not an event"),
    "deep": ("[" * 5_000, "not JSON"),
}

Put = Callable[[str, str], Awaitable[None]]


@dataclass
class RawStream:
    """A stream, and a way to put records into it that no emitter of ours would write."""

    stream: Stream
    put: Put
    clock: ManualClock


@asynccontextmanager
async def sqlite(path: Path, _: pytest.FixtureRequest) -> AsyncIterator[RawStream]:
    with open_rig(path, registry_of("topics")) as rig:
        yield RawStream(rig.stream, rig.put_raw, rig.clock)


@asynccontextmanager
async def model(_: Path, __: pytest.FixtureRequest) -> AsyncIterator[RawStream]:
    clock = ManualClock(T0)
    service = FifoService(clock)
    stream = fifo_stream(service, clock)
    yield RawStream(stream, putter(service, stream), clock)


@asynccontextmanager
async def emulated(_: Path, request: pytest.FixtureRequest) -> AsyncIterator[RawStream]:
    way: Access = request.getfixturevalue("access")
    async with open_client("sqs", way, request.getfixturevalue("session")) as client:
        clock = ManualClock(T0)
        stream = SqsStream(client, await create_queues(client), clock)
        yield RawStream(stream, putter(client, stream), clock)


def putter(client: Any, stream: SqsStream, **attributes: str) -> Put:
    """Sends to the main queue, with text attributes."""

    async def put(group: str, body: str) -> None:
        await client.send_message(
            QueueUrl=stream._queues.main,
            MessageBody=body,
            MessageGroupId=group,
            MessageDeduplicationId=legal_id(f"{group}/{body}"),
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
            },
        )

    return put


ADAPTERS = {"sqlite": sqlite, "model": model, "emulator": emulated}


@pytest.fixture
def engine() -> FlakyEngine:
    return FlakyEngine()


class TestEvents:
    @pytest.mark.parametrize("adapter", ADAPTERS)
    @pytest.mark.parametrize("odd", ODD)
    async def test_an_odd_event_is_a_dead_letter_with_its_reason_and_its_neighbours_go_on(
        self, adapter: str, odd: str, tmp_path: Path, request: pytest.FixtureRequest, engine: FlakyEngine
    ) -> None:
        body, reason = ODD[odd]
        async with ADAPTERS[adapter](tmp_path / "afterturn.db", request) as wired:
            await publish(wired.stream, "a@1")
            await wired.put("a", body)
            await publish(wired.stream, "a@3", "b@1")
            bridge = Bridge(wired.stream, engine, ("topics",), visibility=LEASE)
            while await bridge.pump(Queue.MAIN, limit=1):
                pass
            assert sorted((one.conversation_id, one.occurred_at) for one in engine.taken) == [
                ("a", at(1)),
                ("a", at(3)),
                ("b", at(1)),
            ]
            assert [one.occurred_at for one in engine.taken if one.conversation_id == "a"] == [at(1), at(3)]
            (letter,) = await wired.stream.dead_letters(limit=10)
            assert (letter.body, letter.group) == (body, "a")
            assert reason in letter.reason
            depth = await wired.stream.depth()
            assert (depth.main, depth.retry, depth.dead_letters) == (0, 0, 1)

    @pytest.mark.parametrize("odd", ODD)
    async def test_the_function_does_the_same(self, odd: str, engine: FlakyEngine) -> None:
        """It names none of them in its answer: a dead letter need not come again."""
        body, reason = ODD[odd]
        clock = ManualClock(T0)
        service = FifoService(clock)
        stream = fifo_stream(service, clock)
        await publish(stream, "a@1")
        await putter(service, stream)("a", body)
        await publish(stream, "a@3")
        mapping = EventSourceMapping(service, stream)
        invocation = await mapping.event()
        answer = await respond(Bridge(stream, engine, ("topics",), visibility=LEASE), stream, invocation)
        assert answer == {"batchItemFailures": []}
        await mapping.finish(invocation, answer)
        assert engine.taken == [Signal("topics", "a", at(3))]
        (letter,) = await stream.dead_letters(limit=10)
        assert reason in letter.reason

    @pytest.mark.parametrize("number", ["9" * 18, "9" * 400, "9" * 5_000, "-1", "1e3", "\N{FULLWIDTH DIGIT ONE}"])
    @pytest.mark.parametrize("adapter", ["model", "emulator"])
    async def test_a_number_of_a_stranger_stops_neither_the_bridge_nor_the_letters(
        self, adapter: str, number: str, request: pytest.FixtureRequest, engine: FlakyEngine
    ) -> None:
        """Attributes are anybody's who may send: a time that no clock has, or one that is no number."""
        async with ADAPTERS[adapter](Path(), request) as wired:
            assert isinstance(wired.stream, SqsStream)
            client = wired.stream._client
            attributes = dict.fromkeys(("publishedAt", "deadLetterAt", "deadLetterReceives", "deadLetterOrder"), number)
            await putter(client, wired.stream, **attributes)("a", "not json")
            await putter(client, wired.stream, **attributes)("a", event("a", 1).to_json())
            bridge = Bridge(wired.stream, engine, ("topics",), visibility=LEASE)
            assert await bridge.pump(Queue.MAIN, limit=10) == 2
            assert engine.taken == [Signal("topics", "a", at(1))]
            (letter,) = await wired.stream.dead_letters(limit=10)
            assert letter.body == "not json"
            assert await wired.stream.redrive([letter.id]) == 1
            (again,) = await receive(wired.stream)
            assert again.body == "not json"

    async def test_a_letter_that_a_stranger_has_marked_like_ours_can_be_redriven(
        self, request: pytest.FixtureRequest
    ) -> None:
        """SQS moved it, so its attributes are the sender's: none of them may become an id that SQS does not take."""
        async with ADAPTERS["model"](Path(), request) as wired:
            assert isinstance(wired.stream, SqsStream)
            marks = {"deadLetterId": "x" * 3_000, "deadLetterGroup": "no group\n", "conversation": "other \N{SNOWMAN}"}
            await putter(wired.stream._client, wired.stream, **marks)("a", event("a", 1).to_json())
            await wear_out(wired.stream, wired.clock)
            assert not await receive(wired.stream)
            (letter,) = await wired.stream.dead_letters(limit=10)
            assert await wired.stream.redrive([letter.id]) == 1
            assert names(await receive(wired.stream)) == ["a@1"]
            assert not await wired.stream.dead_letters(limit=10)

    @pytest.mark.parametrize("adapter", ["sqlite", "model"])
    async def test_a_record_for_a_consumer_that_no_bridge_has_ends_as_a_letter_and_comes_back(
        self, adapter: str, tmp_path: Path, request: pytest.FixtureRequest, engine: FlakyEngine
    ) -> None:
        """Another version may have it, so it waits first; nobody else's records wait with it."""
        async with ADAPTERS[adapter](tmp_path / "afterturn.db", request) as wired:
            await publish(wired.stream, "a@1", consumer="gone")
            await publish(wired.stream, "a@1", consumer="topics")
            bridge = Bridge(wired.stream, engine, ("topics",), visibility=LEASE)
            await bridge.pump(Queue.RETRY, limit=10)
            assert engine.taken == [Signal("topics", "a", at(1))]
            assert await bridge.pump(Queue.RETRY, limit=10) == 0
            while not (await wired.stream.depth()).dead_letters:
                wired.clock.advance(timedelta(hours=13))
                await bridge.pump(Queue.RETRY, limit=10)
            (letter,) = await wired.stream.dead_letters(limit=10)
            assert (letter.queue, letter.consumer) == (Queue.RETRY, "gone")
            assert await wired.stream.redrive([letter.id]) == 1
            wiser = Bridge(wired.stream, engine, ("topics", "gone"), visibility=LEASE)
            await wiser.pump(Queue.RETRY, limit=10)
            assert engine.taken[1:] == [Signal("gone", "a", at(1))]


async def test_a_letter_of_a_record_that_wore_out_says_so(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    async with ADAPTERS["model"](tmp_path, request) as wired:
        await publish(wired.stream, "a@1")
        await wear_out(wired.stream, wired.clock)
        assert not await receive(wired.stream)
        (letter,) = await wired.stream.dead_letters(limit=10)
        assert (names([letter]), letter.reason) == (["a@1"], "received 5 times without success")
