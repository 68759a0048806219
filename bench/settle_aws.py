"""Settling on DynamoDB and SQS, as the emulator has them, against the bare two calls.

The baseline is one TransactWriteItems with the same items and one SendMessage, by clients of aiobotocore without
anything of ours around them. Every request is worked out beforehand: nothing is read, no record is made, nothing is
checked. Before it is timed, what both sides leave behind is compared item by item and message by message.

Turns of both sides take turns, in one table and one queue: the emulator slows down as it fills.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiobotocore.session import AioSession

from afterturn.aws.names import Names
from afterturn.aws.session import Access, open_client
from afterturn.clock import Clock, system_clock, to_millis
from afterturn.model import Turn
from afterturn.settle import Settler
from afterturn.store.dynamodb import DynamoStore, RecencyLayouts
from afterturn.store.dynamodb.layout import TableLayouts
from afterturn.store.dynamodb.plans import ConversationHead, WriteContext, WritePlan, plan_settle
from afterturn.store.dynamodb.requests import Attributes, from_item
from afterturn.store.dynamodb.table import Table
from afterturn.stream.sqs import QueueUrls, SqsPublisher, find_queues, open_publisher
from afterturn.stream.sqs.records import outgoing
from bench import servers, workload
from bench.measure import Report, figure, ratio

EMITTER = "worker"
NEW, KNOWN = "new conversation", "known conversation"
TURNS_EACH = 10


@dataclass(frozen=True, slots=True)
class Prepared:
    """The two requests of a turn."""

    transaction: dict[str, Any]
    message: dict[str, Any]


@dataclass(slots=True)
class Bare:
    """The baseline."""

    dynamodb: Any
    sqs: Any

    async def settle(self, prepared: Prepared) -> None:
        await self.dynamodb.transact_write_items(**prepared.transaction)
        await self.sqs.send_message(**prepared.message)


@dataclass(slots=True)
class _Round:
    """Milliseconds a turn of one side, by kind."""

    took: dict[str, list[float]] = field(default_factory=lambda: {NEW: [], KNOWN: []})

    async def timed(self, kind: str, call: Awaitable[object]) -> None:
        began = time.perf_counter()
        await call
        self.took[kind].append((time.perf_counter() - began) * 1e3)

    def mean(self, *kinds: str) -> float:
        values = [one for kind in kinds for one in self.took[kind]]
        return sum(values) / len(values)


def run(*, rounds: int = 7, conversations: int = 20, folder: Path | None = None) -> Report:
    """``folder`` is of no use here: the emulator keeps everything in memory."""
    with servers.emulator() as access:
        return asyncio.run(_run(access, rounds, conversations))


async def _run(access: Access, rounds: int, conversations: int) -> Report:
    await check_same(access)
    ours: list[_Round] = []
    theirs: list[_Round] = []
    async with servers.provisioned(access) as names, AsyncExitStack() as stack:
        queues = await find_queues(access, names)
        settler = await stack.enter_async_context(_settler(access, names, queues))
        bare = await stack.enter_async_context(_bare(access))
        counted = await _count(access, names, queues)
        for number in range(rounds + 1):
            mine = workload.live_turns(conversations, TURNS_EACH, seed=2 * number + 100)
            others = workload.live_turns(conversations, TURNS_EACH, seed=2 * number + 101)
            prepared = [prepare(turns, names, queues, datetime.now(UTC)) for turns in others]
            left, right = await _round(settler, bare, mine, prepared)
            if number:  # the first one warms up
                ours.append(left)
                theirs.append(right)
    both = (NEW, KNOWN)
    return Report(
        "settle-aws",
        (
            *(figure(f"settle, {kind}", "ms", [one.mean(kind) for one in ours]) for kind in both),
            *(figure(f"bare calls, {kind}", "ms", [one.mean(kind) for one in theirs]) for kind in both),
        ),
        (
            *(_ratio(f"settle / bare calls, {kind}", ours, theirs, kind) for kind in both),
            _ratio(f"settle / bare calls, all {TURNS_EACH} turns", ours, theirs, *both),
        ),
        {
            "requests": counted,
            "conversations": conversations,
            "turnsEach": TURNS_EACH,
            "messagesPerTurn": 2,
            "callers": 1,
        },
    )


def _ratio(name: str, ours: Sequence[_Round], theirs: Sequence[_Round], *kinds: str) -> Any:
    return ratio(name, [one.mean(*kinds) for one in ours], [one.mean(*kinds) for one in theirs], aim=1.2, at_most=True)


async def _round(
    settler: Settler, bare: Bare, mine: Sequence[Sequence[Turn]], prepared: Sequence[Sequence[Prepared]]
) -> tuple[_Round, _Round]:
    """Turn by turn, one side after the other; who comes first changes."""
    ours, theirs = _Round(), _Round()
    for place in range(TURNS_EACH):
        kind = KNOWN if place else NEW
        for number, (turns, requests) in enumerate(zip(mine, prepared, strict=True)):
            if number % 2:
                await theirs.timed(kind, bare.settle(requests[place]))
                await ours.timed(kind, settler.settle(turns[place]))
            else:
                await ours.timed(kind, settler.settle(turns[place]))
                await theirs.timed(kind, bare.settle(requests[place]))
    return ours, theirs


def prepare(turns: Sequence[Turn], names: Names, queues: QueueUrls, now: datetime) -> list[Prepared]:
    """The requests of a conversation's turns, all settled at ``now``."""
    head: ConversationHead | None = None
    found = []
    for turn in turns:
        plan = plan_settle(turn, WriteContext(head), RecencyLayouts(), now=now, emitter=EMITTER, call=uuid.uuid4().hex)
        assert isinstance(plan, WritePlan)
        assert plan.event is not None
        head = plan.head
        transaction = {
            "TransactItems": [{action.verb.value: action.params(names.table)} for action in plan.actions],
            "ClientRequestToken": str(uuid.uuid4()),
        }
        found.append(
            Prepared(transaction, {"QueueUrl": queues.main, **outgoing(plan.event, None, None, to_millis(now))})
        )
    return found


async def check_same(access: Access) -> None:
    """Both sides, at one instant and each in an account of its own, leave the same items and messages.

    Raises AssertionError where they don't.
    """
    now = datetime.now(UTC)
    conversations = workload.live_turns(5, 4)
    left = []
    for account in ("100000000002", "100000000003"):
        own = replace(access, access_key=account)
        async with servers.provisioned(own) as names:
            queues = await find_queues(own, names)
            if account.endswith("2"):
                async with _settler(own, names, queues, clock=lambda: now) as settler:
                    for turn in workload.interleaved(conversations):
                        await settler.settle(turn)
            else:
                async with _bare(own) as bare:
                    for requests in conversations:
                        for prepared in prepare(requests, names, queues, now):
                            await bare.settle(prepared)
            left.append(await _content(own, names, queues))
    assert left[0] == left[1], "the baseline writes something else"


async def _content(
    access: Access, names: Names, queues: QueueUrls
) -> tuple[list[Attributes], list[tuple[str, Any, Any]]]:
    """Every item but for the name of the call that wrote it, and every message."""
    async with open_client("dynamodb", access) as dynamodb, open_client("sqs", access) as sqs:
        scanned = await dynamodb.scan(TableName=names.table)
        assert "LastEvaluatedKey" not in scanned
        items = [{k: v for k, v in from_item(item).items() if k != "call"} for item in scanned["Items"]]
        messages: list[tuple[str, Any, Any]] = []
        while True:
            answer = await sqs.receive_message(
                QueueUrl=queues.main,
                MaxNumberOfMessages=10,
                AttributeNames=["MessageGroupId", "MessageDeduplicationId"],
                MessageAttributeNames=["All"],
            )
            if not answer.get("Messages"):
                break
            for one in answer["Messages"]:
                own = one["Attributes"]["MessageGroupId"], one["Attributes"]["MessageDeduplicationId"]
                messages.append((one["Body"], own, one["MessageAttributes"]))
                await sqs.delete_message(QueueUrl=queues.main, ReceiptHandle=one["ReceiptHandle"])
    items.sort(key=lambda item: (item["PK"], item["SK"]))
    return items, sorted(messages, key=lambda one: one[1])


async def _count(access: Access, names: Names, queues: QueueUrls) -> dict[str, dict[str, int]]:
    """The requests of a settle by operation, on clients that are not timed. ``another process``: one that has not
    written this conversation yet."""
    requests = servers.Requests()
    (turns,) = workload.live_turns(1, 4, seed=99)
    found: dict[str, dict[str, int]] = {}
    async with AsyncExitStack() as stack:
        for process, kinds in enumerate(((NEW, KNOWN), (f"{KNOWN}, another process",))):
            settler = await stack.enter_async_context(_settler(access, names, queues, requests))
            await settler.settle(workload.live_turns(1, 1, seed=97 + process)[0][0])  # the layout is on hand then
            requests.taken()
            for kind in kinds:
                await settler.settle(turns[len(found)])
                found[kind] = requests.taken()
    return found


@asynccontextmanager
async def _settler(
    access: Access,
    names: Names,
    queues: QueueUrls,
    requests: servers.Requests | None = None,
    clock: Clock = system_clock,
) -> AsyncIterator[Settler]:
    """What a process that settles is made of."""
    async with (
        open_client("dynamodb", access) as client,
        open_client("sqs", access) as watched,
        open_publisher(access, queues, clock) as publisher,
    ):
        if requests is not None:
            requests.watch(client)
            requests.watch(watched)
        emitter = publisher if requests is None else SqsPublisher(watched, queues, clock)
        table = Table(client, names.table)
        yield Settler(DynamoStore(table, layout_source=TableLayouts(table)), emitter, clock, EMITTER)


@asynccontextmanager
async def _bare(access: Access) -> AsyncIterator[Bare]:
    session = AioSession()
    where = {
        "region_name": access.region,
        "endpoint_url": access.endpoint,
        "aws_access_key_id": access.access_key,
        "aws_secret_access_key": access.secret_key,
    }
    async with session.create_client("dynamodb", **where) as dynamodb, session.create_client("sqs", **where) as sqs:
        yield Bare(dynamodb, sqs)
