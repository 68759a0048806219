"""The function that the emulator invokes: the bridge over SQS, with an engine that appends its signals to a file."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from afterturn.aws.session import Access, open_client
from afterturn.bridge.aws_lambda import Handler, Invocations
from afterturn.bridge.bridge import Bridge
from afterturn.clock import system_clock, to_text
from afterturn.errors import StreamUnavailable
from afterturn.reactions.port import Signal, SignalResult
from afterturn.stream.port import Delivery, Receipt
from afterturn.stream.sqs import QueueUrls, SqsStream


class FlakyStream(SqsStream):
    """The first dead letter cannot be sent."""

    failed = False

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        if not self.failed:
            self.failed = True
            raise StreamUnavailable("no answer")
        await super().dead_letter(delivery, reason=reason)


class FileEngine:
    """Appends a line for each batch."""

    async def ready(self) -> None:
        pass

    async def signal(self, signals: Sequence[Signal], receipts: Sequence[Receipt]) -> SignalResult:
        write(
            " ".join(f"{signal.consumer}/{signal.conversation_id}@{to_text(signal.occurred_at)}" for signal in signals)
        )
        return SignalResult()


def write(line: str) -> None:
    with open(os.environ["SIGNALS"], "a", encoding="utf-8") as file:
        file.write(f"{line}\n")


@asynccontextmanager
async def opener() -> AsyncIterator[tuple[Bridge, Invocations]]:
    account = os.environ["ACCOUNT"]
    access = Access(region="us-east-1", endpoint=os.environ["ENDPOINT"], access_key=account, secret_key="test")
    async with open_client("sqs", access) as client:
        stream = FlakyStream(client, QueueUrls(*os.environ["QUEUES"].split()), system_clock)
        yield Bridge(stream, FileEngine(), ["topics"], visibility=timedelta(seconds=30)), stream


handler = Handler(opener)
