"""The strict FIFO model, rule by rule, as the SQS documentation states them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.contract.samples import T0
from tests.fifo import FifoError, FifoService, Limits, partial_failures

from afterturn.testing import ManualClock

SECOND = timedelta(seconds=1)


class QueueClient:
    """One queue with its dead-letter queue, and short names for its calls."""

    def __init__(self, **create: Any) -> None:
        self.clock = ManualClock(T0)
        self.service = FifoService(self.clock)
        self.dead = self.service.create("q-dead.fifo")
        self.url = self.service.create("q.fifo", dead=self.dead, **create)
        self.number = 0

    async def send(self, group: str = "g", deduplication: str | None = None, body: str = "x", **more: Any) -> Any:
        self.number += 1
        return await self.service.send_message(
            QueueUrl=self.url,
            MessageBody=body,
            MessageGroupId=group,
            MessageDeduplicationId=deduplication or f"d{self.number}",
            **more,
        )

    async def receive(self, limit: int = 10, *, url: str | None = None, **more: Any) -> list[dict[str, Any]]:
        answer = await self.service.receive_message(
            QueueUrl=url or self.url, MaxNumberOfMessages=limit, MessageSystemAttributeNames=["All"], **more
        )
        return list(answer.get("Messages", []))

    async def delete(self, message: dict[str, Any]) -> None:
        await self.service.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])

    async def change(self, message: dict[str, Any], seconds: int) -> None:
        await self.service.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=seconds
        )


@pytest.fixture
def queue() -> QueueClient:
    return QueueClient()


def refused(code: str) -> Any:
    return pytest.raises(FifoError, match=code)


async def test_a_deduplication_id_is_remembered_for_five_minutes_after_the_send(queue: QueueClient) -> None:
    """Also after the delete; a duplicate is accepted, answers as the first did, and does not renew the memory."""
    first = await queue.send(deduplication="same", body="one")
    await queue.delete((await queue.receive())[0])
    queue.clock.advance(299 * SECOND)
    again = await queue.send(deduplication="same", body="another")
    assert (again["MessageId"], again["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
    assert not await queue.receive()
    queue.clock.advance(SECOND)
    assert (await queue.send(deduplication="same"))["MessageId"] != first["MessageId"]
    assert len(await queue.receive()) == 1


async def test_a_group_is_blocked_while_any_of_it_is_in_flight(queue: QueueClient) -> None:
    for name in ("a", "a", "a", "b"):
        await queue.send(name)
    first, second = await queue.receive(2)
    assert [first["Attributes"]["MessageGroupId"], second["Attributes"]["MessageGroupId"]] == ["a", "a"]
    await queue.change(first, 0)
    assert [message["Attributes"]["MessageGroupId"] for message in await queue.receive()] == ["b"]
    queue.clock.advance(30 * SECOND)
    assert [message["Attributes"]["ApproximateReceiveCount"] for message in await queue.receive()] == [
        "2",
        "2",
        "1",
        "2",
    ]


async def test_a_receive_brings_several_of_one_group_in_order_and_counts_for_each(queue: QueueClient) -> None:
    """Whoever stops at the first of them has burnt a receive of all."""
    for number in range(4):
        await queue.send(body=f"{number}")
    for count in ("1", "2"):
        batch = await queue.receive()
        assert [message["Body"] for message in batch] == ["0", "1", "2", "3"]
        assert {message["Attributes"]["ApproximateReceiveCount"] for message in batch} == {count}
        queue.clock.advance(30 * SECOND)


ILLEGAL_IDS = ["", "x" * 129, "a b", "é", "🏠", "a\n", "\x7f"]
FORBIDDEN_CHARACTERS = ["a\x00b", "\x0b", "\ufffe", "\uffff", "\ud83d"]
ILLEGAL_ATTRIBUTES = [
    {"": {"DataType": "String", "StringValue": "x"}},
    {".a": {"DataType": "String", "StringValue": "x"}},
    {"AWS.a": {"DataType": "String", "StringValue": "x"}},
    {"a": {"DataType": "Text", "StringValue": "x"}},
    {"a": {"DataType": "String", "StringValue": ""}},
    {"a": {"DataType": "String", "StringValue": "\x00"}},
    {"a": {"DataType": "Number", "StringValue": "x"}},
    {f"a{number}": {"DataType": "String", "StringValue": "x"} for number in range(11)},
]
REFUSED_MESSAGES: list[tuple[str, dict[str, Any]]] = [
    *(("InvalidParameterValue", {"MessageGroupId": value}) for value in ILLEGAL_IDS),
    *(("InvalidParameterValue", {"MessageDeduplicationId": value}) for value in ILLEGAL_IDS),
    *(("InvalidParameterValue", {"MessageAttributes": value}) for value in ILLEGAL_ATTRIBUTES),
    *(("InvalidMessageContents", {"MessageBody": value}) for value in FORBIDDEN_CHARACTERS),
    ("InvalidParameterValue", {"DelaySeconds": 5}),
    ("MissingParameter", {"MessageBody": ""}),
]
LEGAL = {"MessageBody": "\t\r\n😀\ufffd", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
FAILS_ALONE = {"MessageBody", "MessageAttributes"}


@pytest.mark.parametrize(("code", "illegal"), REFUSED_MESSAGES)
async def test_an_illegal_message_is_refused(queue: QueueClient, code: str, illegal: dict[str, Any]) -> None:
    """F19: alone, and in a batch. There, bodies and attributes fail their entry only, ids the whole batch."""
    with refused(code):
        await queue.service.send_message(QueueUrl=queue.url, **{**LEGAL, **illegal})
    entries = [{**LEGAL, **illegal, "Id": "bad"}, {**LEGAL, "Id": "good"}]
    if not illegal.keys() & FAILS_ALONE:
        with refused(code):
            await queue.service.send_message_batch(QueueUrl=queue.url, Entries=entries)
        assert not await queue.receive()
        return
    answer = await queue.service.send_message_batch(QueueUrl=queue.url, Entries=entries)
    assert [(entry["Id"], entry["Code"], entry["SenderFault"]) for entry in answer["Failed"]] == [("bad", code, True)]
    assert [entry["Id"] for entry in answer["Successful"]] == ["good"]
    assert len(await queue.receive()) == 1


@pytest.mark.parametrize("missing", ["MessageGroupId", "MessageDeduplicationId"])
async def test_one_missing_id_refuses_the_whole_batch(queue: QueueClient, missing: str) -> None:
    entries = [
        {"Id": name, "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": name} for name in ("a", "b")
    ]
    del entries[1][missing]
    with pytest.raises(FifoError):
        await queue.service.send_message_batch(QueueUrl=queue.url, Entries=entries)
    assert not await queue.receive()


async def test_sizes_are_bounded_with_attributes_and_over_a_batch() -> None:
    queue = QueueClient(limits=Limits(message_bytes=100))
    await queue.send(body="x" * 100)
    with refused("InvalidParameterValue"):
        await queue.send(body="é" * 51)
    with refused("InvalidParameterValue"):
        await queue.send(body="x" * 90, MessageAttributes={"name": {"DataType": "String", "StringValue": "value"}})
    halves = [
        {"Id": name, "MessageBody": "x" * 60, "MessageGroupId": "g", "MessageDeduplicationId": name} for name in "ab"
    ]
    with refused("BatchRequestTooLong"):
        await queue.service.send_message_batch(QueueUrl=queue.url, Entries=halves)


async def test_attributes_are_returned_only_if_they_were_requested(queue: QueueClient) -> None:
    attributes = {name: {"DataType": "String", "StringValue": "x"} for name in ("a.1", "a.2", "b")}
    await queue.send(MessageAttributes=attributes)
    requested: list[tuple[list[str], set[str]]] = [
        ([], set()),
        (["b"], {"b"}),
        (["a.*"], {"a.1", "a.2"}),
        (["All"], set(attributes)),
        ([".*"], set(attributes)),
    ]
    for names, returned in requested:
        answer = await queue.service.receive_message(
            QueueUrl=queue.url, MessageAttributeNames=names, VisibilityTimeout=0
        )
        (message,) = answer["Messages"]
        assert set(message.get("MessageAttributes", {})) == returned
        assert "Attributes" not in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MaxNumberOfMessages", 0),
        ("MaxNumberOfMessages", 11),
        ("VisibilityTimeout", -1),
        ("VisibilityTimeout", 43_201),
        ("VisibilityTimeout", 1.5),
        ("WaitTimeSeconds", 21),
    ],
)
async def test_a_number_out_of_range_is_refused_and_not_cut(queue: QueueClient, name: str, value: object) -> None:
    with refused("InvalidParameterValue"):
        await queue.service.receive_message(QueueUrl=queue.url, **{name: value})


async def test_an_expired_receipt_handle_is_refused(queue: QueueClient) -> None:
    """Also where nobody has received the message since: this is a FIFO queue."""
    await queue.send()
    (old,) = await queue.receive()
    queue.clock.advance(30 * SECOND)
    with refused("The receipt handle has expired"):
        await queue.delete(old)
    with refused("not available for visibility timeout change"):
        await queue.change(old, 60)
    (new,) = await queue.receive()
    answer = await queue.service.delete_message_batch(
        QueueUrl=queue.url,
        Entries=[{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate((old, new))],
    )
    assert [(one["Id"], one["Code"]) for one in answer["Failed"]] == [("0", "ReceiptHandleIsInvalid")]
    assert [one["Id"] for one in answer["Successful"]] == ["1"]
    await queue.delete(new)
    with refused("ReceiptHandleIsInvalid"):
        await queue.service.delete_message(QueueUrl=queue.url, ReceiptHandle="nonsense")


async def test_a_visibility_of_zero_ends_the_receipt(queue: QueueClient) -> None:
    await queue.send()
    (message,) = await queue.receive(VisibilityTimeout=0)
    with refused("expired"):
        await queue.delete(message)


async def test_a_message_stays_invisible_for_twelve_hours_in_all(queue: QueueClient) -> None:
    await queue.send()
    (message,) = await queue.receive()
    with refused("InvalidParameterValue"):
        await queue.change(message, 43_201)
    await queue.change(message, 43_200)
    queue.clock.advance(SECOND)
    with refused("beyond the limit"):
        await queue.change(message, 43_200)
    await queue.change(message, 43_199)


async def test_a_message_moves_to_the_dead_letters_at_the_receive_after_its_last() -> None:
    """Its id becomes its deduplication id, its time of sending is new, order is kept, and it goes on counting."""
    queue = QueueClient(max_receives=2)
    sent = [await queue.send(deduplication=f"own-{number}", body=f"{number}") for number in range(2)]
    await queue.send("other")
    for _ in range(2):
        assert len(await queue.receive(2)) == 2
        queue.clock.advance(30 * SECOND)
    assert [one["Body"] for one in await queue.receive()] == ["x"]
    letters = await queue.receive(url=queue.dead)
    assert [one["Body"] for one in letters] == ["0", "1"]
    for letter, original in zip(letters, sent, strict=True):
        attributes = letter["Attributes"]
        assert letter["MessageId"] == attributes["MessageDeduplicationId"] == original["MessageId"]
        assert (attributes["MessageGroupId"], attributes["ApproximateReceiveCount"]) == ("g", "3")
        assert attributes["SentTimestamp"] == str(int(queue.clock().timestamp() * 1000))


async def test_the_original_deduplication_id_is_remembered_by_the_queue_of_a_dead_letter() -> None:
    """F4: a redrive with it within five minutes is accepted, and suppressed."""
    queue = QueueClient(max_receives=1)
    await queue.send(deduplication="own")
    await queue.receive()
    queue.clock.advance(30 * SECOND)
    assert not await queue.receive()
    await queue.send(deduplication="own")
    assert not await queue.receive()


async def test_no_more_is_handed_out_than_may_be_in_flight() -> None:
    """Without an error, as FIFO queues do."""
    queue = QueueClient(limits=Limits(in_flight=3))
    for number in range(5):
        await queue.send(f"g{number}")
    first = await queue.receive()
    assert len(first) == 3
    assert not await queue.receive()
    await queue.delete(first[0])
    assert len(await queue.receive()) == 1


async def test_a_receive_considers_a_limited_number_of_messages() -> None:
    """A group with a large backlog starves those behind it."""
    queue = QueueClient(limits=Limits(look_ahead=3))
    for name in ("a", "a", "a", "a", "b"):
        await queue.send(name)
    held = await queue.receive(1)
    assert not await queue.receive()
    await queue.delete(held[0])
    assert [one["Attributes"]["MessageGroupId"] for one in await queue.receive()] == ["a", "a", "a"]


async def test_a_message_is_gone_when_its_retention_ends() -> None:
    queue = QueueClient(limits=Limits(retention_s=60))
    await queue.send()
    queue.clock.advance(60 * SECOND)
    assert not await queue.receive()


async def test_the_same_attempt_brings_the_same_messages(queue: QueueClient) -> None:
    """So a receive whose answer was lost can be repeated, until one of them is touched."""
    await queue.send()
    (message,) = await queue.receive(ReceiveRequestAttemptId="x")
    (again,) = await queue.receive(ReceiveRequestAttemptId="x")
    assert again == message
    assert not await queue.receive(ReceiveRequestAttemptId="y")
    await queue.change(message, 60)
    assert not await queue.receive(ReceiveRequestAttemptId="x")


@pytest.mark.parametrize(
    ("ids", "code"),
    [
        ([], "EmptyBatchRequest"),
        ([str(number) for number in range(11)], "TooManyEntriesInBatchRequest"),
        (["a", "a"], "BatchEntryIdsNotDistinct"),
        (["a b"], "InvalidBatchEntryId"),
        (["x" * 81], "InvalidBatchEntryId"),
    ],
)
async def test_a_malformed_batch_is_refused_whole(queue: QueueClient, ids: list[str], code: str) -> None:
    with refused(code):
        await queue.service.delete_message_batch(
            QueueUrl=queue.url, Entries=[{"Id": one, "ReceiptHandle": "x"} for one in ids]
        )
    with refused(code):
        await queue.service.change_message_visibility_batch(
            QueueUrl=queue.url, Entries=[{"Id": one, "ReceiptHandle": "x", "VisibilityTimeout": 1} for one in ids]
        )


async def test_counts_are_returned_as_text(queue: QueueClient) -> None:
    await queue.send("a")
    await queue.send("b")
    await queue.receive(1)
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    answer = await queue.service.get_queue_attributes(QueueUrl=queue.url, AttributeNames=names)
    assert answer == {"Attributes": {names[0]: "1", names[1]: "1"}}
    assert await queue.service.get_queue_attributes(QueueUrl=queue.url) == {}
    with refused("InvalidAttributeName"):
        await queue.service.get_queue_attributes(QueueUrl=queue.url, AttributeNames=["Age"])


async def test_an_unknown_queue_is_refused(queue: QueueClient) -> None:
    with pytest.raises(FifoError) as raised:
        await queue.service.receive_message(QueueUrl="https://sqs.example.test/000000000000/none.fifo")
    assert raised.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"


async def test_an_unknown_parameter_is_the_callers_mistake(queue: QueueClient) -> None:
    with pytest.raises(TypeError):
        await queue.service.receive_message(QueueUrl=queue.url, Visibility=5)


async def test_partial_failures_are_seeded(queue: QueueClient) -> None:
    """They fail on the side of the service, without effect, and the same seed fails the same entries."""
    runs = []
    for _ in range(2):
        service = FifoService(queue.clock, partial=partial_failures(7, 0.5))
        url = service.create("p.fifo")
        answer = await service.send_message_batch(
            QueueUrl=url,
            Entries=[
                {"Id": f"{n}", "MessageBody": "x", "MessageGroupId": f"{n}", "MessageDeduplicationId": f"{n}"}
                for n in range(10)
            ],
        )
        failed = [one["Id"] for one in answer["Failed"]]
        assert not any(one["SenderFault"] for one in answer["Failed"])
        got = await service.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        assert len(got["Messages"]) == 10 - len(failed)
        runs.append(failed)
    assert runs[0] == runs[1]
