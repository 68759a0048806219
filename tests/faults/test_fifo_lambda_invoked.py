"""F23 once more, with a function that the emulator really invokes for a queue."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

from tests.contract.fifo_emulator import create_queues
from tests.contract.samples import at
from tests.contract.stream import publish
from tests.emulator import access, emulator, session  # noqa: F401

from afterturn.aws.session import Access, open_client
from afterturn.clock import system_clock, to_text
from afterturn.stream.sqs import QueueUrls, SqsStream

SOURCE = Path(__file__).with_name("fifo_lambda_function.py")


ENTRY = """
import os, sys
sys.path[:0] = os.environ["MODULE_PATHS"].split(os.pathsep)
from bridge_function import handler
"""
"""In place of a zip with everything in it: the function finds what this test finds."""


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("function.py", ENTRY)
        archive.writestr("bridge_function.py", SOURCE.read_text("utf-8"))
    return buffer.getvalue()


async def deploy(client: Any, sqs: Any, queues: QueueUrls, access: Access, signals: Path) -> None:  # noqa: F811
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
    told = await sqs.get_queue_attributes(QueueUrl=queues.main, AttributeNames=["QueueArn"])
    await client.create_event_source_mapping(
        EventSourceArn=told["Attributes"]["QueueArn"],
        FunctionName="bridge",
        BatchSize=10,
        FunctionResponseTypes=["ReportBatchItemFailures"],
    )


async def test_a_failing_record_in_the_middle_of_a_group_holds_up_what_stands_behind_it(
    access: Access,  # noqa: F811
    session: Any,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Its head and the other group are signalled at once, its tail after the failing one is buried; nothing is lost."""
    signals = tmp_path / "signals"
    signals.touch()
    async with open_client("sqs", access, session) as sqs, open_client("lambda", access, session) as functions:
        queues = await create_queues(sqs)
        await sqs.set_queue_attributes(QueueUrl=queues.main, Attributes={"VisibilityTimeout": "180"})
        stream = SqsStream(sqs, queues, system_clock)
        await publish(stream, "A@1")
        await sqs.send_message(
            QueueUrl=queues.main, MessageBody="not json", MessageGroupId="A", MessageDeduplicationId="odd"
        )
        await publish(stream, "B@1", "A@4")
        await deploy(functions, sqs, queues, access, signals)
        for _ in range(600):
            depth = await stream.depth()
            if not depth.main:
                break
            await asyncio.sleep(0.1)
        told = signals.read_text("utf-8").splitlines()
        assert [set(line.split()) for line in told] == [
            {f"topics/A@{to_text(at(1))}", f"topics/B@{to_text(at(1))}"},
            {f"topics/A@{to_text(at(4))}"},
        ]
        assert depth.dead_letters == 1
        (letter,) = await stream.dead_letters(limit=10)
        assert (letter.body, letter.reason, letter.group) == ("not json", "the record is not JSON", "A")
