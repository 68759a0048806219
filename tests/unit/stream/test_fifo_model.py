"""The strict FIFO model, rule by rule, as the SQS documentation states them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.contract.samples import T0
from tests.fifo import FifoError, FifoService, Limits, partial_failures

from afterturn.testing import ManualClock

SECOND = timedelta(seconds=1)


class Box:
    """A queue with its dead letters, and short names for its calls."""

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
def box() -> Box:
    return Box()


def refused(code: str) -> Any:
    return pytest.raises(FifoError, match=code)


async def test_a_deduplication_id_is_remembered_for_five_minutes_after_the_send(box: Box) -> None:
    """Also after the delete; a duplicate is accepted, answers as the first did, and does not renew the memory."""
    first = await box.send(deduplication="same", body="one")
    await box.delete((await box.receive())[0])
    box.clock.advance(299 * SECOND)
    again = await box.send(deduplication="same", body="another")
    assert (again["MessageId"], again["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
    assert not await box.receive()
    box.clock.advance(SECOND)
    assert (await box.send(deduplication="same"))["MessageId"] != first["MessageId"]
    assert len(await box.receive()) == 1


async def test_a_group_is_blocked_while_any_of_it_is_in_flight(box: Box) -> None:
    for name in ("a", "a", "a", "b"):
        await box.send(name)
    one, two = await box.receive(2)
    assert [one["Attributes"]["MessageGroupId"], two["Attributes"]["MessageGroupId"]] == ["a", "a"]
    await box.change(one, 0)
    assert [message["Attributes"]["MessageGroupId"] for message in await box.receive()] == ["b"]
    box.clock.advance(30 * SECOND)
    assert [message["Attributes"]["ApproximateReceiveCount"] for message in await box.receive()] == ["2", "2", "1", "2"]


async def test_a_receive_brings_several_of_one_group_in_order_and_counts_for_each(box: Box) -> None:
    """Whoever stops at the first of them has burnt a receive of all."""
    for number in range(4):
        await box.send(body=f"{number}")
    for count in ("1", "2"):
        batch = await box.receive()
        assert [message["Body"] for message in batch] == ["0", "1", "2", "3"]
        assert {message["Attributes"]["ApproximateReceiveCount"] for message in batch} == {count}
        box.clock.advance(30 * SECOND)


@pytest.mark.parametrize("group", ["", "x" * 129, "a b", "é", "🏠", "a\n", "\x7f"])
@pytest.mark.parametrize("name", ["MessageGroupId", "MessageDeduplicationId"])
async def test_illegal_ids_are_refused(box: Box, name: str, group: str) -> None:
    given = {"MessageGroupId": "g", "MessageDeduplicationId": "d", name: group}
    with refused("InvalidParameterValue"):
        await box.service.send_message(QueueUrl=box.url, MessageBody="x", **given)
    with refused("InvalidParameterValue"):
        await box.service.send_message_batch(QueueUrl=box.url, Entries=[{"Id": "0", "MessageBody": "x", **given}])


@pytest.mark.parametrize("missing", ["MessageGroupId", "MessageDeduplicationId"])
async def test_one_missing_id_refuses_the_whole_batch(box: Box, missing: str) -> None:
    entries = [
        {"Id": name, "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": name} for name in ("a", "b")
    ]
    del entries[1][missing]
    with pytest.raises(FifoError):
        await box.service.send_message_batch(QueueUrl=box.url, Entries=entries)
    assert not await box.receive()


@pytest.mark.parametrize("body", ["a\x00b", "\x0b", "\ufffe", "\uffff", "\ud83d"])
async def test_forbidden_characters_are_refused(box: Box, body: str) -> None:
    """F19: a send fails whole, in a batch the entry alone; what is allowed goes through."""
    with refused("InvalidMessageContents"):
        await box.send(body=body)
    answer = await box.service.send_message_batch(
        QueueUrl=box.url,
        Entries=[
            {"Id": "bad", "MessageBody": body, "MessageGroupId": "g", "MessageDeduplicationId": "1"},
            {"Id": "good", "MessageBody": "\t\r\n😀\ufffd", "MessageGroupId": "g", "MessageDeduplicationId": "2"},
        ],
    )
    assert [(one["Id"], one["Code"], one["SenderFault"]) for one in answer["Failed"]] == [
        ("bad", "InvalidMessageContents", True)
    ]
    assert [one["Id"] for one in answer["Successful"]] == ["good"]


async def test_sizes_are_bounded_with_attributes_and_over_a_batch() -> None:
    box = Box(limits=Limits(message_bytes=100))
    await box.send(body="x" * 100)
    with refused("InvalidParameterValue"):
        await box.send(body="é" * 51)
    with refused("InvalidParameterValue"):
        await box.send(body="x" * 90, MessageAttributes={"name": {"DataType": "String", "StringValue": "value"}})
    with refused("MissingParameter"):
        await box.send(body="")
    halves = [
        {"Id": name, "MessageBody": "x" * 60, "MessageGroupId": "g", "MessageDeduplicationId": name} for name in "ab"
    ]
    with refused("BatchRequestTooLong"):
        await box.service.send_message_batch(QueueUrl=box.url, Entries=halves)


async def test_a_delay_of_one_message_is_refused(box: Box) -> None:
    with refused("InvalidParameterValue"):
        await box.send(DelaySeconds=5)


@pytest.mark.parametrize(
    "attributes",
    [
        {"": {"DataType": "String", "StringValue": "x"}},
        {".a": {"DataType": "String", "StringValue": "x"}},
        {"AWS.a": {"DataType": "String", "StringValue": "x"}},
        {"a": {"DataType": "Text", "StringValue": "x"}},
        {"a": {"DataType": "String", "StringValue": ""}},
        {"a": {"DataType": "String", "StringValue": "\x00"}},
        {"a": {"DataType": "Number", "StringValue": "x"}},
        {f"a{number}": {"DataType": "String", "StringValue": "x"} for number in range(11)},
    ],
)
async def test_odd_message_attributes_are_refused(box: Box, attributes: dict[str, Any]) -> None:
    with refused("InvalidParameterValue"):
        await box.send(MessageAttributes=attributes)


async def test_attributes_are_told_only_where_they_were_asked_for(box: Box) -> None:
    given = {name: {"DataType": "String", "StringValue": "x"} for name in ("a.1", "a.2", "b")}
    await box.send(MessageAttributes=given)
    asked: list[tuple[list[str], set[str]]] = [
        ([], set()),
        (["b"], {"b"}),
        (["a.*"], {"a.1", "a.2"}),
        (["All"], set(given)),
        ([".*"], set(given)),
    ]
    for names, told in asked:
        answer = await box.service.receive_message(QueueUrl=box.url, MessageAttributeNames=names, VisibilityTimeout=0)
        (message,) = answer["Messages"]
        assert set(message.get("MessageAttributes", {})) == told
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
async def test_what_is_out_of_range_is_refused_and_not_cut(box: Box, name: str, value: object) -> None:
    with refused("InvalidParameterValue"):
        await box.service.receive_message(QueueUrl=box.url, **{name: value})


async def test_an_expired_receipt_handle_is_refused(box: Box) -> None:
    """Also where nobody has received the message since: this is a FIFO queue."""
    await box.send()
    (old,) = await box.receive()
    box.clock.advance(30 * SECOND)
    with refused("The receipt handle has expired"):
        await box.delete(old)
    with refused("not available for visibility timeout change"):
        await box.change(old, 60)
    (new,) = await box.receive()
    answer = await box.service.delete_message_batch(
        QueueUrl=box.url,
        Entries=[{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate((old, new))],
    )
    assert [(one["Id"], one["Code"]) for one in answer["Failed"]] == [("0", "ReceiptHandleIsInvalid")]
    assert [one["Id"] for one in answer["Successful"]] == ["1"]
    await box.delete(new)
    with refused("ReceiptHandleIsInvalid"):
        await box.service.delete_message(QueueUrl=box.url, ReceiptHandle="nonsense")


async def test_a_visibility_of_zero_ends_the_receipt(box: Box) -> None:
    await box.send()
    (one,) = await box.receive(VisibilityTimeout=0)
    with refused("expired"):
        await box.delete(one)


async def test_a_message_stays_invisible_for_twelve_hours_in_all(box: Box) -> None:
    await box.send()
    (one,) = await box.receive()
    with refused("InvalidParameterValue"):
        await box.change(one, 43_201)
    await box.change(one, 43_200)
    box.clock.advance(SECOND)
    with refused("beyond the limit"):
        await box.change(one, 43_200)
    await box.change(one, 43_199)


async def test_a_message_moves_to_the_dead_letters_at_the_receive_after_its_last() -> None:
    """Its id becomes its deduplication id, its time of sending is new, order is kept, and it goes on counting."""
    box = Box(max_receives=2)
    sent = [await box.send(deduplication=f"own-{number}", body=f"{number}") for number in range(2)]
    await box.send("other")
    for _ in range(2):
        assert len(await box.receive(2)) == 2
        box.clock.advance(30 * SECOND)
    assert [one["Body"] for one in await box.receive()] == ["x"]
    letters = await box.receive(url=box.dead)
    assert [one["Body"] for one in letters] == ["0", "1"]
    for letter, original in zip(letters, sent, strict=True):
        told = letter["Attributes"]
        assert letter["MessageId"] == told["MessageDeduplicationId"] == original["MessageId"]
        assert (told["MessageGroupId"], told["ApproximateReceiveCount"]) == ("g", "3")
        assert told["SentTimestamp"] == str(int(box.clock().timestamp() * 1000))


async def test_the_original_deduplication_id_is_remembered_by_the_queue_of_a_dead_letter() -> None:
    """F4: a redrive with it within five minutes is accepted, and suppressed."""
    box = Box(max_receives=1)
    await box.send(deduplication="own")
    await box.receive()
    box.clock.advance(30 * SECOND)
    assert not await box.receive()
    await box.send(deduplication="own")
    assert not await box.receive()


async def test_no_more_is_handed_out_than_may_be_in_flight() -> None:
    """Without an error, as FIFO queues do."""
    box = Box(limits=Limits(in_flight=3))
    for number in range(5):
        await box.send(f"g{number}")
    first = await box.receive()
    assert len(first) == 3
    assert not await box.receive()
    await box.delete(first[0])
    assert len(await box.receive()) == 1


async def test_a_receive_looks_no_further_than_so_many_messages() -> None:
    """A group with a large backlog starves those behind it."""
    box = Box(limits=Limits(look_ahead=3))
    for name in ("a", "a", "a", "a", "b"):
        await box.send(name)
    held = await box.receive(1)
    assert not await box.receive()
    await box.delete(held[0])
    assert [one["Attributes"]["MessageGroupId"] for one in await box.receive()] == ["a", "a", "a"]


async def test_a_message_is_gone_when_its_retention_ends() -> None:
    box = Box(limits=Limits(retention_s=60))
    await box.send()
    box.clock.advance(60 * SECOND)
    assert not await box.receive()


async def test_the_same_attempt_brings_the_same_messages(box: Box) -> None:
    """So a receive whose answer was lost can be repeated, until one of them is touched."""
    await box.send()
    (one,) = await box.receive(ReceiveRequestAttemptId="x")
    (again,) = await box.receive(ReceiveRequestAttemptId="x")
    assert again == one
    assert not await box.receive(ReceiveRequestAttemptId="y")
    await box.change(one, 60)
    assert not await box.receive(ReceiveRequestAttemptId="x")


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
async def test_a_malformed_batch_is_refused_whole(box: Box, ids: list[str], code: str) -> None:
    with refused(code):
        await box.service.delete_message_batch(
            QueueUrl=box.url, Entries=[{"Id": one, "ReceiptHandle": "x"} for one in ids]
        )
    with refused(code):
        await box.service.change_message_visibility_batch(
            QueueUrl=box.url, Entries=[{"Id": one, "ReceiptHandle": "x", "VisibilityTimeout": 1} for one in ids]
        )


async def test_counts_are_told_as_text(box: Box) -> None:
    await box.send("a")
    await box.send("b")
    await box.receive(1)
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    answer = await box.service.get_queue_attributes(QueueUrl=box.url, AttributeNames=names)
    assert answer == {"Attributes": {names[0]: "1", names[1]: "1"}}
    assert await box.service.get_queue_attributes(QueueUrl=box.url) == {}
    with refused("InvalidAttributeName"):
        await box.service.get_queue_attributes(QueueUrl=box.url, AttributeNames=["Age"])


async def test_a_queue_that_does_not_exist_is_named_so(box: Box) -> None:
    with pytest.raises(FifoError) as raised:
        await box.service.receive_message(QueueUrl="https://sqs.example.test/000000000000/none.fifo")
    assert raised.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"


async def test_an_unknown_parameter_is_the_callers_mistake(box: Box) -> None:
    with pytest.raises(TypeError):
        await box.service.receive_message(QueueUrl=box.url, Visibility=5)


async def test_partial_failures_are_seeded(box: Box) -> None:
    """They fail on the side of the service, without effect, and the same seed fails the same entries."""
    runs = []
    for _ in range(2):
        service = FifoService(box.clock, partial=partial_failures(7, 0.5))
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
