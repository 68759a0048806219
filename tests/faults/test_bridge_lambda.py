"""The bridge as a Lambda function on a FIFO queue (F23)."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import zipfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.contract.fifo_emulator import create_queues
from tests.contract.samples import at
from tests.contract.stream import event, names, publish, receive
from tests.faults.rig import LEASE, FlakyEngine
from tests.fifo import FifoService, throttled

from afterturn.aws.session import Access, open_client
from afterturn.bridge.aws_lambda import Handler, Invocations, respond
from afterturn.bridge.bridge import Bridge
from afterturn.clock import system_clock, to_text
from afterturn.reactions.port import Signal
from afterturn.stream.port import Queue
from afterturn.stream.sqs import QueueUrls, SqsStream
from afterturn.stream.sqs.records import legal_id
from afterturn.testing import Fault, Faults, ManualClock, Moment, faulty

ALL_DONE: dict[str, list[dict[str, str]]] = {"batchItemFailures": []}


class EventSourceMapping:
    """An event source mapping: receives a batch, invokes, and deletes what the response does not name."""

    def __init__(self, service: FifoService, stream: SqsStream, queue: Queue = Queue.MAIN) -> None:
        self._service = service
        self._url = stream._queues.live(queue)

    async def event(self, *, without_group: Sequence[str] = ()) -> dict[str, Any]:
        response = await self._service.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=180,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        records = []
        for message in response.get("Messages", []):
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

    async def finish(self, invocation: dict[str, Any], response: Any) -> None:
        assert list(response) == ["batchItemFailures"]
        failed = {failure["itemIdentifier"] for failure in response["batchItemFailures"]}
        assert failed <= {record["messageId"] for record in invocation["Records"]}
        for record in invocation["Records"]:
            if record["messageId"] not in failed:
                await self._service.delete_message(QueueUrl=self._url, ReceiptHandle=record["receiptHandle"])

    async def run(self, bridge: Bridge, stream: SqsStream) -> tuple[dict[str, Any], Any]:
        """One invocation: its event and its response."""
        invocation = await self.event()
        response = await respond(bridge, stream, invocation)
        await self.finish(invocation, response)
        return invocation, response


@pytest.fixture
def mapping(service: FifoService, stream: SqsStream) -> EventSourceMapping:
    return EventSourceMapping(service, stream)


def bridge_of(stream: SqsStream, engine: FlakyEngine) -> Bridge:
    return Bridge(stream, engine, ("topics",), visibility=LEASE)


def failing_once(service: FifoService, stream: SqsStream, clock: ManualClock) -> SqsStream:
    """The first record that is sent, to a dead-letter or retry queue, is refused."""
    faults = Faults.first(1, Fault(Moment.BEFORE, throttled), verb="send_message")
    return SqsStream(faulty(service, faults), stream._queues, clock)


async def send(service: FifoService, stream: SqsStream, group: str, body: str) -> None:
    await service.send_message(
        QueueUrl=stream._queues.main,
        MessageBody=body,
        MessageGroupId=group,
        MessageDeduplicationId=legal_id(f"{group}/{body}"),
    )


def failures(invocation: dict[str, Any], *positions: int) -> dict[str, list[dict[str, str]]]:
    records = invocation["Records"]
    return {"batchItemFailures": [{"itemIdentifier": records[position]["messageId"]} for position in positions]}


async def test_records_behind_a_failed_record_of_their_group_fail_with_it(
    service: FifoService, stream: SqsStream, clock: ManualClock, engine: FlakyEngine, mapping: EventSourceMapping
) -> None:
    """m1(A) m2(A, fails) m3(B) m4(A): exactly m2 and m4, which are not signalled."""
    failing = failing_once(service, stream, clock)
    bridge = bridge_of(failing, engine)
    await publish(stream, "A@1")
    await send(service, stream, "A", "not json")
    await publish(stream, "B@1", "A@4")
    invocation, response = await mapping.run(bridge, failing)
    assert response == failures(invocation, 1, 3)
    assert json.loads(json.dumps(response)) == response
    assert engine.taken == [Signal("topics", "A", at(1)), Signal("topics", "B", at(1))]

    clock.advance(timedelta(minutes=3))
    assert (await mapping.run(bridge, failing))[1] == ALL_DONE
    assert engine.taken[2:] == [Signal("topics", "A", at(4))]
    depth = await stream.depth()
    assert (depth.main, depth.dead_letters) == (0, 1)


async def test_a_record_without_a_group_is_dead_lettered_and_can_be_redriven(
    service: FifoService, stream: SqsStream, engine: FlakyEngine, mapping: EventSourceMapping
) -> None:
    """Its neighbours are signalled."""
    await publish(stream, "A@1")
    await send(service, stream, "A", event("A", 2).to_json())
    await publish(stream, "A@3")
    invocation = await mapping.event(without_group=[event("A", 2).to_json()])
    response = await respond(bridge_of(stream, engine), stream, invocation)
    assert response == ALL_DONE
    await mapping.finish(invocation, response)
    assert engine.taken == [Signal("topics", "A", at(3))]
    (letter,) = await stream.dead_letters(limit=10)
    assert letter.reason == "the record has no message group"
    assert await stream.redrive([letter.id]) == 1
    assert names(await receive(stream)) == ["A@2"]


async def test_an_unavailable_engine_fails_the_whole_batch_and_delays_it(
    service: FifoService, stream: SqsStream, clock: ManualClock, engine: FlakyEngine, mapping: EventSourceMapping
) -> None:
    """The first time for seconds only, not for the visibility timeout of the queue. An invalid record does not wait."""
    await publish(stream, "A@1", "B@1")
    await send(service, stream, "C", "not json")
    engine.down = 1
    invocation, response = await mapping.run(bridge_of(stream, engine), stream)
    assert response == failures(invocation, 0, 1)
    clock.advance(timedelta(seconds=6))
    assert (await mapping.run(bridge_of(stream, engine), stream))[1] == ALL_DONE
    assert len(engine.taken) == 2
    depth = await stream.depth()
    assert (depth.main, depth.dead_letters) == (0, 1)


async def test_an_event_for_a_refusing_consumer_moves_to_the_retry_queue(
    service: FifoService, stream: SqsStream, engine: FlakyEngine, mapping: EventSourceMapping
) -> None:
    await publish(stream, "A@1")
    engine.refusing["topics"] = 2
    assert (await mapping.run(bridge_of(stream, engine), stream))[1] == ALL_DONE
    retry = EventSourceMapping(service, stream, Queue.RETRY)
    invocation, response = await retry.run(bridge_of(stream, engine), stream)
    assert response == failures(invocation, 0)
    depth = await stream.depth()
    assert (depth.main, depth.retry) == (0, 1)


async def test_a_record_that_cannot_be_deferred_is_received_again_with_its_group(
    service: FifoService, stream: SqsStream, clock: ManualClock, engine: FlakyEngine, mapping: EventSourceMapping
) -> None:
    failing = failing_once(service, stream, clock)
    await publish(stream, "A@1", "A@2", "B@1")
    engine.refusing["topics"] = 2
    invocation, response = await mapping.run(bridge_of(failing, engine), failing)
    assert response == failures(invocation, 0, 1)


@pytest.mark.parametrize("event", [{}, [], None, {"Records": 5}, {"detail": {}}])
async def test_an_event_that_is_not_from_sqs_fails_the_invocation(
    stream: SqsStream, engine: FlakyEngine, event: Any
) -> None:
    with pytest.raises(ValueError, match="not one of SQS"):
        await respond(bridge_of(stream, engine), stream, event)


async def test_records_of_another_lane_s_queue_are_refused_before_anything_is_done(
    stream: SqsStream, engine: FlakyEngine, mapping: EventSourceMapping
) -> None:
    await publish(stream, "A@1")
    invocation = await mapping.event()
    invocation["Records"][0]["eventSourceARN"] = "arn:aws:sqs:us-east-1:000000000000:preview-events.fifo"
    with pytest.raises(ValueError, match=r"'preview-events.fifo' is not one of this bridge"):
        await respond(bridge_of(stream, engine), stream, invocation)
    assert not engine.taken


def test_bridge_and_clients_are_opened_once(stream: SqsStream, engine: FlakyEngine) -> None:
    """An invocation after a failed one uses them again."""
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


FUNCTION_SOURCE = Path(__file__).with_name("bridge_function.py")
ENTRY = """
import os, sys
sys.path[:0] = os.environ["MODULE_PATHS"].split(os.pathsep)
from bridge_function import handler
"""
"""The function imports what this test imports, in place of a zip with all dependencies."""


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("function.py", ENTRY)
        archive.writestr("bridge_function.py", FUNCTION_SOURCE.read_text("utf-8"))
    return buffer.getvalue()


async def deploy(client: Any, sqs: Any, queues: QueueUrls, access: Access, signals: Path) -> None:
    """The function and its mapping, as `aws deploy bridge` makes them."""
    await client.create_function(
        FunctionName="bridge",
        Runtime=f"python3.{sys.version_info.minor}",
        Role=f"arn:aws:iam::{access.access_key}:role/bridge",
        Handler="function.handler",
        Code={"ZipFile": zipped()},
        Timeout=30,
        Environment={
            "Variables": {
                "MODULE_PATHS": os.pathsep.join(path for path in sys.path if path),
                "SIGNALS": str(signals),
                "ACCOUNT": str(access.access_key),
                "ENDPOINT": str(access.endpoint),
                "QUEUES": " ".join((queues.main, queues.retry, queues.main_dead, queues.retry_dead)),
            }
        },
    )
    attributes = await sqs.get_queue_attributes(QueueUrl=queues.main, AttributeNames=["QueueArn"])
    await client.create_event_source_mapping(
        EventSourceArn=attributes["Attributes"]["QueueArn"],
        FunctionName="bridge",
        BatchSize=10,
        FunctionResponseTypes=["ReportBatchItemFailures"],
    )


async def test_the_deployed_function_holds_up_records_behind_a_failed_one(
    access: Access,
    session: Any,
    tmp_path: Path,
) -> None:
    """The group's head and the other group are signalled at once, its tail after the failed record is dead-lettered."""
    signals = tmp_path / "signals"
    signals.touch()
    async with open_client("sqs", access, session) as sqs, open_client("lambda", access, session) as functions:
        queues = await create_queues(sqs)
        await sqs.set_queue_attributes(QueueUrl=queues.main, Attributes={"VisibilityTimeout": "180"})
        stream = SqsStream(sqs, queues, system_clock)
        await publish(stream, "A@1")
        await sqs.send_message(
            QueueUrl=queues.main, MessageBody="not json", MessageGroupId="A", MessageDeduplicationId="invalid"
        )
        await publish(stream, "B@1", "A@4")
        await deploy(functions, sqs, queues, access, signals)
        for _ in range(600):
            depth = await stream.depth()
            if not depth.main:
                break
            await asyncio.sleep(0.1)
        batches = signals.read_text("utf-8").splitlines()
        assert [set(line.split()) for line in batches] == [
            {f"topics/A@{to_text(at(1))}", f"topics/B@{to_text(at(1))}"},
            {f"topics/A@{to_text(at(4))}"},
        ]
        assert depth.dead_letters == 1
        (letter,) = await stream.dead_letters(limit=10)
        assert (letter.body, letter.reason, letter.group) == ("not json", "the record is not JSON", "A")
