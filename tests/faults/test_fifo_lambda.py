"""F23 and its kin: the bridge as a Lambda function on a FIFO queue."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from tests.contract.fifo_model import fifo_stream
from tests.contract.samples import T0, at
from tests.contract.stream import event, names, publish, receive
from tests.fifo import FifoService, throttled

from afterturn.bridge.aws_lambda import Handler, Invocations, respond
from afterturn.bridge.bridge import Bridge
from afterturn.errors import EngineUnavailable
from afterturn.reactions.port import RefusedSignal, Signal, SignalResult
from afterturn.stream.port import Queue, Receipt
from afterturn.stream.sqs import SqsStream
from afterturn.stream.sqs.records import legal_id
from afterturn.testing import Fault, Faults, ManualClock, Moment, faulty


class Engine:
    def __init__(self) -> None:
        self.taken: list[Signal] = []
        self.down = False
        self.refusing = False

    async def ready(self) -> None:
        pass

    async def signal(self, signals: Sequence[Signal], receipts: Sequence[Receipt]) -> SignalResult:
        if self.down:
            raise EngineUnavailable("no answer")
        if self.refusing:
            return SignalResult([RefusedSignal(one, "RPCError") for one in signals])
        self.taken += signals
        return SignalResult()


class Mapping:
    """An event source mapping: receives a batch, invokes, and deletes what the answer does not name."""

    def __init__(self, service: FifoService, stream: SqsStream, queue: Queue = Queue.MAIN) -> None:
        self._service = service
        self._url = stream._queues.live(queue)

    async def event(self, *, without_group: Sequence[str] = ()) -> dict[str, Any]:
        answer = await self._service.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=180,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        records = []
        for message in answer.get("Messages", []):
            attributes = dict(message["Attributes"])
            if message["Body"] in without_group:
                del attributes["MessageGroupId"]
            custom = message.get("MessageAttributes", {})
            records.append(
                {
                    "messageId": message["MessageId"],
                    "receiptHandle": message["ReceiptHandle"],
                    "body": message["Body"],
                    "attributes": attributes,
                    "messageAttributes": {
                        name: {"dataType": value["DataType"], "stringValue": value["StringValue"]}
                        for name, value in custom.items()
                    },
                    "md5OfBody": message["MD5OfBody"],
                    "eventSource": "aws:sqs",
                    "eventSourceARN": f"arn:aws:sqs:us-east-1:000000000000:{self._url.rpartition('/')[2]}",
                    "awsRegion": "us-east-1",
                }
            )
        return {"Records": records}

    async def finish(self, invocation: dict[str, Any], answer: Any) -> None:
        assert list(answer) == ["batchItemFailures"]
        failed = set()
        for one in answer["batchItemFailures"]:
            assert list(one) == ["itemIdentifier"]
            failed.add(one["itemIdentifier"])
        assert failed <= {record["messageId"] for record in invocation["Records"]}
        for record in invocation["Records"]:
            if record["messageId"] not in failed:
                await self._service.delete_message(QueueUrl=self._url, ReceiptHandle=record["receiptHandle"])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(T0)


@pytest.fixture
def service(clock: ManualClock) -> FifoService:
    return FifoService(clock)


@pytest.fixture
def engine() -> Engine:
    return Engine()


def bridge_of(stream: SqsStream, engine: Engine, *consumers: str) -> Bridge:
    return Bridge(stream, engine, consumers or ("topics",), visibility=timedelta(seconds=30))


async def send(service: FifoService, stream: SqsStream, group: str, body: str) -> None:
    await service.send_message(
        QueueUrl=stream._queues.main,
        MessageBody=body,
        MessageGroupId=group,
        MessageDeduplicationId=legal_id(f"{group}/{body}"),
    )


def ids(invocation: dict[str, Any], *positions: int) -> dict[str, list[dict[str, str]]]:
    records = invocation["Records"]
    return {"batchItemFailures": [{"itemIdentifier": records[position]["messageId"]} for position in positions]}


async def test_f23_what_stands_behind_a_failure_fails_with_it_and_is_not_signalled(
    service: FifoService, clock: ManualClock, engine: Engine
) -> None:
    """m1(A) m2(A, fails) m3(B) m4(A): exactly m2 and m4."""
    healthy = fifo_stream(service, clock)
    client = faulty(service, Faults.first(1, Fault(Moment.BEFORE, throttled), verb="send_message"))
    stream = SqsStream(client, healthy._queues, clock)
    await publish(healthy, "A@1")
    await send(service, healthy, "A", "not json")
    await publish(healthy, "B@1", "A@4")
    mapping = Mapping(service, healthy)
    invocation = await mapping.event()
    answer = await respond(bridge_of(stream, engine), stream, invocation)
    assert answer == ids(invocation, 1, 3)
    assert json.loads(json.dumps(answer)) == answer
    assert engine.taken == [Signal("topics", "A", at(1)), Signal("topics", "B", at(1))]
    await mapping.finish(invocation, answer)

    clock.advance(timedelta(minutes=3))
    invocation = await mapping.event()
    answer = await respond(bridge_of(stream, engine), stream, invocation)
    assert answer == {"batchItemFailures": []}
    await mapping.finish(invocation, answer)
    assert engine.taken[2:] == [Signal("topics", "A", at(4))]
    depth = await healthy.depth()
    assert (depth.main, depth.dead_letters) == (0, 1)


async def test_f23_odd_records_are_buried_one_by_one(service: FifoService, clock: ManualClock, engine: Engine) -> None:
    """Each with its reason, none of them reported, their neighbours signalled."""
    stream = fifo_stream(service, clock)
    await publish(stream, "A@1")
    for body in ("not json", "[]", event("A", 2).to_json()):
        await send(service, stream, "A", body)
    await publish(stream, "A@3")
    mapping = Mapping(service, stream)
    invocation = await mapping.event(without_group=[event("A", 2).to_json()])
    answer = await respond(bridge_of(stream, engine), stream, invocation)
    assert answer == {"batchItemFailures": []}
    await mapping.finish(invocation, answer)
    assert engine.taken == [Signal("topics", "A", at(3))]
    letters = await stream.dead_letters(limit=10)
    assert [(letter.body, letter.group) for letter in letters[:2]] == [("not json", "A"), ("[]", "A")]
    assert letters[0].reason == "the record is not JSON"
    assert letters[2].reason == "the record has no message group"
    assert await stream.redrive([letters[2].id]) == 1
    assert names(await receive(stream)) == ["A@2"]


async def test_an_engine_that_is_down_fails_the_whole_batch_and_puts_it_off(
    service: FifoService, clock: ManualClock, engine: Engine
) -> None:
    """The first time for seconds only, not for the visibility timeout of the queue."""
    stream = fifo_stream(service, clock)
    await publish(stream, "A@1", "B@1")
    await send(service, stream, "C", "not json")
    mapping = Mapping(service, stream)
    invocation = await mapping.event()
    engine.down = True
    answer = await respond(bridge_of(stream, engine), stream, invocation)
    assert answer == ids(invocation, 0, 1)
    await mapping.finish(invocation, answer)
    clock.advance(timedelta(seconds=6))
    engine.down = False
    invocation = await mapping.event()
    assert len(invocation["Records"]) == 2
    await mapping.finish(invocation, await respond(bridge_of(stream, engine), stream, invocation))
    assert len(engine.taken) == 2
    depth = await stream.depth()
    assert (depth.main, depth.dead_letters) == (0, 1)


async def test_a_consumer_that_refuses_is_parked_and_the_record_is_done(
    service: FifoService, clock: ManualClock, engine: Engine
) -> None:
    stream = fifo_stream(service, clock)
    await publish(stream, "A@1")
    engine.refusing = True
    mapping = Mapping(service, stream)
    invocation = await mapping.event()
    answer = await respond(bridge_of(stream, engine), stream, invocation)
    assert answer == {"batchItemFailures": []}
    await mapping.finish(invocation, answer)

    direct = Mapping(service, stream, Queue.RETRY)
    invocation = await direct.event()
    answer = await respond(bridge_of(stream, engine), stream, invocation)
    assert answer == ids(invocation, 0)
    await direct.finish(invocation, answer)
    depth = await stream.depth()
    assert (depth.main, depth.retry) == (0, 1)


async def test_a_record_that_cannot_be_parked_comes_again_with_its_group(
    service: FifoService, clock: ManualClock, engine: Engine
) -> None:
    healthy = fifo_stream(service, clock)
    await publish(healthy, "A@1", "A@2", "B@1")
    client = faulty(service, Faults.first(1, Fault(Moment.BEFORE, throttled), verb="send_message"))
    stream = SqsStream(client, healthy._queues, clock)
    engine.refusing = True
    invocation = await Mapping(service, healthy).event()
    assert await respond(bridge_of(stream, engine), stream, invocation) == ids(invocation, 0, 1)


@pytest.mark.parametrize("event", [{}, [], None, {"Records": 5}, {"detail": {}}])
async def test_what_is_no_event_of_sqs_fails_the_invocation(
    service: FifoService, clock: ManualClock, engine: Engine, event: Any
) -> None:
    stream = fifo_stream(service, clock)
    with pytest.raises(ValueError, match="not one of SQS"):
        await respond(bridge_of(stream, engine), stream, event)


async def test_a_queue_of_another_lane_is_refused_before_anything_is_done(
    service: FifoService, clock: ManualClock, engine: Engine
) -> None:
    stream = fifo_stream(service, clock)
    await publish(stream, "A@1")
    invocation = await Mapping(service, stream).event()
    invocation["Records"][0]["eventSourceARN"] = "arn:aws:sqs:us-east-1:000000000000:preview-events.fifo"
    with pytest.raises(ValueError, match=r"'preview-events.fifo' is not one of this bridge"):
        await respond(bridge_of(stream, engine), stream, invocation)
    assert not engine.taken


def test_bridge_and_clients_are_opened_once(service: FifoService, clock: ManualClock, engine: Engine) -> None:
    """And an invocation after one that failed goes on."""
    stream = fifo_stream(service, clock)
    opened: list[int] = []

    @asynccontextmanager
    async def opener() -> AsyncIterator[tuple[Bridge, Invocations]]:
        opened.append(1)
        yield bridge_of(stream, engine), stream

    handler = Handler(opener)
    assert handler({"Records": []}, None) == {"batchItemFailures": []}
    with pytest.raises(ValueError, match="not one of SQS"):
        handler({}, None)
    assert handler({"Records": []}, None) == {"batchItemFailures": []}
    assert opened == [1]
    handler.close()
